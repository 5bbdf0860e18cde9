# SPDX-License-Identifier: Apache-2.0
"""Random calls of scaled_dot_product_attention for the tests, and torch's own answer to them."""

import math
import random

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def torch_math(q, k, v, mask=None, is_causal=False, **options):
    """torch's plain path, with the mask and is_causal that it refuses to take together."""
    if is_causal and mask is not None:
        causal = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        mask = mask & causal if mask.dtype is torch.bool else mask.masked_fill(~causal, -math.inf)
        is_causal = False
    if options.pop("enable_gqa", False):
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], dim=-3) for t in (k, v))
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal, **options)


def random_call(seed):
    """(tensors, mask, options) of a legal call with any axes, strides, heads and mask."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    lead = tuple(rng.choice([1, 2, 3]) for _ in range(rng.choice([0, 1, 1, 1, 2])))
    kv_heads, group = rng.choice([1, 2, 3]), rng.choice([1, 1, 2, 4])
    seq_q, seq_kv = rng.choice([0, 1, 2, 5, 9, 33]), rng.choice([1, 2, 5, 9, 33])
    width, v_width = rng.choice([1, 4, 8, 17]), rng.choice([1, 4, 8, 17])
    dtype = rng.choice([torch.float64, torch.float64, torch.float64, torch.float32, torch.bfloat16, torch.float16])

    def made(*shape, dtype=dtype):
        order = list(range(len(shape)))
        rng.shuffle(order)
        tensor = torch.randn([shape[at] for at in order], generator=generator, dtype=torch.float64).to(dtype)
        return tensor.permute([order.index(axis) for axis in range(len(shape))])

    def some(axes):
        """The axes before heads, with one of them left to broadcasting now and then."""
        return tuple(1 if rng.random() < 0.15 else axis for axis in axes)

    heads = kv_heads * group
    q = made(*lead, heads, seq_q, width)
    k, v = made(*some(lead), kv_heads, seq_kv, width), made(*some(lead), kv_heads, seq_kv, v_width)
    mask, options = None, {}
    kind = rng.choice(["none", "bool", "float"])
    if kind != "none":
        whole = (*lead, heads, seq_q, seq_kv)
        kept = whole[rng.choice([0, len(whole) - 2]) :]
        shape = [1 if rng.random() < 0.3 else extent for extent in kept]
        if kind == "bool":
            mask = torch.rand(shape, generator=generator) < 0.8
        else:
            mask = made(*shape).masked_fill(torch.rand(shape, generator=generator) < 0.1, -math.inf)
    if rng.random() < 0.5:
        options["is_causal"] = True
    if rng.random() < 0.3:
        options["scale"] = rng.choice([0.0, -0.7, 0.3])
    if group > 1:
        options["enable_gqa"] = True
    return (q, k, v), mask, options


def close(name, got, expected, dtype, about):
    assert got.shape == expected.shape, f"{name}: {got.shape}, torch {expected.shape} ({about})"
    assert got.dtype is dtype
    if got.numel():
        peak = expected.abs().max().clamp(min=1)
        error = (got.double() - expected.double()).abs().max() / peak
        assert error <= TOLERANCE[dtype], f"{name} is off by {error} ({about})"


def leaves(*shape, dtype=torch.float64, count=3):
    torch.manual_seed(0)
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for _ in range(count)]
