# SPDX-License-Identifier: Apache-2.0
"""The kernels on plain CPU tensors, by address and strides: nothing is copied, results are tensors of torch's."""

from __future__ import annotations

from typing import NamedTuple

import torch

from headwise import _headwise

_SIXTEEN_BIT = (torch.bfloat16, torch.float16)


class Forward(NamedTuple):
    """What one forward wrote; None where not asked for. `kept` is the context backward needs: unrounded."""

    context: torch.Tensor
    lse: torch.Tensor | None
    weights: torch.Tensor | None
    stats: dict | None
    kept: torch.Tensor | None
    row_max: torch.Tensor | None
    row_sum: torch.Tensor | None


def sums_dtype(dtype):
    return torch.float32 if dtype in _SIXTEEN_BIT else dtype


def new_context(q, v):
    """(batch, heads, seq_q, v_head_dim), not set; dense, its axes in memory in the order of q's: heads that were split
    from one row merge into one without a copy."""
    width = v.shape[3]
    if width == q.shape[3]:
        return torch.empty_like(q)
    batch, heads, seq, _ = q.shape
    if q.stride(1) >= q.stride(2):
        return q.new_empty((batch, heads, seq, width))
    return q.new_empty_strided((batch, heads, seq, width), (seq * heads * width, width, heads * width, 1))


def readable(tensor):
    """The tensor with its numbers in memory as they are: torch keeps some negations for later."""
    return tensor.resolve_neg() if tensor is not None and tensor.is_neg() else tensor


def forward(q, k, v, bias, alibi_slopes, sinks, mask, options, save):
    """Runs the forward kernel. Tensors as in `headwise.attention`; options: settled ones."""
    context = new_context(q, v)
    kept = row_max = row_sum = lse = weights = None
    sums = sums_dtype(q.dtype)
    if save or options.return_lse or options.return_weights:
        rows = q.shape[:3]
    if save:
        kept = context if sums is q.dtype else context.new_empty(context.shape, dtype=sums)
        row_max = q.new_empty(rows, dtype=sums)
        row_sum = q.new_empty(rows, dtype=sums)
    if options.return_lse:
        lse = q.new_empty(rows, dtype=sums)
    if options.return_weights:
        weights = q.new_empty((*rows, k.shape[2]))
    who, causal, offset, window, lengths, scale, softcap, dropout, seed, batch_offset, head_offset, *_ = options
    stats = _headwise.tensor_attention(
        who,
        readable(q),
        readable(k),
        readable(v),
        mask,
        readable(bias),
        causal,
        None if causal == "lower_right" else offset,
        window,
        lengths,
        scale,
        softcap,
        readable(alibi_slopes),
        readable(sinks),
        dropout,
        seed,
        batch_offset,
        head_offset,
        context,
        None if kept is context else kept,
        row_max,
        row_sum,
        lse,
        weights,
        options.return_weights == "after_dropout",
        options.stats,
    )
    if stats is not None:
        stats = {name: torch.from_numpy(array) for name, array in stats.items()}
    return Forward(context, lse, weights, stats, kept, row_max, row_sum)


def backward(grad_context, q, k, v, bias, alibi_slopes, sinks, mask, kept, row_max, row_sum, options, needed):
    """The gradients of q, k, v, bias, alibi_slopes, sinks, each a new tensor, None where not needed."""
    arguments = (q, k, v, bias, alibi_slopes, sinks)
    gradients = [
        torch.empty_like(a) if need and a is not None else None for a, need in zip(arguments, needed, strict=True)
    ]
    who, causal, offset, window, lengths, scale, softcap, dropout, seed, batch_offset, head_offset, *_ = options
    _headwise.tensor_attention_backward(
        who,
        readable(q),
        readable(k),
        readable(v),
        mask,
        readable(bias),
        causal,
        None if causal == "lower_right" else offset,
        window,
        lengths,
        scale,
        softcap,
        readable(alibi_slopes),
        readable(sinks),
        dropout,
        seed,
        batch_offset,
        head_offset,
        readable(grad_context),
        kept,
        row_max,
        row_sum,
        *gradients,
    )
    return gradients
