# SPDX-License-Identifier: Apache-2.0
"""Attention as seed A, the book, nanoGPT and timm name and lay it out, in torch and in our own words."""

import math

import torch
from torch import nn


def heads_of(x, count):
    """(batch, seq, width) -> (batch, heads, seq, head_dim)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def attend(queries, keys, values, causal):
    """(batch, heads, seq, head_dim) each -> (batch, seq, heads * head_dim)."""
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return (scores.softmax(-1) @ values).transpose(1, 2).flatten(-2)


class SelfAttentionV1(nn.Module):
    """Weights as plain parameters (d_in, d_out); one head, no mask."""

    def __init__(self, d_in, d_out):
        super().__init__()
        for name in ("W_query", "W_key", "W_value"):
            setattr(self, name, nn.Parameter(torch.rand(d_in, d_out) - 0.5))

    def forward(self, x):
        return attend(*(heads_of(x @ w, 1) for w in (self.W_query, self.W_key, self.W_value)), False)


class SingleHead(nn.Module):
    def __init__(self, d_in, d_out, bias=False, causal=True):
        super().__init__()
        self.causal = causal
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias) for _ in range(3))
        if causal:
            self.register_buffer("mask", torch.ones(8, 8).triu(1))

    def forward(self, x):
        return attend(*(heads_of(w(x), 1) for w in (self.W_query, self.W_key, self.W_value)), self.causal)


class Wrapper(nn.Module):
    def __init__(self, d_in, head_dim, heads, bias=False, out_proj=False):
        super().__init__()
        self.heads = nn.ModuleList(SingleHead(d_in, head_dim, bias) for _ in range(heads))
        self.out_proj = nn.Linear(heads * head_dim, heads * head_dim) if out_proj else nn.Identity()

    def forward(self, x):
        return self.out_proj(torch.cat([head(x) for head in self.heads], -1))


class Fused(nn.Module):
    def __init__(self, d_in, d_out, heads, bias=False):
        super().__init__()
        self.count = heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.register_buffer("mask", torch.ones(8, 8).triu(1))

    def forward(self, x):
        parts = (heads_of(w(x), self.count) for w in (self.W_query, self.W_key, self.W_value))
        return self.out_proj(attend(*parts, True))


class SeedLayer(nn.Module):
    def __init__(self, d_in, d_out, heads, bias=False):
        super().__init__()
        self.count = heads
        self.query_weight, self.key_weight, self.value_weight = (nn.Linear(d_in, d_out, bias) for _ in range(3))

    def forward(self, x):
        weights = (self.query_weight, self.key_weight, self.value_weight)
        return attend(*(heads_of(w(x), self.count) for w in weights), False)


class CombinedQkv(nn.Module):
    """The book's one matrix for all three, and timm's, which masks nothing."""

    def __init__(self, d_in, d_out, heads, bias=False, causal=True):
        super().__init__()
        self.count, self.causal = heads, causal
        self.qkv = nn.Linear(d_in, 3 * d_out, bias)
        self.proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        parts = (heads_of(part, self.count) for part in self.qkv(x).chunk(3, -1))
        return self.proj(attend(*parts, self.causal))


class Einsum(nn.Module):
    """Weights (d_in, d_out) with biases beside them."""

    def __init__(self, d_in, d_out, heads, bias=False):
        super().__init__()
        self.count = heads
        for name in ("query", "key", "value"):
            setattr(self, f"W_{name}", nn.Parameter(torch.rand(d_in, d_out) - 0.5))
            setattr(self, f"bias_{name[0]}", nn.Parameter(torch.rand(d_out)) if bias else None)
        self.out_proj = nn.Linear(d_out, d_out)
        self.register_buffer("mask", torch.ones(8, 8).triu(1))

    def forward(self, x):
        parts = []
        for weight, bias in ((self.W_query, self.bias_q), (self.W_key, self.bias_k), (self.W_value, self.bias_v)):
            part = torch.einsum("bsi,io->bso", x, weight)
            parts.append(heads_of(part if bias is None else part + bias, self.count))
        return self.out_proj(attend(*parts, True))


class NanoGptAttention(nn.Module):
    def __init__(self, width, heads, bias=True):
        super().__init__()
        self.count = heads
        self.c_attn = nn.Linear(width, 3 * width, bias)
        self.c_proj = nn.Linear(width, width, bias)
        self.register_buffer("bias", torch.ones(1, 1, 8, 8).tril())

    def forward(self, x):
        return self.c_proj(attend(*(heads_of(part, self.count) for part in self.c_attn(x).chunk(3, -1)), True))
