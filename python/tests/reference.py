# SPDX-License-Identifier: Apache-2.0
"""Attention and its gradients again, as whole-array numpy in the type of its inputs: what the tests compare with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MASK32 = np.uint64(0xFFFFFFFF)


def philox(counter, key):
    """Philox4x32-10 on four counter arrays and two key arrays of uint64 that hold 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product0, product1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (product1 >> np.uint64(32)) ^ c1 ^ k0,
            product1 & MASK32,
            (product0 >> np.uint64(32)) ^ c3 ^ k1,
            product0 & MASK32,
        )
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & MASK32, (k1 + np.uint64(0xBB67AE85)) & MASK32
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3))


def dropout_factors(probability, seed, call, batches, heads, positions, keys):
    """What each weight is multiplied by: (batch, heads, seq_q, seq_kv). positions: (batch, seq_q), absolute."""
    threshold = min(int(np.floor(probability * 65536 + 0.5)), 65535)
    if threshold == 0:
        return np.ones((len(batches), len(heads), positions.shape[1], keys))
    word = np.uint64
    b, h = np.array(batches, word)[:, None, None, None], np.array(heads, word)[None, :, None, None]
    seed_words = (word(seed & 0xFFFFFFFF), word(seed >> 32))
    first = philox((word(call & 0xFFFFFFFF) + 0 * b, word(call >> 32) + 0 * b, b, h), seed_words)
    j = np.arange(keys)
    run = (j // 128 * 16 + j % 16).astype(word)[None, None, None, :]
    query = positions.astype(np.int64).view(word)[:, None, :, None]
    words = philox((run, 0 * run, query & MASK32, query >> word(32)), (first[0], first[1]))
    index = j % 128 // 16
    chosen = np.take_along_axis(
        np.moveaxis(words, 0, -1), np.broadcast_to((index // 2)[None, None, None, :, None], (*words.shape[1:], 1)), -1
    )[..., 0]
    draw = (chosen >> (16 * (index % 2)).astype(word)) & word(0xFFFF)
    return np.where(draw < threshold, 0.0, 65536.0 / (65536.0 - threshold))


@dataclass
class Forward:
    context: np.ndarray
    lse: np.ndarray
    weights: np.ndarray
    kept: np.ndarray
    capped: np.ndarray
    sink_weight: np.ndarray
    positions: np.ndarray
    visible: np.ndarray


def positions_of(seq_q, seq_kv, batch, causal, query_offset, kv_lengths):
    lengths = np.full(batch, seq_kv) if kv_lengths is None else np.asarray(kv_lengths, np.int64)
    offset = np.zeros(batch, np.int64)
    if causal == "lower_right":
        offset = lengths - seq_q
    elif query_offset is not None:
        offset = np.broadcast_to(np.asarray(query_offset, np.int64), (batch,))
    return np.arange(seq_q)[None, :] + offset[:, None], lengths


def visible_keys(shape, positions, lengths, mask, bias, causal, window):
    keys = np.arange(shape[3])[None, None, :]
    seen = np.broadcast_to(keys < lengths[:, None, None], (shape[0], shape[2], shape[3])).copy()
    ahead = keys - positions[:, :, None]
    if causal:
        seen &= ahead <= 0
    if window is not None:
        left, right = window
        if left >= 0:
            seen &= -ahead <= left
        if right >= 0:
            seen &= ahead <= right
    seen = np.broadcast_to(seen[:, None], shape).copy()
    if mask is not None:
        seen &= np.broadcast_to(mask, shape)
    if bias is not None:
        seen &= np.broadcast_to(bias, shape) != -np.inf
    return seen


def forward(
    q,
    k,
    v,
    *,
    mask=None,
    bias=None,
    causal=False,
    query_offset=None,
    window=None,
    kv_lengths=None,
    scale=None,
    softcap=None,
    alibi_slopes=None,
    sinks=None,
    dropout=0.0,
    seed=0,
    batch_offset=0,
    head_offset=0,
    call=0,
):
    batch, heads, seq_q, head_dim = q.shape
    group, seq_kv = heads // k.shape[1], k.shape[2]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    shape = (batch, heads, seq_q, seq_kv)
    positions, lengths = positions_of(seq_q, seq_kv, batch, causal, query_offset, kv_lengths)
    visible = visible_keys(shape, positions, lengths, mask, bias, causal, window)
    factor = q.dtype.type(1 / np.sqrt(head_dim) if scale is None else scale)
    capped = factor * (q @ np.swapaxes(k, 2, 3))
    if softcap is not None:
        capped = (softcap * np.tanh(capped / softcap)).astype(q.dtype)
    scores = capped
    if bias is not None:
        scores = scores + np.where(np.broadcast_to(bias, shape) == -np.inf, 0, bias).astype(q.dtype)
    if alibi_slopes is not None:
        distance = np.abs(positions[:, None, :, None] - np.arange(seq_kv)).astype(q.dtype)
        scores = scores - alibi_slopes[None, :, None, None] * distance
    scores = np.where(visible, scores, -np.inf).astype(q.dtype)
    row_max = scores.max(-1, keepdims=True, initial=-np.inf)
    empty = row_max == -np.inf
    sink = np.full_like(row_max, -np.inf) if sinks is None else sinks[None, :, None, None] + 0 * row_max.clip(0, 0)
    row_max = np.where(empty, 0, np.maximum(row_max, sink))
    weights = np.exp(scores - row_max)
    sink_weight = np.exp(sink - row_max)
    total = weights.sum(-1, keepdims=True) + sink_weight
    total = np.where(empty, 1, total)
    weights = np.where(empty, 0, weights / total).astype(q.dtype)
    sink_weight = np.where(empty, 0, sink_weight / total).astype(q.dtype)
    lse = np.where(empty, -np.inf, row_max + np.log(total))[..., 0]
    batches = range(batch_offset, batch_offset + batch)
    kept = dropout_factors(dropout, seed, call, batches, range(head_offset, head_offset + heads), positions, seq_kv)
    kept = kept.astype(q.dtype)
    return Forward((weights * kept) @ v, lse, weights, kept, capped, sink_weight, positions, visible)


def sum_to(gradient, shape):
    """Sums over the axes along which an argument of that shape was broadcast."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    axes = tuple(axis for axis, length in enumerate(shape) if length == 1)
    return gradient.sum(axes, keepdims=True)


def backward(grad, q, k, v, **options):
    """Gradients by q, k, v, bias, alibi_slopes, sinks; None where an option is not given."""
    f = forward(q, k, v, **options)
    heads, kv_heads = q.shape[1], k.shape[1]
    wide_k, wide_v = np.repeat(k, heads // kv_heads, 1), np.repeat(v, heads // kv_heads, 1)
    grad_weights = f.kept * (grad @ np.swapaxes(wide_v, 2, 3))
    delta = (f.weights * grad_weights).sum(-1, keepdims=True)
    grad_scores = f.weights * (grad_weights - delta)
    bias, slopes, sinks = (options.get(name) for name in ("bias", "alibi_slopes", "sinks"))
    distance = np.abs(f.positions[:, None, :, None] - np.arange(k.shape[2])).astype(q.dtype)
    grad_bias = None if bias is None else sum_to(grad_scores, bias.shape)
    grad_slopes = None if slopes is None else -(grad_scores * distance).sum((0, 2, 3))
    grad_sinks = None if sinks is None else -(f.sink_weight * delta).sum((0, 2, 3))
    softcap, scale = options.get("softcap"), options.get("scale")
    if softcap is not None:
        grad_scores = grad_scores * (1 - (f.capped / softcap) ** 2)
    grad_scores = grad_scores * q.dtype.type(1 / np.sqrt(q.shape[3]) if scale is None else scale)

    def by_group(wide):
        return wide.reshape(wide.shape[0], kv_heads, -1, *wide.shape[2:]).sum(2)

    grad_k = by_group(np.swapaxes(grad_scores, 2, 3) @ q)
    grad_v = by_group(np.swapaxes(f.weights * f.kept, 2, 3) @ grad)
    return grad_scores @ wide_k, grad_k, grad_v, grad_bias, grad_slopes, grad_sinks


def statistics(f, seq_kv):
    """Every statistic of `headwise.attention` from the whole weights."""
    w, p = f.weights, f.positions
    keys = np.arange(seq_kv)

    def on(offset):
        return (w * (keys == (p + offset)[:, None, :, None])).sum(-1)

    order = np.argsort(-w, axis=-1, kind="stable")
    order = np.take_along_axis(order, np.argsort(~np.take_along_axis(f.visible, order, -1), -1, kind="stable"), -1)
    top = order[..., : min(4, seq_kv)]
    return {
        "entropy": -(w * np.log(np.where(w > 0, w, 1))).sum(-1),
        "max_weight": w.max(-1, initial=0),
        "top_keys": np.where(np.take_along_axis(f.visible, top, -1), top, -1),
        "distance": (w * np.abs(p[:, None, :, None] - keys)).sum(-1),
        "self": on(0),
        "previous": on(-1),
        "next": on(1),
        "first": w[..., 0] if seq_kv else np.zeros(w.shape[:3]),
        "received": w.sum(2),
    }
