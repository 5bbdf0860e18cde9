# SPDX-License-Identifier: Apache-2.0
"""Attention in torch's own operations, every matrix in memory: for what the kernels have no derivative of. That is the
second derivative, forward mode, and gradients through returned weights or lse."""

from __future__ import annotations

import math

import torch

from . import _kernels


def attend(q, k, v, bias, alibi_slopes, sinks, mask, options):
    """(context, lse, weights), each a function of its arguments that torch differentiates any number of times."""
    given = q.dtype
    sums = _kernels.sums_dtype(given)
    batch, heads, seq_q, head_dim = q.shape
    kv_heads, seq_kv = k.shape[1:3]
    visible = visible_keys(q, k, bias, mask, options)
    seen = visible.any(dim=2).unflatten(1, (kv_heads, heads // kv_heads if kv_heads else 1)).any(dim=2)[..., None]
    # 0 * NaN: what no query sees must not be multiplied.
    q, keys, values = q.to(sums), torch.where(seen, k, 0).to(sums), torch.where(seen, v, 0).to(sums)
    if heads != kv_heads:
        keys, values = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (keys, values))
    scale = options.scale if options.scale is not None else 1 / math.sqrt(head_dim) if head_dim else 1.0
    scores = q @ keys.transpose(2, 3) * scale
    if options.softcap is not None:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    if bias is not None:
        scores = scores + torch.where(bias == -math.inf, 0, bias).to(sums)
    if alibi_slopes is not None:
        distance = (torch.arange(seq_kv) - positions(options, seq_q, seq_kv)[:, None, :, None]).abs()
        scores = scores - alibi_slopes[:, None, None] * distance.to(sums)
    sees_some = visible.any(dim=3, keepdim=True)
    # A row that sees nothing gets harmless scores here and zero weights below: no NaN enters a derivative.
    scores = torch.where(visible, scores, torch.where(sees_some, -math.inf, 0.0).to(sums))
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(batch, heads, seq_q, 1)], dim=3)
    lse = torch.where(sees_some[..., 0], torch.logsumexp(scores, dim=3), -math.inf) if options.return_lse else None
    weights = torch.softmax(scores, dim=3)[..., :seq_kv] * sees_some
    after = weights
    if options.dropout > 0:
        after = weights * _kernels.kept_factor(batch, heads, seq_q, seq_kv, options).to(sums)
    context = (after @ values).to(given)
    returned = after if options.return_weights == "after_dropout" else weights
    return context, lse, returned.to(given) if options.return_weights else None


def positions(options, seq_q, seq_kv):
    """(batch or 1, seq_q): where each query row stands."""
    first = torch.as_tensor(_kernels.first_positions(options, seq_q, seq_kv)).reshape(-1, 1)
    return first + torch.arange(seq_q)


def visible_keys(q, k, bias, mask, options):
    """(batch, heads, seq_q, seq_kv): True where the query sees the key."""
    (batch, heads, seq_q), seq_kv = q.shape[:3], k.shape[2]
    visible = torch.ones((batch, heads, seq_q, seq_kv), dtype=torch.bool)
    distance = positions(options, seq_q, seq_kv)[:, None, :, None] - torch.arange(seq_kv)
    if options.causal:
        visible = visible & (distance >= 0)
    left, right = options.window if options.window is not None else (-1, -1)
    if left >= 0:
        visible = visible & (distance <= left)
    if right >= 0:
        visible = visible & (distance >= -right)
    if options.kv_lengths is not None:
        lengths = torch.as_tensor(options.kv_lengths)[:, None, None, None]
        visible = visible & (torch.arange(seq_kv) < lengths)
    if mask is not None:
        visible = visible & mask
    if bias is not None:
        visible = visible & (bias != -math.inf)
    return visible
