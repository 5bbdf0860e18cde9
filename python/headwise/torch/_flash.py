# SPDX-License-Identifier: Apache-2.0
"""headwise as the kernels of torch's CPU flash operators, for callers that do not come through Python's function."""

from __future__ import annotations

import warnings

import torch

from . import _kernels
from ._options import Options
from ._switch import is_off

_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
_BACKWARD = "_scaled_dot_product_flash_attention_for_cpu_backward"
_library = None
_torchs = {}  # torch's own kernels, where its version can give them


def install():
    global _library
    get_kernel = getattr(torch.library, "get_kernel", None)
    if get_kernel is not None and not _torchs:
        for name in (_FORWARD, _BACKWARD):
            _torchs[name] = get_kernel(f"aten::{name}", "CPU")
    _library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced, which is what is wanted
        _library.impl(_FORWARD, _forward, "CPU")
        _library.impl(_BACKWARD, _backward, "CPU")


def remove():
    global _library
    _library._destroy()
    _library = None


def _problem(query, key, value, attn_mask, is_causal, scale):
    """(query, key, value, mask, bias, options); a float32 mask beside 16-bit queries is kept exact by widening them."""
    mask = bias = None
    if attn_mask is not None:
        four = attn_mask[(None,) * (4 - attn_mask.dim())]
        mask, bias = (four, None) if four.dtype is torch.bool else (None, four)
    if bias is not None and bias.dtype is not query.dtype:
        query, key, value = query.float(), key.float(), value.float()
    options = Options("scaled_dot_product_attention", causal=bool(is_causal), scale=scale, return_lse=True)
    return query, key, value, mask, bias, options


def _forward(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    if is_off():
        return _torchs_forward(query, key, value, dropout_p, is_causal, attn_mask, scale)
    given = query.dtype
    query, key, value, mask, bias, options = _problem(query, key, value, attn_mask, is_causal, scale)
    done = _kernels.forward(query, key, value, bias, None, None, mask, options, save=False)
    # torch's own mark of a row that sees nothing, should its backward be the one that reads it.
    return done.context.to(given), done.lse.masked_fill_(done.lse == -torch.inf, 0.0)


def _torchs_forward(query, key, value, dropout_p, is_causal, attn_mask, scale):
    if _FORWARD in _torchs:
        keys = torch._C._dispatch_keys(query)
        return _torchs[_FORWARD].call_boxed(
            keys, query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )
    # A torch that does not hand out its kernel: its plain path. Backward reads nothing of the sums.
    math = torch.ops.aten._scaled_dot_product_attention_math
    out, _ = math(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale)
    return out, query.new_zeros(query.shape[:3], dtype=_kernels.sums_dtype(query.dtype))


def _backward(grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None):
    if is_off() and _BACKWARD in _torchs:
        keys = torch._C._dispatch_keys(query)
        return _torchs[_BACKWARD].call_boxed(
            keys, grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )
    given = query.dtype
    query, key, value, mask, bias, options = _problem(query, key, value, attn_mask, is_causal, scale)
    # One logsumexp holds less than a row's maximum and sum: both are computed again.
    done = _kernels.forward(query, key, value, bias, None, None, mask, options, save=True)
    saved = (done.kept, done.row_max, done.row_sum)
    arguments = (query, key, value, bias, None, None, mask)
    needed = (True, True, True, False, False, False)
    found = _kernels.backward(grad_out.to(query.dtype), *arguments, *saved, options, needed)
    return tuple(gradient.to(given) for gradient in found[:3])
