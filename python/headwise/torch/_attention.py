# SPDX-License-Identifier: Apache-2.0
"""`scaled_dot_product_attention` with torch's signature and conventions, and the choice of the way a call goes."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad
from torch.overrides import handle_torch_function, has_torch_function

from headwise._attention import AttentionResult

from . import _autograd, _composite, _op, _plain, _transforms
from ._causal_bias import causal_of, is_causal_bias
from ._errors import DTypeError, ShapeError
from ._options import Options, drawn_seed
from ._problem import are_plain_inputs, check_inputs, check_tensor, four_axes, split_mask

_WHO = "scaled_dot_product_attention"
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter, type(None)))
_are_transforms_active = torch._C._are_functorch_transforms_active
_dispatch_modes = torch._C._len_torch_dispatch_stack


def scaled_dot_product_attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    *,
    scale=None,
    enable_gqa=False,
    mask=None,
    bias=None,
    causal=False,
    query_offset=None,
    window=None,
    kv_lengths=None,
    softcap=None,
    alibi_slopes=None,
    sinks=None,
    seed=None,
    batch_offset=0,
    head_offset=0,
    return_lse=False,
    return_weights=False,
    stats=None,
):
    """torch.nn.functional.scaled_dot_product_attention with torch's conventions, and the keywords of
    `headwise.attention` beside them.

    Args:
        query: (..., heads, seq_q, head_dim); key: (..., kv_heads, seq_kv, head_dim);
        value: (..., kv_heads, seq_kv, v_head_dim). float32, float64, bfloat16 or float16, on the CPU, of any strides.
            The axes before heads broadcast; with two axes there is one head.
        attn_mask: broadcastable to (..., heads, seq_q, seq_kv). bool: True = attend. Numbers are added to the scores,
            and get a gradient; -inf hides the key. float32 beside 16-bit queries is added in float32. Or a CausalBias
            of torch.nn.attention.bias, for which no matrix is made.
        dropout_p: in [0, 1]; applies whenever it is above 0, as in torch. Its seed is drawn from torch's CPU generator.
        is_causal: query row i sees keys 0..i (upper left). Together with attn_mask both must allow a key.
        scale: 1 / sqrt(head_dim) unless given.
        enable_gqa: heads may be a multiple of kv_heads. Keys and values are not repeated in memory.
        mask, bias: as attn_mask, beside it: bool alone and numbers alone.
        causal: as is_causal, or "upper_left" or "lower_right": the last query at the last key.
        query_offset: query row i stands at position i + query_offset (0); an integer, or (batch,) integers.
        window, kv_lengths, softcap, alibi_slopes, sinks, batch_offset, head_offset, return_lse, return_weights, stats:
            as in `headwise.attention`. kv_lengths and query_offset are tensors, lists or integers.
        seed: of dropout, in place of a drawn one.

    Returns:
        The context, (..., heads, seq_q, v_head_dim), dense, its axes in memory in the order of query's: heads that were
        split from one row merge without a copy. An `AttentionResult` if any more is asked for.

    A row that sees no key is 0, with gradient 0. A hidden key is not read. The second derivative, forward mode and
    gradients through returned weights and lse are there in eager mode, in O(seq_q * seq_kv) memory.

    Raises:
        ValueError, TypeError: both are a RuntimeError too.
    """
    if (
        attn_mask is mask is bias is query_offset is window is kv_lengths is softcap is alibi_slopes is sinks is None
        and dropout_p == 0
        and causal is return_lse is return_weights is False
        and batch_offset == head_offset == 0
        and not stats
    ):
        context = _plain.attend(query, key, value, is_causal, scale, enable_gqa)
        if context is not None:
            return context
    if attn_mask is not None and is_causal_bias(attn_mask):
        if causal is not False or query_offset is not None:
            raise ShapeError(f"{_WHO}: causal, query_offset and an attn_mask of class CausalBias exclude each other")
        check_inputs(_WHO, query, key, value)
        is_causal, causal = causal_of(_WHO, attn_mask, is_causal, query, key)
        attn_mask = None
    tensors = (query, key, value, attn_mask, mask, bias, alibi_slopes, sinks)
    if has_torch_function(tensors):
        return handle_torch_function(
            scaled_dot_product_attention, tensors, query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
            enable_gqa=enable_gqa, mask=mask, bias=bias, causal=causal, query_offset=query_offset, window=window,
            kv_lengths=kv_lengths, softcap=softcap, alibi_slopes=alibi_slopes, sinks=sinks, seed=seed,
            batch_offset=batch_offset, head_offset=head_offset, return_lse=return_lse, return_weights=return_weights,
            stats=stats,
        )  # fmt: skip
    if torch.is_autocast_enabled("cpu"):
        query, key, value, attn_mask, bias = (_autocast(t) for t in (query, key, value, attn_mask, bias))
    if not are_plain_inputs(query, key, value):
        check_inputs(_WHO, query, key, value)
    if attn_mask is not None or mask is not None or bias is not None:
        mask, bias = _masks(attn_mask, mask, bias, query)
    if alibi_slopes is not None:
        check_tensor(_WHO, "alibi_slopes", alibi_slopes, query)
    if sinks is not None:
        check_tensor(_WHO, "sinks", sinks, query)
    problem = four_axes(_WHO, query, key, value, mask, bias, enable_gqa)
    if not 0 <= dropout_p <= 1:
        raise ShapeError(f"{_WHO}: dropout_p must be in [0, 1], got {dropout_p}")
    if return_weights not in (False, True, "after_dropout"):
        raise ShapeError(f'{_WHO}: return_weights must be False, True or "after_dropout", got {return_weights!r}')
    if dropout_p == 0:
        seed = None
    elif seed is None:
        seed = drawn_seed()
    if causal is False and query_offset is None:
        alignment, offset = bool(is_causal), 0
    else:
        alignment, offset = _alignment(is_causal, causal, query_offset)
    options = Options(
        _WHO, alignment, offset, window, kv_lengths, scale, softcap, dropout_p if dropout_p < 1 else 0.0, seed,
        batch_offset, head_offset, return_lse, return_weights, stats or None,
    )  # fmt: skip
    context, lse, weights, found = attend_four_axes(problem, alibi_slopes, sinks, options)
    if dropout_p == 1:  # where, not times 0: a NaN is dropped too
        context = torch.where(torch.zeros((), dtype=torch.bool), context, 0.0)
    if problem.lead is not None:
        context = _with_lead(context, problem.lead, 2)
        lse = None if lse is None else _with_lead(lse, problem.lead, 1)
        weights = None if weights is None else _with_lead(weights, problem.lead, 2)
        found = {n: _with_lead(t, problem.lead, t.dim() - 2) for n, t in found.items()} if found else None
    if not (return_lse or return_weights or stats):
        return context
    return AttentionResult(context, lse, weights, found)


def pose(query, key, value, attn_mask, enable_gqa):
    """The problem of a call with torch's arguments alone; throws what the call would."""
    check_inputs(_WHO, query, key, value)
    if attn_mask is not None and is_causal_bias(attn_mask):
        causal_of(_WHO, attn_mask, False, query, key)
        attn_mask = None
    mask, bias = _masks(attn_mask, None, None, query)
    return four_axes(_WHO, query, key, value, mask, bias, enable_gqa)


def attend_four_axes(problem, alibi_slopes, sinks, options):
    """(context, lse, weights, stats) of a checked problem; a float32 bias beside 16-bit tensors is kept exact."""
    q, k, v, mask, bias, _ = problem
    if bias is not None and bias.dtype is not q.dtype:
        given = q.dtype
        context, lse, weights, stats = attend(q.float(), k.float(), v.float(), bias, alibi_slopes, sinks, mask, options)
        return context.to(given), lse, None if weights is None else weights.to(given), stats
    return attend(q, k, v, bias, alibi_slopes, sinks, mask, options)


def attend(q, k, v, bias, alibi_slopes, sinks, mask, options):
    """(context, lse, weights, stats): by the operator wherever torch traces or transforms, else straight."""
    if torch.compiler.is_compiling():
        return _op.attend(q, k, v, bias, alibi_slopes, sinks, mask, options)
    tensors = (q, k, v, bias, alibi_slopes, sinks, mask)
    if forward_ad._current_level >= 0 and any(
        t is not None and t.is_floating_point() and forward_ad.unpack_dual(t).tangent is not None for t in tensors
    ):
        return (*_composite.attend(*tensors, options.settled()), None)
    if _are_transforms_active():
        return _transforms.attend(q, k, v, bias, alibi_slopes, sinks, mask, options)
    if _dispatch_modes() or not q.is_cpu or not _PLAIN.issuperset(map(type, tensors)):
        return _op.attend(q, k, v, bias, alibi_slopes, sinks, mask, options)
    return _autograd.attend(q, k, v, bias, alibi_slopes, sinks, mask, options)


def _autocast(tensor):
    if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.dtype is not torch.float64:
        return tensor.to(torch.get_autocast_dtype("cpu"))
    return tensor


def _masks(attn_mask, mask, bias, query):
    """(mask, bias) of all three together."""
    if mask is not None:
        check_tensor(_WHO, "mask", mask, query)
        if mask.dtype is not torch.bool:
            raise DTypeError(f"{_WHO}: mask must be torch.bool (True = attend), got {mask.dtype}")
    if bias is not None:
        check_tensor(_WHO, "bias", bias, query)
        if bias.dtype not in (query.dtype, torch.float32):
            raise DTypeError(f"{_WHO}: bias must be {query.dtype} like query or torch.float32, got {bias.dtype}")
    if attn_mask is None:
        return mask, bias
    seen, added = split_mask(_WHO, attn_mask, query)
    try:
        mask = seen if mask is None else mask if seen is None else mask & seen
        bias = added if bias is None else bias if added is None else bias + added
    except RuntimeError:
        other = mask if seen is not None else bias
        raise ShapeError(
            f"{_WHO}: attn_mask and {'mask' if seen is not None else 'bias'} must broadcast, "
            f"got {tuple(attn_mask.shape)} and {tuple(other.shape)}"
        ) from None
    return mask, bias


def _alignment(is_causal, causal, query_offset):
    """(causal, query_offset) as `Options` has them: torch's reading, row 0 at key 0, unless another is named."""
    if causal == "lower_right":
        if query_offset is not None:
            raise ShapeError(f'{_WHO}: causal="lower_right" and query_offset both say where the queries stand')
        if is_causal:
            raise ShapeError(f'{_WHO}: is_causal=True is upper left; give it or causal="lower_right"')
        return "lower_right", 0
    if causal not in (False, True, "upper_left"):
        raise ShapeError(f'{_WHO}: causal must be False, True, "upper_left" or "lower_right", got {causal!r}')
    if causal == "upper_left" and query_offset is not None:
        raise ShapeError(f'{_WHO}: causal="upper_left" and query_offset both say where the queries stand')
    return bool(is_causal or causal), 0 if query_offset is None else query_offset


def _with_lead(tensor, lead, inner):
    """A result of four axes with the caller's leading axes: those, then the last `inner`."""
    return tensor.reshape(*lead, *tensor.shape[tensor.dim() - inner :])
