# SPDX-License-Identifier: Apache-2.0
"""The operators headwise::attention and headwise::attention_backward, for torch.compile, torch.export, torch.func and
tensors that are not plain: one opaque node with shapes, gradients and a rule for vmap."""

from __future__ import annotations

import torch

from . import _composite, _kernels
from ._options import Options, seed_tensor

_ARRAYS = (
    "Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? alibi_slopes, Tensor? sinks, Tensor? mask, "
    "Tensor? query_offsets, Tensor? kv_lengths, Tensor? seed"
)
_OPTIONS = "str causal, SymInt[] window, float? scale, float? softcap, float dropout, SymInt[] offsets"
# offsets: of the queries where query_offsets is None, of the batch, of the heads. Outputs that were not asked for are
# empty: context, lse, weights, and what backward needs.
torch.library.define(
    "headwise::attention",
    f"({_ARRAYS}, {_OPTIONS}, bool save, bool return_lse, str return_weights)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
torch.library.define(
    "headwise::attention_backward",
    f"({_ARRAYS}, Tensor grad_context, Tensor context, Tensor kept, Tensor row_max, Tensor row_sum, "
    f"{_OPTIONS}, bool[] needed) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
_WHO = "scaled_dot_product_attention"
_NAMES = ("q", "k", "v", "bias", "alibi_slopes", "sinks")


def _options(causal, window, scale, softcap, dropout, offsets, query_offsets, kv_lengths, seed):
    return Options(
        _WHO,
        causal=causal if causal == "lower_right" else causal == "causal",
        query_offset=query_offsets if query_offsets is not None else offsets[0],
        window=tuple(window) if window else None,
        kv_lengths=kv_lengths,
        scale=scale,
        softcap=softcap,
        dropout=dropout,
        seed=seed,
        batch_offset=offsets[1],
        head_offset=offsets[2],
    )


def _weights_kind(text):
    """return_weights of `Options` from that of the operator: "", "before" or "after_dropout"."""
    return text if text == "after_dropout" else bool(text)


@torch.library.impl("headwise::attention", "CPU")
def _attention(q, k, v, bias, alibi_slopes, sinks, mask, query_offsets, kv_lengths, seed, *rest):
    *options, save, return_lse, return_weights = rest
    options = _options(*options, query_offsets, kv_lengths, seed)
    options = options._replace(return_lse=return_lse, return_weights=_weights_kind(return_weights)).settled()
    done = _kernels.forward(q, k, v, bias, alibi_slopes, sinks, mask, options, save)
    # An operator's outputs share no memory: where the context is what backward needs, it is not handed out twice.
    kept = None if done.kept is done.context else done.kept
    return tuple(
        q.new_empty(0) if t is None else t
        for t in (done.context, done.lse, done.weights, kept, done.row_max, done.row_sum)
    )


@torch.library.register_fake("headwise::attention")
def _attention_fake(q, k, v, bias, alibi_slopes, sinks, mask, query_offsets, kv_lengths, seed, *rest):
    *_, save, return_lse, return_weights = rest
    sums = _kernels.sums_dtype(q.dtype)
    context, rows, nothing = _kernels.new_context(q, v), q.shape[:3], q.new_empty(0)

    def row_numbers(wanted):
        return q.new_empty(rows, dtype=sums) if wanted else q.new_empty(0)

    return (
        context,
        row_numbers(return_lse),
        q.new_empty((*rows, k.shape[2])) if return_weights else nothing,
        context.new_empty(context.shape, dtype=sums) if save and sums is not q.dtype else q.new_empty(0),
        row_numbers(save),
        row_numbers(save),
    )


def _new_gradients(arguments, needed):
    return tuple(
        torch.empty_like(a) if need and a is not None else arguments[0].new_empty(0)
        for a, need in zip(arguments, needed, strict=True)
    )


@torch.library.impl("headwise::attention_backward", "CPU")
def _attention_backward(
    q,
    k,
    v,
    bias,
    alibi_slopes,
    sinks,
    mask,
    query_offsets,
    kv_lengths,
    seed,
    grad_context,
    context,
    kept,
    row_max,
    row_sum,
    *rest,
):
    *options, needed = rest
    options = _options(*options, query_offsets, kv_lengths, seed).settled()
    kept = context if _kernels.sums_dtype(q.dtype) is q.dtype else kept
    arguments = (q, k, v, bias, alibi_slopes, sinks)
    found = _kernels.backward(grad_context, *arguments, mask, kept, row_max, row_sum, options, needed)
    return tuple(q.new_empty(0) if g is None else g for g in found)


@torch.library.register_fake("headwise::attention_backward")
def _attention_backward_fake(q, k, v, bias, alibi_slopes, sinks, *rest):
    return _new_gradients((q, k, v, bias, alibi_slopes, sinks), rest[-1])


def setup_context(ctx, inputs, output):
    arrays, options, (save, return_lse, return_weights) = inputs[:10], inputs[10:16], inputs[16:]
    context, _, _, kept, row_max, row_sum = output
    ctx.save_for_backward(*arrays, context, kept, row_max, row_sum)
    ctx.options, ctx.saved, ctx.weights_kind = options, save, _weights_kind(return_weights)
    # Outputs that nobody asked for, and what is backward's own.
    none = [t for t, asked in zip(output[1:3], (return_lse, return_weights), strict=True) if not asked]
    ctx.mark_non_differentiable(*none, kept, row_max, row_sum)
    ctx.set_materialize_grads(False)


def backward(ctx, grad_context, grad_lse, grad_weights, *_, op=torch.ops.headwise.attention_backward):
    if not ctx.saved:
        raise RuntimeError("headwise::attention: gradients need save=True in the forward")
    none = [None] * 19
    *arrays, context, kept, row_max, row_sum = ctx.saved_tensors
    needed = [bool(need) for need in ctx.needs_input_grad[:6]]
    if grad_lse is not None or grad_weights is not None:
        options = _options(*ctx.options, *arrays[7:])._replace(return_lse=True, return_weights=ctx.weights_kind)
        found = _composite.gradients(arrays[:7], (grad_context, grad_lse, grad_weights), options, needed)
        return (*found, *none[6:])
    if grad_context is None:
        return tuple(none)
    found = op(*arrays, grad_context, context, kept, row_max, row_sum, *ctx.options, needed)
    return (*(g if need else None for g, need in zip(found, needed, strict=True)), *none[6:])


torch.library.register_autograd("headwise::attention", backward, setup_context=setup_context)


def no_second_derivative(ctx, *_):
    raise NotImplementedError(
        f"{_WHO}: a second derivative is there in eager mode, by backward(create_graph=True) or by torch.func "
        "transforms one in the other; not under torch.compile, and not half in torch.func and half outside"
    )


torch.library.register_autograd("headwise::attention_backward", no_second_derivative)


def attend(q, k, v, bias, alibi_slopes, sinks, mask, options, op=torch.ops.headwise.attention, save=None):
    """(context, lse, weights, stats) through the operator. save: whether backward may come; None: as it looks."""
    if options.stats:
        raise NotImplementedError(
            f"{options.who}: stats are there in eager mode only, not under torch.compile, torch.export and torch.func"
        )
    offset = options.query_offset
    if type(offset) in (list, tuple):
        offset = torch.tensor(offset)
    lengths = options.kv_lengths
    if type(lengths) in (list, tuple):
        lengths = torch.tensor(lengths)
    tensors = (q, k, v, bias, alibi_slopes, sinks)
    if save is None:
        save = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    context, lse, weights, *_ = op(
        *tensors,
        mask,
        offset if isinstance(offset, torch.Tensor) else None,
        lengths,
        seed_tensor(options.seed),
        options.causal if options.causal == "lower_right" else "causal" if options.causal else "",
        list(options.window or ()),
        options.scale,
        options.softcap,
        options.dropout,
        [0 if isinstance(offset, torch.Tensor) else offset, options.batch_offset, options.head_offset],
        save,
        options.return_lse,
        options.return_weights
        if isinstance(options.return_weights, str)
        else "before"
        if options.return_weights
        else "",
    )
    return context, lse if options.return_lse else None, weights if options.return_weights else None, None
