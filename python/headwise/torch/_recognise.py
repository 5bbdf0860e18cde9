# SPDX-License-Identifier: Apache-2.0
"""Which modules look like hand-written attention, by the parts they are made of; nothing is run here."""

from __future__ import annotations

import math

import torch
from torch import nn

from ._fused import Plan

_ROLES = (
    ("W_query", "W_key", "W_value"),
    ("query_weight", "key_weight", "value_weight"),
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("to_q", "to_k", "to_v"),
    ("Wq", "Wk", "Wv"),
    ("wq", "wk", "wv"),
    ("q", "k", "v"),
)
# One layer for all three.
_COMBINED = ("qkv", "c_attn", "qkv_proj", "in_proj", "Wqkv", "W_qkv", "to_qkv", "query_key_value", "attn_qkv", "c_qkv")
_OUT = ("out_proj", "proj", "o_proj", "c_proj", "W_out", "Wo", "wo", "to_out", "out")
_COUNTS = ("num_heads", "n_heads", "n_head", "heads", "h")


class Unfit(Exception):
    """Why a module that looks like attention is not one that can be replaced."""


def looks_like_attention(module):
    return (
        role_names(module) is not None
        or combined_name(module) is not None
        or _head_list(module) is not None
        or _is_called_attention(module)
    )


def _is_called_attention(module):
    return "attention" in type(module).__name__.lower() and any(True for _ in module.parameters())


def role_names(module):
    """The names of its query, key and value projections; None where there are none."""
    for names in _ROLES:
        if all(isinstance(module._modules.get(name), nn.Linear) for name in names):
            return names
    return None


def combined_name(module):
    """The name of the layer that makes queries, keys and values at once; None where there is none."""
    for name in _COMBINED:
        part = module._modules.get(name)
        if isinstance(part, nn.Linear) and part.out_features % 3 == 0:
            return name
    return None


def _head_list(module):
    """(name, list) of its heads: a ModuleList of modules with one projection of each role."""
    for name, child in module._modules.items():
        if isinstance(child, nn.ModuleList) and len(child) and all(role_names(head) is not None for head in child):
            return name, child
    return None


def plan_of(module):
    """The module's `Plan`; its causality, its dropouts and the order of one combined layer still open. Throws Unfit."""
    heads, combined = _head_list(module), combined_name(module)
    if heads is not None:
        plan = _plan_of_list(module, *heads)
    elif combined is not None and role_names(module) is None:
        plan = _plan_of_combined(module, combined)
    else:
        plan = _plan_of_layer(module)
    _check_hooks(module, plan)
    _check_nothing_else(module, plan)
    return plan


def _plan_of_list(module, list_name, heads):
    names = []
    for at, head in enumerate(heads):
        roles = role_names(head)
        if isinstance(getattr(head, "num_heads", 1), int) and getattr(head, "num_heads", 1) != 1:
            raise Unfit(f"{list_name}.{at} has several heads itself")
        names.append(tuple(f"{list_name}.{at}.{role}" for role in roles))
    shapes = {tuple((layer.weight.shape, layer.bias is None) for layer in _layers(module, group)) for group in names}
    if len(shapes) > 1:
        raise Unfit("its heads differ in shape")
    widths = [layer.out_features for layer in _layers(module, names[0])]
    if len(set(widths)) > 1:
        raise Unfit(f"a head's queries, keys and values are {widths[0]}, {widths[1]} and {widths[2]} wide")
    out = _out_projection(module, widths[0] * len(names))
    return Plan("heads side by side", tuple(names), len(names), out, None)


def _plan_of_combined(module, name):
    width = module._modules[name].out_features // 3
    count = _head_count(module)
    if count is None:
        raise Unfit(f"it has one layer {name} and no number of heads by the name of {', '.join(_COUNTS)}")
    if count < 1 or width % count:
        raise Unfit(f"its queries are {width} wide, which {count} heads do not divide")
    kind = "one head" if count == 1 else "combined qkv"
    return Plan(kind, ((name,),), count, _out_projection(module, width), None, order="3hd")


def _head_count(module):
    return next((getattr(module, name) for name in _COUNTS if isinstance(getattr(module, name, None), int)), None)


def _plan_of_layer(module):
    names = role_names(module)
    if names is None:
        raise Unfit("it has no query, key and value layers that are known by name")
    query, key, value = _layers(module, names)
    count = _head_count(module)
    count = 1 if count is None else count
    if count < 1 or query.out_features % count:
        raise Unfit(f"its queries are {query.out_features} wide, which {count} heads do not divide")
    head_dim = query.out_features // count
    if key.out_features != value.out_features or key.out_features % head_dim:
        raise Unfit(f"keys and values are {key.out_features} and {value.out_features} wide, heads {head_dim}")
    if count % (key.out_features // head_dim):
        raise Unfit(f"{count} heads do not share {key.out_features // head_dim} heads of keys")
    out = _out_projection(module, query.out_features)
    kind = "one head" if count == 1 else "weight-split"
    return Plan(kind, (names,), count, out, None)


def _layers(module, names):
    return [module.get_submodule(name) for name in names]


def _out_projection(module, width):
    found = [name for name in _OUT if isinstance(module._modules.get(name), nn.Linear)]
    if len(found) > 1:
        raise Unfit(f"it has two output projections, {found[0]} and {found[1]}")
    if found and module._modules[found[0]].in_features != width:
        raise Unfit(f"{found[0]} takes {module._modules[found[0]].in_features} numbers, the heads give {width}")
    return found[0] if found else None


def _check_hooks(module, plan):
    for name, part in module.named_modules():
        hooked = part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
        if name and name != plan.out_proj and hooked:
            raise Unfit(f"{name} has hooks, which would not be called any more")


def _check_nothing_else(module, plan):
    """Every parameter must be one that the plan uses."""
    used = {f"{name}." for group in plan.heads for name in group}
    used |= {f"{plan.out_proj}."} if plan.out_proj else set()
    for name, _ in module.named_parameters():
        if not any(name.startswith(prefix) for prefix in used):
            raise Unfit(f"its parameter {name} has no place in attention as headwise computes it")


def check_buffers(module):
    """The longest input that the module's stored masks allow. Throws Unfit where one is no causal mask."""
    longest = math.inf
    for name, buffer in module.named_buffers():
        if buffer.dim() < 2:
            continue
        square = buffer.reshape(-1, *buffer.shape[-2:])
        rows = square.shape[-1]
        if square.shape[1:] != (rows, rows) or not _is_causal_mask(square):
            raise Unfit(f"its buffer {name} is not a causal mask")
        longest = min(longest, rows)
    return longest


def _is_causal_mask(square):
    """Whether every matrix says one thing on and below the diagonal, and another above it."""
    below = torch.ones(square.shape[1:], dtype=torch.bool).tril()
    inside, outside = square[:, below], square[:, ~below]
    same = bool((inside == inside[0, 0]).all()) and (outside.numel() == 0 or bool((outside == outside[0, 0]).all()))
    return same and (outside.numel() == 0 or bool(inside[0, 0] != outside[0, 0]))
