# SPDX-License-Identifier: Apache-2.0
"""Where a hand-written attention drops: found by running it once in training, with every dropout taken out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from . import _attention
from ._enable import _torchs
from ._recognise import Unfit

_AT_DROPOUT_P = 4  # of the arguments of scaled_dot_product_attention


class WithoutDropout(TorchFunctionMode):
    """Takes every dropout of the run out, and records it: (p, what it was applied to or None for the weights inside
    of scaled_dot_product_attention)."""

    def __init__(self, seen=None):
        super().__init__()
        self.seen = seen if seen is not None else lambda p, tensor: None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in (F.dropout, torch.dropout):
            p, training = (kwargs.get(n, args[at] if len(args) > at else d) for n, at, d in _DROPOUT)
            tensor = args[0] if args else kwargs["input"]
            if training:
                self.seen(p, tensor)
            return tensor
        if func in (F.scaled_dot_product_attention, _torchs, _attention.scaled_dot_product_attention):
            p = kwargs.pop("dropout_p", args[_AT_DROPOUT_P] if len(args) > _AT_DROPOUT_P else 0.0)
            self.seen(p, None)
            args = (*args[:_AT_DROPOUT_P], 0.0, *args[_AT_DROPOUT_P + 1 :]) if len(args) > _AT_DROPOUT_P else args
        return func(*args, **kwargs)


_DROPOUT = (("p", 1, 0.5), ("training", 2, True))


def with_dropouts(module, plan, x):
    """The plan with the names of its dropouts, on the weights and on the output. Throws Unfit where there is another.

    module is changed: it is in training afterwards."""
    places, layers = [], []
    hooks = [
        part.register_forward_pre_hook(lambda *_, name=name: layers.append(name))
        for name, part in module.named_modules()
        if isinstance(part, nn.Dropout)
    ]

    def seen(p, tensor):
        places.append((p, tensor, layers.pop() if layers else None))

    try:
        with torch.no_grad(), WithoutDropout(seen):
            out = module.train()(x)
    finally:
        for hook in hooks:
            hook.remove()
    on_weights = [place for place in places if place[1] is None or _are_weights(place[1], x.shape[1])]
    rates = {p for p, *_ in on_weights}
    if len(rates) > 1:
        raise Unfit(f"its dropouts on the weights differ: {', '.join(map(str, sorted(rates)))}")
    others = [place for place in places if not any(place is one for one in on_weights)]
    on_output = [place for place in others if _is_same(place[1], out)]
    for p, _, name in others[: -1 if on_output and on_output[-1] is others[-1] else None]:
        if p > 0:
            raise Unfit(f"{name or 'a dropout'} is a dropout on neither the attention weights nor the output")
    out_name = on_output[-1][2] if on_output else None
    if on_output and on_output[-1][0] > 0 and out_name is None:
        raise Unfit("the dropout on its output is no layer of its own")
    return plan._replace(dropout=_source(module, on_weights), out_dropout=out_name)


def _are_weights(tensor, seq):
    """Rows that sum to 1, one number for each key."""
    if tensor.dim() < 3 or tensor.shape[-2:] != (seq, seq):
        return False
    sums = tensor.sum(-1)
    return torch.allclose(sums, torch.ones_like(sums))


def _is_same(tensor, out):
    return tensor.shape == out.shape and torch.equal(tensor, out)


def _source(module, places):
    """The layer or the attribute that holds the probability on the weights."""
    if not places:
        return None
    p, _, name = places[0]
    if name is not None:
        return name
    for attribute, value in vars(module).items():
        if "drop" in attribute and isinstance(value, float) and value == p:
            return attribute
    if p > 0:
        raise Unfit(f"no attribute of it holds the dropout_p={p} of its weights")
    return None
