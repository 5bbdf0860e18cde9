# SPDX-License-Identifier: Apache-2.0
"""What a hand-written attention becomes: its own parameters under their own names, headwise's computation."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from ._attention import scaled_dot_product_attention


class Plan(NamedTuple):
    """Where the parts of a recognised module lie, by the names of its submodules.

    heads: one (query, key, value) of names for each head that stands alone, or a single one for all heads together, or
    a single (name,) of a layer that makes all three. num_heads: over all. out_proj, out_dropout: names, None without.
    dropout: on the weights: the name of a layer or of an attribute with the number, None without.
    order: how the rows of that one layer are cut, outermost first, "3" the three roles, "h" heads, "d" head_dim.
    """

    kind: str
    heads: tuple
    num_heads: int
    out_proj: str | None
    dropout: str | None
    causal: bool = False
    order: str = ""
    out_dropout: str | None = None


class FusedAttention(nn.Module):
    """A module that `fuse` has recognised: x (batch, seq, d_in) -> (batch, seq, d_out), everything else as it was.

    Made by changing the class of the module in its place, so that parameters, names, attributes, hooks and whoever
    holds the module stay the same. `was` is the class it had.
    """

    def forward(self, x):
        plan = self.__dict__["fused_plan"]
        if plan.order:
            q, k, v = self._cut(self.get_submodule(plan.heads[0][0])(x), plan)
        else:
            q, k, v = (self._project(x, [names[which] for names in plan.heads], plan) for which in range(3))
        dropout = 0.0
        if self.training and plan.dropout is not None:
            dropout = rate_of(self, plan.dropout)
        context = scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=plan.causal, enable_gqa=True)
        out = context.transpose(1, 2).flatten(2)
        for name in (plan.out_proj, plan.out_dropout):
            if name is not None:
                out = self.get_submodule(name)(out)
        return out

    def _project(self, x, names, plan):
        """(batch, heads, seq, head_dim) of one role: one product, also where each head has its own weight."""
        layers = [self.get_submodule(name) for name in names]
        if len(layers) == 1:
            projected = layers[0](x)
        else:
            bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
            projected = F.linear(x, torch.cat([layer.weight for layer in layers]), bias)
        return projected.unflatten(2, (-1, self.__dict__["fused_head_dim"])).transpose(1, 2)

    def _cut(self, projected, plan):
        """Views (batch, heads, seq, head_dim) of the three roles in (batch, seq, 3 * heads * head_dim)."""
        sizes = {"3": 3, "h": plan.num_heads, "d": self.__dict__["fused_head_dim"]}
        parts = projected.unflatten(2, [sizes[axis] for axis in plan.order])
        return parts.permute(2 + plan.order.index("3"), 0, 2 + plan.order.index("h"), 1, 2 + plan.order.index("d"))

    @property
    def was(self):
        return self.__dict__["fused_was"]

    def extra_repr(self):
        plan = self.__dict__["fused_plan"]
        return f"was={self.was.__name__}, {plan.kind}, num_heads={plan.num_heads}, causal={plan.causal}"


def rate_of(module, name):
    """The probability that a dropout layer has, or an attribute of that name."""
    owner, _, last = name.rpartition(".")
    part = getattr(module.get_submodule(owner), last)
    return part.p if isinstance(part, nn.Module) else float(part)


def become_fused(module, plan):
    """Changes the module's class in its place."""
    first = module.get_submodule(plan.heads[0][0])
    rows = first.out_features // 3 if plan.order else first.out_features * len(plan.heads)
    module.__dict__.update(fused_plan=plan, fused_head_dim=rows // plan.num_heads, fused_was=type(module))
    module.__class__ = FusedAttention
    return module
