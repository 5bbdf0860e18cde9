# SPDX-License-Identifier: Apache-2.0
"""A GPT-type decoder in torch, with the names and shapes of headwise's parameters: its twin for comparisons."""

import torch
from torch import nn
from torch.nn import functional


class Norm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, width, heads, bias, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.c_attn = nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        batch, seq, width = x.shape
        parts = self.c_attn(x).view(batch, seq, 3, self.heads, width // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        context = functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, dropout_p=self.dropout if self.training else 0.0
        )
        merged = context.transpose(1, 2).reshape(batch, seq, width)
        return functional.dropout(self.c_proj(merged), self.dropout, self.training)


class FeedForward(nn.Module):
    def __init__(self, width, bias, activation, dropout):
        super().__init__()
        self.approximate = "tanh" if activation == "gelu_tanh" else "none"
        self.dropout = dropout
        self.c_fc = nn.Linear(width, 4 * width, bias=bias)
        self.c_proj = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        wide = functional.gelu(self.c_fc(x), approximate=self.approximate)
        return functional.dropout(self.c_proj(wide), self.dropout, self.training)


class Block(nn.Module):
    def __init__(self, width, heads, bias, activation, dropout):
        super().__init__()
        self.ln_1, self.ln_2 = Norm(width, bias), Norm(width, bias)
        self.attn = Attention(width, heads, bias, dropout)
        self.mlp = FeedForward(width, bias, activation, dropout)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class DecoderTwin(nn.Module):
    def __init__(self, layers, hidden, heads, vocab, positions, bias, tied, activation="gelu", dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab, hidden),
                "wpe": nn.Embedding(positions, hidden),
                "h": nn.ModuleList(Block(hidden, heads, bias, activation, dropout) for _ in range(layers)),
                "ln_f": Norm(hidden, bias),
            }
        )
        self.lm_head = None if tied else nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids):
        parts = self.transformer
        x = parts["wte"](ids) + parts["wpe"](torch.arange(ids.shape[1]))
        x = functional.dropout(x, self.dropout, self.training)
        for block in parts["h"]:
            x = block(x)
        x = parts["ln_f"](x)
        return functional.linear(x, parts["wte"].weight if self.lm_head is None else self.lm_head.weight)

    def loss(self, ids, targets):
        return functional.cross_entropy(self(ids).flatten(0, 1), targets.flatten())
