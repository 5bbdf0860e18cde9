# SPDX-License-Identifier: Apache-2.0
"""Random attention problems with every option of headwise.attention together, each made from one seed."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass
class AttentionCase:
    """One call: q (batch, heads, seq_q, head_dim), k and v, the keyword arguments, and a gradient to push back."""

    seed: int
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    options: dict[str, Any]
    grad_context: np.ndarray

    def __str__(self):
        shapes = f"q {self.q.shape}, k {self.k.shape}, v {self.v.shape}"
        given = {
            name: f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else value
            for name, value in self.options.items()
        }
        return f"seed {self.seed}: {shapes}, {given}"


def random_strides(rng, array):
    """The same numbers behind other strides: axes swapped, reversed, inside a larger array of NaN, or as they are."""
    way = rng.integers(5) if array.ndim else 4
    if way == 0:
        order = rng.permutation(array.ndim)
        return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
    if way == 1:
        axis = int(rng.integers(array.ndim))
        return np.flip(np.ascontiguousarray(np.flip(array, axis)), axis)
    if way == 2:
        large = np.full([size + 2 for size in array.shape], np.nan) if array.dtype != bool else None
        if large is None:
            return array
        inside = large.astype(array.dtype)[tuple(slice(1, size + 1) for size in array.shape)]
        inside[...] = array
        return inside
    if way == 3:
        axis = int(rng.integers(array.ndim))
        stepped = np.repeat(array, 2, axis=axis)
        return stepped[tuple(slice(None, None, 2) if i == axis else slice(None) for i in range(array.ndim))]
    return array


def random_sizes(rng):
    """batch, heads, kv_heads, seq_q, seq_kv, head_dim, v_head_dim: mostly small and awkward, some past a key block."""
    batch = int(rng.choice([1, 2, 3]))
    kv_heads = int(rng.choice([1, 2, 3]))
    heads = kv_heads * int(rng.choice([1, 1, 2, 4]))
    seq_q, seq_kv = (int(size) for size in rng.choice([1, 2, 3, 7, 16, 17, 31, 33], 2))
    head_dim, v_head_dim = (int(size) for size in rng.choice([1, 2, 5, 8, 16, 17], 2))
    if rng.random() < 0.03:
        seq_q, seq_kv = int(rng.integers(1, 70)), int(rng.integers(250, 600))
    if rng.random() < 0.4:
        seq_kv = seq_q
    sizes = {
        "batch": batch,
        "heads": heads,
        "kv_heads": kv_heads,
        "seq_q": seq_q,
        "seq_kv": seq_kv,
        "head_dim": head_dim,
        "v_head_dim": v_head_dim,
    }
    if rng.random() < 0.06:
        sizes[str(rng.choice([name for name in sizes if name != "kv_heads"]))] = 0
    return sizes


def broadcastable(rng, full):
    """A mask's or a bias's shape: (seq_q, seq_kv), or rank 4 with some axes 1."""
    if rng.random() < 0.3:
        return full[2:]
    return tuple(1 if rng.random() < 0.35 else size for size in full)


def position_options(rng, sizes):
    """An alignment, and the rules that need one: causal, window, ALiBi."""
    options = {}
    square = sizes["seq_q"] == sizes["seq_kv"]
    way = rng.choice(["none", "self" if square else "offset", "offset", "upper_left", "lower_right"])
    if way == "none" and not square:
        return options
    if way == "offset":
        low, high = -2, max(sizes["seq_kv"], 1) + 2
        each = rng.random() < 0.5
        options["query_offset"] = rng.integers(low, high, sizes["batch"]) if each else int(rng.integers(low, high))
    if way in ("upper_left", "lower_right"):
        options["causal"] = str(way)
    elif rng.random() < 0.5:
        options["causal"] = True
    if rng.random() < 0.4:
        options["window"] = tuple(int(rng.choice([-1, 0, 1, 3, 8])) for _ in range(2))
    if rng.random() < 0.4:
        options["alibi_slopes"] = random_strides(rng, rng.uniform(0, 0.5, sizes["heads"]))
    return options


def random_options(rng, sizes):
    full = (sizes["batch"], sizes["heads"], sizes["seq_q"], sizes["seq_kv"])
    options = position_options(rng, sizes)
    if rng.random() < 0.4:
        mask = rng.random(broadcastable(rng, full)) < rng.choice([0.2, 0.7, 0.95])
        options["mask"] = random_strides(rng, mask)
    if rng.random() < 0.5:
        bias = rng.standard_normal(broadcastable(rng, full))
        if rng.random() < 0.3:
            bias[rng.random(bias.shape) < 0.2] = -np.inf
        if rng.random() < 0.1:
            bias[rng.random(bias.shape) < 0.2] = -1e9
        options["bias"] = random_strides(rng, bias)
    if rng.random() < 0.4:
        options["kv_lengths"] = rng.integers(0, sizes["seq_kv"] + 1, sizes["batch"])
    if rng.random() < 0.3:
        options["scale"] = float(rng.uniform(-1, 2))
    if rng.random() < 0.3:
        options["softcap"] = float(rng.uniform(0.5, 30))
    if rng.random() < 0.3:
        options["sinks"] = random_strides(rng, rng.standard_normal(sizes["heads"]) * 2)
    if rng.random() < 0.3:
        options.update(
            dropout=float(rng.choice([0.1, 0.5, 0.9])),
            seed=int(rng.integers(2**63)),
            batch_offset=int(rng.integers(3)),
            head_offset=int(rng.integers(3)),
        )
    return options


def attention_case(seed):
    """The problem behind a seed."""
    rng = np.random.default_rng(seed)
    sizes = random_sizes(rng)
    batch, heads, kv_heads = sizes["batch"], sizes["heads"], sizes["kv_heads"]

    def normal(*shape):
        return rng.standard_normal(shape) * rng.choice([0.3, 1.0, 4.0])

    q = normal(batch, heads, sizes["seq_q"], sizes["head_dim"])
    k = normal(batch, kv_heads, sizes["seq_kv"], sizes["head_dim"])
    v = normal(batch, kv_heads, sizes["seq_kv"], sizes["v_head_dim"])
    if rng.random() < 0.1 and sizes["seq_kv"]:
        k = np.broadcast_to(k[:, :, :1], k.shape)
    return AttentionCase(
        seed=seed,
        q=random_strides(rng, q),
        k=random_strides(rng, k),
        v=random_strides(rng, v),
        options=random_options(rng, sizes),
        grad_context=random_strides(rng, normal(batch, heads, sizes["seq_q"], sizes["v_head_dim"])),
    )


def visible_keys(case):
    """The keys that each query sees, (batch, heads, seq_q, seq_kv) bool; and its position, (batch, seq_q)."""
    batch, heads, seq_q, _ = case.q.shape
    seq_kv = case.k.shape[2]
    options = case.options
    key = np.arange(seq_kv)
    lengths = np.asarray(options.get("kv_lengths", np.full(batch, seq_kv)))
    offset = np.zeros(batch, int) + options.get("query_offset", 0)
    if options.get("causal") == "lower_right":
        offset = lengths - seq_q
    position = offset[:, None] + np.arange(seq_q)
    ahead = key - position[:, None, :, None]
    visible = np.broadcast_to(key < lengths[:, None, None, None], (batch, heads, seq_q, seq_kv)).copy()
    if options.get("causal"):
        visible &= ahead <= 0
    left, right = options.get("window", (-1, -1))
    if left >= 0:
        visible &= ahead >= -left
    if right >= 0:
        visible &= ahead <= right
    if "mask" in options:
        visible &= options["mask"]
    if "bias" in options:
        visible &= options["bias"] != -np.inf
    return visible, position


def poisoned(case, visible):
    """The case with NaN wherever no query looks: a key that is read in spite of that shows."""
    rng = np.random.default_rng(case.seed)
    batch, heads, seq_q, _ = case.q.shape
    kv_heads, seq_kv = case.k.shape[1:3]
    seen = visible.reshape(batch, kv_heads, heads // kv_heads * seq_q, seq_kv).any(axis=2)[..., None]
    options = dict(case.options)
    if "bias" in options and "kv_lengths" in options and options["bias"].shape[-1] == seq_kv > 1:
        gone = np.arange(seq_kv) >= options["kv_lengths"].max(initial=0)
        options["bias"] = random_strides(rng, np.where(gone, np.nan, options["bias"]))
    return dataclasses.replace(
        case,
        k=random_strides(rng, np.where(seen, case.k, np.nan)),
        v=random_strides(rng, np.where(seen, case.v, np.nan)),
        options=options,
    )
