# SPDX-License-Identifier: Apache-2.0
"""Attention on numpy arrays: the names, defaults and meaning of every argument. The checks and the work are in C++."""

from __future__ import annotations

from typing import NamedTuple

from . import _headwise


class AttentionResult(NamedTuple):
    """What `attention` gives when more than the context is asked for; None where a part was not.

    context: (batch, heads, seq_q, v_head_dim).
    lse: (batch, heads, seq_q), the logsumexp of each row's scores, -inf for a row that sees no key.
    weights: (batch, heads, seq_q, seq_kv), before dropout unless return_weights="after_dropout".
    stats: a dict of arrays (batch, heads, seq_q); "received" is (batch, heads, seq_kv), "top_keys" is int64
        (batch, heads, seq_q, min(4, seq_kv)) with -1 where there is no further key.
    saved: pass it to `attention_backward`.
    """

    context: object
    lse: object = None
    weights: object = None
    stats: object = None
    saved: object = None


class AttentionGradients(NamedTuple):
    """The gradients of `attention`, each of its argument's shape; None where the argument was not given."""

    q: object
    k: object
    v: object
    bias: object = None
    alibi_slopes: object = None
    sinks: object = None


def attention(
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
    seed=None,
    batch_offset=0,
    head_offset=0,
    return_lse=False,
    return_weights=False,
    stats=None,
    save=False,
    out=None,
):
    """Multi-head attention: weights = softmax(softcap(scale * q k^T) + bias, masked); context = dropout(weights) v.

    Axes: batch, heads, seq_q, seq_kv, head_dim, v_head_dim; kv_heads divides heads, and query head h reads key head
    h // (heads // kv_heads). Arrays are numpy arrays of one type, of any strides, and may be empty; anything else is an
    error, never a cast. A key that is hidden from a query is not read, and a row that sees no key has context 0.

    The type is float32, float64, float16, or the bfloat16 of the package ml_dtypes. The 16-bit types are storage:
    numbers are widened exactly, the work is done in float32, and each result is rounded once. With them alibi_slopes
    and sinks, lse, statistics, and the gradients of slopes and sinks are float32; all else is of q's type.

    Args:
        q: (batch, heads, seq_q, head_dim).
        k: (batch, kv_heads, seq_kv, head_dim).
        v: (batch, kv_heads, seq_kv, v_head_dim).
        mask: bool, True = attend; (seq_q, seq_kv), or (batch, heads, seq_q, seq_kv) with any axis 1.
        bias: q's type, shapes as mask; added to the scaled, softcapped scores; -inf hides the key.
        causal: key j is visible to the query at position p when j <= p. True needs seq_q == seq_kv or query_offset;
            "upper_left" puts query row i at position i, "lower_right" puts the last row at the last key.
        query_offset: query row i stands at position i + query_offset; an integer, or (batch,) integers.
        window: (left, right); key j is visible when -right <= position - j <= left; -1 is unlimited.
        kv_lengths: (batch,) integers in 0..seq_kv; keys from there on do not exist.
        scale: 1 / sqrt(head_dim) unless given.
        softcap: score -> softcap * tanh(score / softcap), above 0.
        alibi_slopes: (heads,), q's type, float32 beside a 16-bit q; adds -slope * |position - j|.
        sinks: (heads,), of the type of alibi_slopes; one more score in each row's softmax, with no value behind it.
        dropout: probability in [0, 1) that a weight is dropped; above 0 it needs seed.
        seed: integer in 0..2**64-1. The dropped weights depend on it, on batch + batch_offset, head + head_offset,
            position and key, and on nothing else.
        batch_offset, head_offset: where this batch and these heads lie in a larger whole.
        return_lse: also give lse, (batch, heads, seq_q).
        return_weights: also give the weights, (batch, heads, seq_q, seq_kv), as they are before dropout;
            "after_dropout" gives what multiplies v.
        stats: True, or a tuple of "entropy", "max_weight", "top_keys", "distance", "self", "previous", "next",
            "first", "received"; they describe the weights before dropout and need no matrix of them.
        save: also give what `attention_backward` needs. For float32 and float64 it shares the context's memory: leave
            that as it is. For 16-bit types it holds the context in float32.
        out: (batch, heads, seq_q, v_head_dim), q's type, written to; no memory of an input.

    Returns:
        The context, (batch, heads, seq_q, v_head_dim) in C order; an `AttentionResult` if any more is asked for.

    Raises:
        ValueError: shapes or values that do not fit. TypeError: types. MemoryError: a result that does not fit into
        free memory, before anything is computed.
    """
    result = _headwise.attention(
        q,
        k,
        v,
        mask,
        bias,
        causal,
        query_offset,
        window,
        kv_lengths,
        scale,
        softcap,
        alibi_slopes,
        sinks,
        dropout,
        seed,
        batch_offset,
        head_offset,
        return_lse,
        return_weights,
        stats,
        save,
        out,
    )
    return AttentionResult(*result) if type(result) is tuple else result


def attention_backward(
    grad_context,
    q,
    k,
    v,
    *,
    saved=None,
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
    seed=None,
    batch_offset=0,
    head_offset=0,
):
    """Gradients of sum(grad_context * context) by every array that `attention` was given.

    Args:
        grad_context: (batch, heads, seq_q, v_head_dim), q's type.
        q, k, v: as in the forward.
        saved: the `saved` of `attention(..., save=True)` with the same arguments; without it the forward's row sums
            are computed again. One that belongs to another call is an error.
        mask, bias, causal, query_offset, window, kv_lengths, scale, softcap, alibi_slopes, sinks, dropout, seed,
        batch_offset, head_offset: as in the forward, with the same shapes.

    Returns:
        AttentionGradients: q (batch, heads, seq_q, head_dim), k (batch, kv_heads, seq_kv, head_dim),
        v (batch, kv_heads, seq_kv, v_head_dim), bias (the bias's own shape), alibi_slopes (heads,), sinks (heads,);
        None where the argument was not given.

    Raises:
        As `attention`.
    """
    return AttentionGradients(
        *_headwise.attention_backward(
            grad_context,
            saved,
            q,
            k,
            v,
            mask,
            bias,
            causal,
            query_offset,
            window,
            kv_lengths,
            scale,
            softcap,
            alibi_slopes,
            sinks,
            dropout,
            seed,
            batch_offset,
            head_offset,
        )
    )
