# SPDX-License-Identifier: Apache-2.0
"""Which way an attention call goes, and why."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.autograd import forward_ad

from . import _attention, _enable
from ._errors import DTypeError, ShapeError

_BACKENDS = {0: "math", 1: "flash"}


class Explanation(NamedTuple):
    """path: "headwise" or "torch". reason: why. torch_alone: "flash" or "math", what torch by itself would take, or the
    error it would raise; torch_reason: why its fused kernel is left, empty where it is not."""

    path: str
    reason: str
    torch_alone: str
    torch_reason: str

    def __str__(self):
        alone = f"torch alone: {self.torch_alone}" + (f" ({self.torch_reason})" if self.torch_reason else "")
        return f"{self.path}: {self.reason}; {alone}"


def explain(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """Which way F.scaled_dot_product_attention with these arguments goes while headwise is enabled, and why: an
    `Explanation`. Nothing is computed, and nothing drawn."""
    arguments = (query, key, value, attn_mask, dropout_p, is_causal)
    options = {"scale": scale, "enable_gqa": enable_gqa}
    path, reason = _way(*arguments, **options)
    return Explanation(path, reason, *_torch_alone(*arguments, **options))


def _way(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    why = _enable.why_torch(query, key, value, attn_mask)
    if why is not None:
        return "torch", why
    try:
        _attention.pose(query, key, value, attn_mask, enable_gqa)
    except (ShapeError, DTypeError) as error:
        return "torch", f"headwise does not take the call ({error})"
    tensors = [t for t in (query, key, value, attn_mask) if t is not None]
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(t).tangent is not None for t in tensors):
        return "headwise", "forward mode, in torch's own operations: every matrix in memory"
    if any(t.requires_grad for t in tensors) and torch.is_grad_enabled():
        return "headwise", "kernels forward and backward, no matrix in memory"
    return "headwise", "the forward kernel, no matrix in memory"


def _torch_alone(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    groups = {"enable_gqa": True} if enable_gqa else {}  # torch 2.4 knows none
    try:
        chosen = torch._fused_sdp_choice(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **groups)
    except (RuntimeError, TypeError) as error:
        return "error", str(error).splitlines()[0]
    name = _BACKENDS.get(chosen, f"backend {chosen}")
    return name, "" if name == "flash" else _why_math(query, key, value, attn_mask, dropout_p, enable_gqa)


def _why_math(query, key, value, attn_mask, dropout_p, enable_gqa):
    """The first rule of torch's CPU flash kernel that the call does not meet."""
    rules = [
        (torch._C._get_flash_sdp_enabled(), "its flash backend is disabled"),
        (dropout_p == 0, "its flash kernel has no dropout"),
        (query.dim() == key.dim() == value.dim() == 4, "its flash kernel takes four axes alone"),
        (query.shape[0] == key.shape[0] == value.shape[0], "its flash kernel does not broadcast batches"),
        (query.shape[-1] == value.shape[-1], "its flash kernel needs values as wide as queries"),
        (all(t.stride(-1) == 1 for t in (query, key, value)), "its flash kernel needs dense rows"),
        (attn_mask is None or not attn_mask.requires_grad, "its flash kernel has no gradient of the mask"),
        (attn_mask is None or attn_mask.dim() in (2, 4), "its flash kernel takes masks of two or four axes"),
        (query.shape[-3:-2] == key.shape[-3:-2] or enable_gqa, "its flash kernel does not broadcast heads"),
    ]
    return next((text for met, text in rules if not met), "its own choice")
