# SPDX-License-Identifier: Apache-2.0
"""headwise under torch's own names: `enable()` puts it there for the process, `disabled()` off for one thread."""

from __future__ import annotations

import contextlib
import threading

import torch
import torch.nn.functional as F
from torch.overrides import has_torch_function

from . import _attention, _flash, _plain
from ._causal_bias import is_causal_bias, torchs_own
from ._errors import DTypeError, ShapeError
from ._switch import is_off, thread

_lock = threading.Lock()
_count = 0
_replaced = None  # torch's function and its setting of the fast path, while headwise stands in their place
_torchs = F.scaled_dot_product_attention
_is_flash_allowed = torch._C._get_flash_sdp_enabled


class _Enabled:
    """What `enable()` gives: leaving a `with` block takes it back."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        disable()


def enable():
    """headwise computes torch's attention on CPUs, in the whole process, until as many calls of `disable()`.

    It stands in for torch.nn.functional.scaled_dot_product_attention and under the CPU's flash operators, so that
    nn.MultiheadAttention, nn.TransformerEncoder, Hugging Face models and C++ callers get it unchanged, in any thread.
    torch's fast path for encoders in eval is off meanwhile: it builds every matrix, and gives NaN for rows that see
    nothing. Calls that headwise does not take go to torch, and so do those under sdpa_kernel(SDPBackend.MATH) and
    `disabled()`; `explain` says why.

    Returns:
        A context manager: `with headwise.torch.enable(): ...` takes it back at the end.
    """
    global _count, _replaced
    with _lock:
        if _count == 0:
            _replaced = (F.scaled_dot_product_attention, torch.backends.mha.get_fastpath_enabled())
            F.scaled_dot_product_attention = scaled_dot_product_attention
            torch.backends.mha.set_fastpath_enabled(False)
            _flash.install()
        _count += 1
    return _Enabled()


def disable():
    """Takes one `enable()` back; with the last of them torch is as it was. Without one it does nothing."""
    global _count, _replaced
    with _lock:
        if _count == 0:
            return
        _count -= 1
        if _count == 0:
            function, fast_path = _replaced
            if F.scaled_dot_product_attention is scaled_dot_product_attention:  # else somebody replaced it after us
                F.scaled_dot_product_attention = function
            torch.backends.mha.set_fastpath_enabled(fast_path)
            _flash.remove()
            _replaced = None


def is_enabled():
    """Whether torch's attention is headwise's in this thread."""
    return _count > 0 and not is_off()


@contextlib.contextmanager
def disabled():
    """In a `with` block, in this thread alone, torch computes its own attention.

    A torch that does not hand out its flash kernel (torch.library.get_kernel) computes on its plain path there, and
    gradients of calls that would have gone to the flash kernel are headwise's.
    """
    before = is_off()
    thread.off = True
    try:
        yield
    finally:
        thread.off = before


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    """torch.nn.functional.scaled_dot_product_attention while headwise is enabled."""
    if attn_mask is None and dropout_p == 0 and not is_off() and _is_flash_allowed():
        context = _plain.attend(query, key, value, is_causal, scale, enable_gqa)
        if context is not None:
            return context
    theirs = _torchs if _replaced is None else _replaced[0]
    arguments = (query, key, value, attn_mask, dropout_p, is_causal)
    options = {"scale": scale, "enable_gqa": True} if enable_gqa else {"scale": scale}  # torch 2.4 knows no groups
    if attn_mask is not None and is_causal_bias(attn_mask):
        mask, theirs = None, torchs_own
        arguments, options = (*arguments, options), {}
    else:
        mask = attn_mask
    if has_torch_function((query, key, value, mask)) or why_torch(query, key, value, mask) is not None:
        return theirs(*arguments, **options)
    try:
        return _attention.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    except (ShapeError, DTypeError):  # torch's own word on it
        return theirs(*arguments, **options)


# TorchScript compiles the name as torch's operator, under which the flash operators are headwise's.
if hasattr(torch.jit._builtins, "_register_builtin"):
    torch.jit._builtins._register_builtin(scaled_dot_product_attention, "aten::scaled_dot_product_attention")


def why_torch(query, key, value, attn_mask):
    """Why torch computes a call and not headwise; None where headwise does."""
    if is_off():
        return "headwise is off in this thread (disabled())"
    if not _is_flash_allowed():
        return "sdpa_kernel leaves the flash backend out, whose place headwise takes"
    for name, tensor in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
        if tensor is None and name == "attn_mask":
            continue
        if not isinstance(tensor, torch.Tensor):
            return f"{name} is no tensor"
        if not tensor.is_cpu and not tensor.is_meta:
            return f"{name} is on {tensor.device}, headwise computes on the CPU"
        if tensor.is_nested or tensor.layout is not torch.strided:
            return f"{name} is nested or sparse"
    if query.dtype not in _FLOATS:
        return f"query is {query.dtype}, no type of headwise"
    return None


_FLOATS = frozenset((torch.float32, torch.float64, torch.bfloat16, torch.float16))
