# SPDX-License-Identifier: Apache-2.0
"""The shortest way of a call: plain tensors of four axes and nothing but is_causal, scale and groups. Tiny problems,
decoding above all, cost what leads to the kernel, not what the kernel does."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from headwise import _headwise

from . import _composite, _kernels
from ._options import Options

# Without the table (before torch 2.10) the kernel's side would refuse every call.
_HAS_TABLE = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
_forward, _backward = _headwise.tensor_attention_plain, _headwise.tensor_attention_plain_backward
_is_compiling = torch.compiler.is_compiling
_are_transforms_active = torch._C._are_functorch_transforms_active
_dispatch_modes = torch._C._len_torch_dispatch_stack
_are_function_modes_active = torch._C._is_torch_function_mode_enabled
_is_grad_enabled = torch.is_grad_enabled
_is_autocast_enabled = torch.is_autocast_enabled
_empty_like, _new_empty = torch.empty_like, torch.Tensor.new_empty


class _NotPlain(Exception):
    """The kernel's side of the call does not take it."""


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, is_causal, scale, enable_gqa):
        context = _empty_like(q)
        batch, heads, seq, _ = q.shape
        rows = _new_empty(q, (2, batch, heads, seq))
        if not _forward(q, k, v, is_causal, scale, enable_gqa, context, rows):
            raise _NotPlain
        ctx.save_for_backward(q, k, v, context, rows)
        ctx.options = (is_causal, scale, enable_gqa)
        return context

    @staticmethod
    def backward(ctx, grad):
        q, k, v, context, rows = ctx.saved_tensors
        is_causal, scale, _ = ctx.options
        needed = ctx.needs_input_grad[:3]
        if not _is_grad_enabled():
            found = [_empty_like(t) if need else None for t, need in zip((q, k, v), needed, strict=True)]
            if _backward(q, k, v, *ctx.options, context, rows, grad, *found):
                return *found, None, None, None
        options = Options("scaled_dot_product_attention", causal=is_causal, scale=scale)
        arguments, needed = (q, k, v, None, None, None, None), (*needed, False, False, False)
        if _is_grad_enabled():
            found = _composite.gradients(arguments, (grad, None, None), options, needed)
        else:
            found = _kernels.backward(grad, *arguments, context, *rows, options, needed)
        return *found[:3], None, None, None


# torch's own apply in Python looks for transforms, which `attend` has done.
_apply = super(torch.autograd.Function, _Attention).apply


def attend(query, key, value, is_causal, scale, enable_gqa):
    """The context; None where the general way must look at the call."""
    if (
        not _HAS_TABLE
        or _is_compiling()
        or _are_transforms_active()
        or _dispatch_modes()
        or _are_function_modes_active()
        or _is_autocast_enabled("cpu")
        or forward_ad._current_level >= 0
    ):
        return None
    try:
        if query.dim() != 4 or not query.is_cpu:
            return None
        for_gradients = _is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    except AttributeError:  # no tensor at all: the general way says so
        return None
    if for_gradients:
        try:
            return _apply(query, key, value, is_causal, scale, enable_gqa)
        except _NotPlain:
            return None
    context = _empty_like(query)
    return context if _forward(query, key, value, is_causal, scale, enable_gqa, context, None) else None
