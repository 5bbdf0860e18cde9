# SPDX-License-Identifier: Apache-2.0
"""The layers of the book and of seed A as torch modules: their arguments and state_dict names, headwise's attention.

x (batch, seq, d_in) -> (batch, seq, d_out). Masks that a checkpoint stores are passed over when it is loaded: causal is
a rule here and no buffer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import headwise
from headwise import LayerResult

from ._attention import scaled_dot_product_attention
from ._book_checks import (
    check_context_length,
    check_count,
    check_divisible,
    check_dropout,
    check_input,
    check_positions,
    torch_dtype,
)
from ._errors import ShapeError
from ._options import drawn_seed

__all__ = ["CausalSelfAttention", "MultiHeadAttention", "MultiHeadAttentionLayer", "MultiHeadAttentionWrapper"]


class _BookAttention(nn.Module):
    """What the four share: how queries, keys and values become the merged heads."""

    def _take(self, d_in, d_out, context_length, dropout, num_heads, causal):
        who = type(self).__name__
        counts = {"d_in": d_in, "d_out": d_out, "num_heads": num_heads}
        if context_length is not None:
            counts["context_length"] = context_length
        for name, count in counts.items():
            check_count(who, name, count)
        check_dropout(who, dropout)
        self.d_in, self.d_out, self.num_heads = d_in, d_out, num_heads
        self.context_length, self.dropout, self.causal = context_length, dropout, bool(causal)
        self.out_proj = None

    def extra_repr(self):
        return (
            f"d_in={self.d_in}, d_out={self.d_out}, num_heads={self.num_heads}, head_dim={self.head_dim}, "
            f"context_length={self.context_length}, dropout={self.dropout}, causal={self.causal}"
        )

    def forward(
        self,
        x,
        keys_values=None,
        *,
        mask=None,
        bias=None,
        kv_lengths=None,
        query_offset=None,
        return_weights=False,
        stats=None,
    ):
        """x (batch, seq_q, d_in) -> (batch, seq_q, d_out), or a `LayerResult` with weights or stats.

        keys_values: (batch, seq_kv, d_in), what keys and values are projected from; x itself unless given. mask (bool,
        True = attend), bias, kv_lengths, query_offset, return_weights, stats: as in
        `headwise.torch.scaled_dot_product_attention`.
        """
        options = {
            "mask": mask,
            "bias": bias,
            "kv_lengths": kv_lengths,
            "query_offset": query_offset,
            "return_weights": return_weights,
            "stats": stats,
        }
        merged, weights, found = self._attend(x, keys_values, self._weights(), options)
        out = merged if self.out_proj is None else self.out_proj(merged)
        return out if weights is None and found is None else LayerResult(out, weights, found)

    def _attend(self, x, keys_values, weights, options):
        """x (batch, seq_q, d_in) -> (merged (batch, seq_q, heads * head_dim), weights, stats)."""
        who = type(self).__name__
        check_input(who, "x", x, self.d_in)
        if keys_values is not None:
            check_input(who, "keys_values", keys_values, self.d_in)
        source = x if keys_values is None else keys_values
        check_context_length(who, self.context_length, max(x.shape[1], source.shape[1]))
        check_positions(who, self.causal, options["query_offset"], x.shape[1], source.shape[1])
        q, k, v = (
            F.linear(given, weight, bias).unflatten(2, (-1, self.head_dim)).transpose(1, 2)
            for given, (weight, bias) in zip((x, source, source), weights, strict=True)
        )
        wants_more = bool(options["return_weights"] or options["stats"])
        result = scaled_dot_product_attention(
            q,
            k,
            v,
            dropout_p=self.dropout if self.training else 0.0,
            causal=self.causal,
            enable_gqa=True,
            **options,
        )
        context = result.context if wants_more else result
        merged = context.transpose(1, 2).flatten(2)
        return (merged, result.weights, result.stats) if wants_more else (merged, None, None)

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        state_dict.pop(f"{prefix}mask", None)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _drawn(seed, make):
    """What make() gives with initial weights of that seed; of torch's own generator where there is none."""
    if seed is None:
        return make()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def _linear(module):
    return module.weight, module.bias


class CausalSelfAttention(_BookAttention):
    """One causal head. Parameters: W_query.weight, W_key.weight, W_value.weight, each (d_out, d_in), with qkv_bias also
    .bias. seed: of the initial weights; torch's own generator unless given. Dropout draws from torch's generator."""

    def __init__(self, d_in, d_out, context_length=None, dropout=0.0, qkv_bias=False, *, seed=None):
        super().__init__()
        self._take(d_in, d_out, context_length, dropout, 1, True)
        self.head_dim = d_out
        self.W_query, self.W_key, self.W_value = _drawn(
            seed, lambda: [nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3)]
        )

    def _weights(self):
        return _linear(self.W_query), _linear(self.W_key), _linear(self.W_value)


class MultiHeadAttentionWrapper(_BookAttention):
    """Causal heads side by side, their outputs concatenated. The heads' weights are stacked for each forward: H heads
    cost what the weight-split layer costs, and hooks of a head are not called.

    Parameters: heads.{i}.W_query.weight and so on, each (head_dim, d_in); with out_proj also out_proj.weight, .bias.

    Args:
        width: "per_head": d_out counts one head, and the output is (batch, seq, num_heads * d_out); "total": d_out
            counts all heads, each has d_out // num_heads.
        out_proj: a projection over the concatenated heads.
    """

    def __init__(
        self,
        d_in,
        d_out,
        context_length=None,
        dropout=0.0,
        num_heads=1,
        qkv_bias=False,
        *,
        width="per_head",
        out_proj=False,
        seed=None,
    ):
        super().__init__()
        who = "MultiHeadAttentionWrapper"
        if width not in ("per_head", "total"):
            raise ShapeError(f'{who}: width must be "per_head" or "total", got {width!r}')
        self._take(d_in, d_out, context_length, dropout, num_heads, True)
        if width == "total":
            check_divisible(who, "d_out", d_out, "num_heads", num_heads)
        self.head_dim = d_out if width == "per_head" else d_out // num_heads
        self.d_out = self.head_dim * num_heads

        def make():
            made = [
                CausalSelfAttention(d_in, self.head_dim, context_length, dropout, qkv_bias) for _ in range(num_heads)
            ]
            return nn.ModuleList(made), nn.Linear(self.d_out, self.d_out) if out_proj else None

        self.heads, self.out_proj = _drawn(seed, make)

    def _weights(self):
        parts = [head._weights() for head in self.heads]
        stacked = []
        for which in range(3):
            bias = None if parts[0][which][1] is None else torch.cat([part[which][1] for part in parts])
            stacked.append((torch.cat([part[which][0] for part in parts]), bias))
        return stacked

    def fuse(self):
        """The weight-split layer of the same weights: equal outputs."""
        qkv_bias = self.heads[0].W_query.bias is not None
        weight = self.heads[0].W_query.weight
        layer = MultiHeadAttention(
            self.d_in,
            self.d_out,
            self.context_length,
            self.dropout,
            self.num_heads,
            qkv_bias,
            out_proj=self.out_proj is not None,
            seed=0,
            dtype=weight.dtype,
        )
        with torch.no_grad():
            for module, (stacked, bias) in zip(
                (layer.W_query, layer.W_key, layer.W_value), self._weights(), strict=True
            ):
                module.weight.copy_(stacked)
                if bias is not None:
                    module.bias.copy_(bias)
            if self.out_proj is not None:
                layer.out_proj.load_state_dict(self.out_proj.state_dict())
        return layer.train(self.training)


class MultiHeadAttention(_BookAttention):
    """The weight-split layer: one projection each for queries, keys and values, cut into heads, merged, projected.

    Parameters: W_query.weight (heads * head_dim, d_in), W_key.weight and W_value.weight (kv_heads * head_dim, d_in),
    with qkv_bias also .bias; out_proj.weight (d_out, heads * head_dim) and out_proj.bias (d_out,).

    Args: as `headwise.MultiHeadAttention`; seed is that of the initial weights, torch's own generator unless given.
    """

    def __init__(
        self,
        d_in,
        d_out,
        context_length=None,
        dropout=0.0,
        num_heads=1,
        qkv_bias=False,
        *,
        causal=True,
        out_proj=True,
        out_bias=True,
        num_kv_heads=None,
        head_dim=None,
        init="torch_linear",
        seed=None,
        dtype="float32",
    ):
        super().__init__()
        self._take(d_in, d_out, context_length, dropout, num_heads, causal)
        who = "MultiHeadAttention"
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_count(who, "num_kv_heads", kv_heads)
        check_divisible(who, "num_heads", num_heads, "num_kv_heads", kv_heads)
        if head_dim is None:
            check_divisible(who, "d_out", d_out, "num_heads", num_heads)
        width = d_out // num_heads if head_dim is None else head_dim
        check_count(who, "head_dim", width)
        if not out_proj and width * num_heads != d_out:
            raise ShapeError(
                f"{who}: without out_proj d_out must be num_heads * head_dim = {num_heads * width}, got {d_out}"
            )
        self.num_kv_heads, self.head_dim = kv_heads, width
        rows, kv_rows = num_heads * width, kv_heads * width

        def make():
            made = [nn.Linear(d_in, count, bias=qkv_bias) for count in (rows, kv_rows, kv_rows)]
            return (*made, nn.Linear(rows, d_out, bias=out_bias) if out_proj else None)

        self.W_query, self.W_key, self.W_value, self.out_proj = _drawn(seed, make)
        if init != "torch_linear":
            self._initialise(init, seed)
        self.to(torch_dtype(who, dtype))

    def _initialise(self, init, seed):
        """The initial weights that the numpy layer of the same arguments has."""
        twin = headwise.MultiHeadAttention(
            self.d_in,
            self.d_out,
            num_heads=self.num_heads,
            qkv_bias=self.W_query.bias is not None,
            out_proj=self.out_proj is not None,
            out_bias=self.out_proj is not None and self.out_proj.bias is not None,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            init=init,
            seed=int(drawn_seed()) if seed is None else seed,
        )
        self.load_state_dict({name: torch.from_numpy(array) for name, array in twin.state_dict().items()})

    def _weights(self):
        return _linear(self.W_query), _linear(self.W_key), _linear(self.W_value)


class MultiHeadAttentionLayer(_BookAttention):
    """The weight-split layer without an output projection, and without a mask unless one is asked for.

    Parameters: query_weight.weight, key_weight.weight, value_weight.weight, each (d_out, d_in), with use_bias also
    .bias. seed: of the initial weights; torch's own generator unless given.
    """

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, use_bias=False, *, causal=False, seed=None):
        super().__init__()
        self._take(d_in, d_out, context_length, dropout, num_heads, causal)
        check_divisible("MultiHeadAttentionLayer", "d_out", d_out, "num_heads", num_heads)
        self.head_dim = d_out // num_heads
        self.query_weight, self.key_weight, self.value_weight = _drawn(
            seed, lambda: [nn.Linear(d_in, d_out, bias=use_bias) for _ in range(3)]
        )

    def _weights(self):
        return _linear(self.query_weight), _linear(self.key_weight), _linear(self.value_weight)
