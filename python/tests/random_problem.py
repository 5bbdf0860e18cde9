# SPDX-License-Identifier: Apache-2.0
"""Random attention problems: every option, awkward sizes, strided views."""

from __future__ import annotations

import numpy as np


def strided(rng, shape, dtype):
    """Random numbers of that shape, often as a view with odd, negative or zero strides."""
    kind = rng.integers(5)
    if kind == 0 and shape[2] > 0 and shape[3] > 0:  # (batch, seq, heads, head_dim) storage
        batch, heads, seq, width = shape
        return rng.normal(size=(batch, seq, heads, width)).astype(dtype).transpose(0, 2, 1, 3)
    if kind == 1:  # backwards, every second token
        return rng.normal(size=(shape[0], shape[1], 2 * shape[2], shape[3])).astype(dtype)[:, ::-1, ::-2]
    if kind == 2:  # one head for all
        return np.broadcast_to(rng.normal(size=(shape[0], 1, *shape[2:])).astype(dtype), shape)
    values = rng.normal(size=shape).astype(dtype)
    if kind == 3:
        values.flags.writeable = False
    return values


def score_shape(rng, shape):
    if rng.random() < 0.3:
        return shape[2:]
    return tuple(1 if rng.random() < 0.4 else length for length in shape)


def random_problem(seed, dtype):
    """q, k, v and a dict of options."""
    rng = np.random.default_rng(seed)
    batch, kv_heads = rng.integers(1, 4), rng.integers(1, 4)
    heads = kv_heads * rng.integers(1, 4)
    seq_q, seq_kv = int(rng.choice([1, 2, 3, 5, 17, 31])), int(rng.choice([1, 2, 3, 7, 16, 33, 65]))
    head_dim, v_head_dim = int(rng.choice([1, 3, 8, 17])), int(rng.choice([1, 4, 9]))
    if rng.random() < 0.3:
        seq_kv = seq_q
    q = strided(rng, (batch, heads, seq_q, head_dim), dtype)
    k = strided(rng, (batch, kv_heads, seq_kv, head_dim), dtype)
    v = strided(rng, (batch, kv_heads, seq_kv, v_head_dim), dtype)
    options, shape = {}, (batch, heads, seq_q, seq_kv)
    sums = "f8" if np.dtype(dtype).itemsize == 8 else "f4"

    def sometimes(probability=0.35):
        return rng.random() < probability

    if sometimes():
        options["kv_lengths"] = rng.integers(0, seq_kv + 1, batch).astype(rng.choice(["i4", "i8", "u1"]))
    alignment = rng.integers(4)
    if alignment == 1:
        options["causal"] = str(rng.choice(["upper_left", "lower_right"]))
    elif alignment == 2:
        offset = rng.integers(-3, seq_kv + 3, batch)
        options["query_offset"] = int(offset[0]) if sometimes(0.5) else offset
        options["causal"] = bool(sometimes(0.5))
    elif seq_q == seq_kv:
        options["causal"] = bool(sometimes(0.5))
    has_positions = seq_q == seq_kv or alignment in (1, 2)
    if has_positions and sometimes():
        options["window"] = (int(rng.integers(-1, 6)), int(rng.integers(-1, 6)))
    if has_positions and sometimes():
        options["alibi_slopes"] = rng.random(heads).astype(sums)
    if sometimes():
        options["mask"] = rng.random(score_shape(rng, shape)) < 0.7
    if sometimes():
        options["bias"] = rng.normal(size=score_shape(rng, shape)).astype(dtype)
        if sometimes():
            options["bias"][rng.random(options["bias"].shape) < 0.2] = -np.inf
    if sometimes():
        options["scale"] = float(rng.normal())
    if sometimes():
        options["softcap"] = float(rng.uniform(0.5, 3))
    if sometimes():
        options["sinks"] = rng.normal(size=heads).astype(sums)
    if sometimes():
        options["dropout"] = float(rng.uniform(0, 0.9))
        options["seed"] = int(rng.integers(0, 2**63)) * 2 + 1
        options["batch_offset"], options["head_offset"] = int(rng.integers(0, 9)), int(rng.integers(0, 9))
    return q, k, v, options, has_positions


def widened(q, k, v, options):
    """The same problem in float64."""
    wide = {
        name: value.astype("f8") if isinstance(value, np.ndarray) and value.dtype.kind in "fV" else value
        for name, value in options.items()
    }
    return q.astype("f8"), k.astype("f8"), v.astype("f8"), wide
