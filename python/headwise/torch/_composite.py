# SPDX-License-Identifier: Apache-2.0
"""Attention in torch's own operations, every matrix in memory: for what the kernels have no derivative of. That is the
second derivative, forward mode, and gradients through returned weights or lse."""

from __future__ import annotations

import math

import torch

from . import _kernels
from ._options import seed_tensor


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
        after = weights * _kept_factor(batch, heads, seq_q, seq_kv, options).to(sums)
    context = (after @ values).to(given)
    returned = after if options.return_weights == "after_dropout" else weights
    return context, lse, returned.to(given) if options.return_weights else None


def gradients(arguments, grads, options, needed):
    """The gradients of q, k, v, bias, alibi_slopes, sinks from those of context, lse and weights (None: zero); where
    gradients are recorded, as functions that can be differentiated again."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views: a derivative by q alone, also where k was made from q.
        *floats, mask = (
            None if a is None else a.view_as(a) if again or not need else a.detach().requires_grad_()
            for a, need in zip(arguments, (*needed, False), strict=True)
        )
        outputs = attend(*floats, mask, options)
        pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None]
        wanted = [a for a, need in zip(floats, needed, strict=True) if need]
        if not pairs or not wanted:
            return [None] * 6
        found = iter(
            torch.autograd.grad(
                [o for o, _ in pairs], wanted, [g for _, g in pairs], create_graph=again, allow_unused=True
            )
        )
        return [next(found) if need else None for need in needed]


def positions(options, seq_q, seq_kv):
    """(batch or 1, seq_q): where each query row stands."""
    first = torch.as_tensor(_first_positions(options, seq_q, seq_kv)).reshape(-1, 1)
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


def _first_positions(options, seq_q, seq_kv):
    """Where query row 0 stands: an integer, or one for each batch entry."""
    if options.causal != "lower_right":
        return options.query_offset
    if options.kv_lengths is None:
        return seq_kv - seq_q
    return torch.as_tensor(options.kv_lengths) - seq_q


def _kept_factor(batch, heads, seq_q, seq_kv, options):
    """(batch, heads, seq_q, seq_kv) float32: what dropout multiplies each weight by, 0 or one over its probability to
    stay. Read off a call whose weights are all equal; by the operator, so that it can be traced."""
    queries, keys = torch.zeros((batch, heads, seq_q, 1)), torch.zeros((batch, heads, seq_kv, 1))
    first = _first_positions(options, seq_q, seq_kv)
    whole = isinstance(first, int)
    weights = torch.ops.headwise.attention(
        *(queries, keys, keys, None, None, None, None),
        None if whole else torch.as_tensor(first),
        None,
        seed_tensor(options.seed),
        *("", [], 1.0, None, options.dropout),
        [first if whole else 0, options.batch_offset, options.head_offset],
        *(False, False, "after_dropout"),
    )[2]
    threshold = min(int(options.dropout * 65536 + 0.5), 65535)
    return (weights != 0).float() * (65536 / (65536 - threshold))
