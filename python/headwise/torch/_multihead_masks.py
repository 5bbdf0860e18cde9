# SPDX-License-Identifier: Apache-2.0
"""nn.MultiheadAttention's masks, in its polarity (True = hidden), as the kernels' mask (True = attend) and bias."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from ._errors import DTypeError, ShapeError


def score_masks(who, attn_mask, axes, dtype):
    """(mask, bias) with four axes of attn_mask; axes: (batch, heads, seq_q, seq_kv)."""
    if attn_mask is None:
        return None, None
    _check_type(who, "attn_mask", attn_mask, dtype)
    batch, heads, seq_q, seq_kv = axes
    shape = tuple(attn_mask.shape)
    if attn_mask.dim() == 2 and shape == (seq_q, seq_kv):
        four = attn_mask[None, None]
    elif attn_mask.dim() == 3 and shape == (batch * heads, seq_q, seq_kv):
        four = attn_mask.view(batch, heads, seq_q, seq_kv)
    elif attn_mask.dim() == 4 and all(n in (1, whole) for n, whole in zip(shape, axes, strict=True)):
        four = attn_mask
    else:
        raise ShapeError(
            f"{who}: attn_mask must be (seq_q={seq_q}, seq_kv={seq_kv}), "
            f"(batch * num_heads={batch * heads}, {seq_q}, {seq_kv}) or broadcast to ({batch}, {heads}, {seq_q}, "
            f"{seq_kv}), got {shape}"
        )
    return (~four, None) if four.dtype is torch.bool else (None, four)


def key_mask(who, key_padding_mask, mask, bias, axes, dtype):
    """mask and bias with key_padding_mask in them; a bool one beside a bool mask becomes a bias of one row, so that no
    matrix is made."""
    if key_padding_mask is None:
        return mask, bias
    _check_type(who, "key_padding_mask", key_padding_mask, dtype)
    batch, _, _, seq_kv = axes
    if tuple(key_padding_mask.shape) != (batch, seq_kv):
        expected = f"(batch={batch}, seq_kv={seq_kv})"
        raise ShapeError(f"{who}: key_padding_mask must be {expected}, got {tuple(key_padding_mask.shape)}")
    row = key_padding_mask[:, None, None]
    if row.dtype is not torch.bool:
        return mask, row if bias is None else bias + row
    if mask is None:
        return ~row, bias
    hidden = torch.zeros(row.shape, dtype=dtype, device=row.device).masked_fill(row, -math.inf)
    return mask, hidden if bias is None else bias + hidden


def with_more_keys(mask, bias, causal_rows, seq_kv, more):
    """The same for `more` keys behind the others, which every query sees. causal_rows: seq_q where query row i sees
    keys 0..i of the others; None without."""
    if causal_rows is not None:
        seen = torch.ones(causal_rows, seq_kv, dtype=torch.bool).tril()[None, None]
        mask = seen if mask is None else mask & seen
    return _longer(mask, seq_kv, more, True), _longer(bias, seq_kv, more, 0.0)


def _longer(mask, seq_kv, more, value):
    return None if mask is None else F.pad(mask.expand(*mask.shape[:3], seq_kv), (0, more), value=value)


def _check_type(who, name, mask, dtype):
    if not isinstance(mask, torch.Tensor):
        raise DTypeError(f"{who}: {name} must be a torch.Tensor, got {type(mask).__name__}")
    if mask.dtype not in (torch.bool, torch.float32, dtype):
        also = "" if dtype is torch.float32 else f" or {dtype}"
        raise DTypeError(f"{who}: {name} must be torch.bool (True = hidden), torch.float32{also}, got {mask.dtype}")
