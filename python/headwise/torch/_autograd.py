# SPDX-License-Identifier: Apache-2.0
"""The way of a plain eager call: kernels forward and backward under torch's autograd."""

from __future__ import annotations

import torch

from . import _composite, _kernels


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, bias, alibi_slopes, sinks, mask, options):
        done = _kernels.forward(q, k, v, bias, alibi_slopes, sinks, mask, options, save=True)
        ctx.save_for_backward(q, k, v, bias, alibi_slopes, sinks, mask, done.kept, done.row_max, done.row_sum)
        ctx.options = options
        ctx.set_materialize_grads(False)
        return done.context, done.lse, done.weights, done.stats

    @staticmethod
    def backward(ctx, grad_context, grad_lse, grad_weights, _):
        *arguments, kept, row_max, row_sum = ctx.saved_tensors
        needed = ctx.needs_input_grad[:6]
        if grad_lse is not None or grad_weights is not None or torch.is_grad_enabled():
            gradients = _composite.gradients(arguments, (grad_context, grad_lse, grad_weights), ctx.options, needed)
        elif grad_context is None:
            gradients = [None] * 6
        else:
            gradients = _kernels.backward(grad_context, *arguments, kept, row_max, row_sum, ctx.options, needed)
        return *gradients, None, None


def attend(q, k, v, bias, alibi_slopes, sinks, mask, options):
    """(context, lse, weights, stats) of plain CPU tensors."""
    options = options.settled()
    if torch.is_grad_enabled() and (
        q.requires_grad
        or k.requires_grad
        or v.requires_grad
        or (bias is not None and bias.requires_grad)
        or (alibi_slopes is not None and alibi_slopes.requires_grad)
        or (sinks is not None and sinks.requires_grad)
    ):
        return _Attention.apply(q, k, v, bias, alibi_slopes, sinks, mask, options)
    return _kernels.forward(q, k, v, bias, alibi_slopes, sinks, mask, options, save=False)[:4]
