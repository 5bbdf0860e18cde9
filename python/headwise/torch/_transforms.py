# SPDX-License-Identifier: Apache-2.0
"""Calls under torch.func: the operator by itself under vmap, with one gradient around it, and torch's own operations
where a derivative is taken in forward mode or twice."""

from __future__ import annotations

import torch
from torch._C import _functorch

from . import _composite, _op


class _AttentionBackward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments):
        return torch.ops.headwise.attention_backward(*arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)

    backward = staticmethod(_op.no_second_derivative)


class _Attention(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments):
        return torch.ops.headwise.attention(*arguments)

    setup_context = staticmethod(_op.setup_context)

    @staticmethod
    def backward(ctx, *gradients):
        return _op.backward(ctx, *gradients, op=_AttentionBackward.apply)


def attend(q, k, v, bias, alibi_slopes, sinks, mask, options):
    """(context, lse, weights, stats) under the transforms that are active."""
    kinds = [interpreter.key() for interpreter in _functorch.get_interpreter_stack()]
    gradients = kinds.count(_functorch.TransformType.Grad)
    through_extras = gradients and (options.return_lse or options.return_weights)
    if gradients > 1 or through_extras or _functorch.TransformType.Jvp in kinds:
        return (*_composite.attend(q, k, v, bias, alibi_slopes, sinks, mask, options), None)
    op = _Attention.apply if gradients else torch.ops.headwise.attention
    return _op.attend(q, k, v, bias, alibi_slopes, sinks, mask, options, op=op, save=bool(gradients) or None)
