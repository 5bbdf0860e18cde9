# SPDX-License-Identifier: Apache-2.0
"""`fuse(model)`: hand-written attention replaced by headwise's, each after it has been shown to be equal."""

from __future__ import annotations

import copy
import itertools
import math
from typing import NamedTuple

import torch
from torch import nn

from . import book
from ._dropout_places import WithoutDropout, with_dropouts
from ._fused import FusedAttention, become_fused
from ._multihead import MultiheadAttention
from ._recognise import Unfit, check_buffers, looks_like_attention, plan_of

# float64, relative to the largest number of a tensor: some thousand roundings.
_TOLERANCE = 1e-10
_SHORT, _LONG = 5, 512
# How the rows of one layer for all three may be cut: GPT-2 and the book, NeoX and BLOOM, and the rest.
_ORDERS = ("3hd", "h3d", "hd3", "3dh")
_OWN = (FusedAttention, MultiheadAttention, book._BookAttention)


class FusedModule(NamedTuple):
    """One module that looked like attention: its name in the model ("" is the model itself), its class, whether it
    was replaced, and how or why not."""

    name: str
    was: str
    replaced: bool
    reason: str


class FuseReport(NamedTuple):
    """What `fuse` found, in the order of the model's modules."""

    modules: tuple

    @property
    def replaced(self):
        return tuple(m for m in self.modules if m.replaced)

    @property
    def left(self):
        return tuple(m for m in self.modules if not m.replaced)

    def __str__(self):
        lines = [f"{len(self.replaced)} replaced, {len(self.left)} left"]
        for m in self.modules:
            lines.append(f"  {'replaced' if m.replaced else 'left':8}  {m.name or '(the model)'} ({m.was}): {m.reason}")
        return "\n".join(lines)


def fuse(model):
    """Replaces hand-written attention in the model, in place: lists of single heads whose outputs are concatenated,
    with or without an output projection, weight-split layers, one layer for queries, keys and values together
    (nanoGPT's c_attn, the book's qkv), and single heads.

    Each is first compared with its replacement on random input in float64: outputs, and the gradients of the input and
    of every parameter; and once more on a longer input, up to its context or 512. What is not equal, or takes more than
    x (batch, seq, d_in), is left. Parameters, buffers and their names, attributes and hooks of a replaced module stay;
    an optimizer that holds them goes on.

    Returns:
        A `FuseReport`: what was replaced, and what was not and why.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"fuse: model must be a torch.nn.Module, got {type(model).__name__}")
    found, done = [], set()
    for name, module in list(model.named_modules()):
        if isinstance(module, _OWN):
            done.update(module.modules())
        if module in done or not _is_candidate(module):
            continue
        entry = _try(name, module)
        found.append(entry)
        if entry.replaced:
            done.update(module.modules())
    return FuseReport(tuple(found))


def _is_candidate(module):
    return isinstance(module, nn.MultiheadAttention) or looks_like_attention(module)


def _try(name, module):
    was = type(module).__name__
    if isinstance(module, nn.MultiheadAttention):
        return FusedModule(name, was, False, "torch's own: headwise.torch.enable() serves it")
    try:
        plan = plan_of(module)
        plan = _compared(module, plan)
    except Unfit as unfit:
        return FusedModule(name, was, False, str(unfit))
    become_fused(module, plan)
    kind = plan.kind if plan.num_heads == 1 else f"{plan.kind}, {plan.num_heads} heads"
    causal = "causal" if plan.causal else "not causal"
    return FusedModule(name, was, True, f"{kind}, {causal}; outputs and gradients equal")


def _compared(module, plan):
    """The plan, whole, under which the replacement equals the module. Throws Unfit."""
    theirs = copy.deepcopy(module).double().eval()
    context = check_buffers(theirs)
    width = theirs.get_submodule(plan.heads[0][0]).in_features
    x = _random((2, min(_SHORT, context), width), 0)
    expected = _outputs(theirs, x)
    with torch.random.fork_rng(devices=[]):
        plan = with_dropouts(theirs, plan, x)
    theirs.eval()
    differences = []
    for causal, order in itertools.product((True, False), _ORDERS if plan.order else ("",)):
        tried = plan._replace(causal=causal, order=order)
        ours = become_fused(copy.deepcopy(theirs), tried)
        differences.append(_difference(_outputs(ours, x), expected))
        if differences[-1] <= _TOLERANCE:
            _compare_further(theirs, ours, _random((1, min(_LONG, context), width), 2), x)
            return tried
    worst = min(differences)
    raise Unfit(f"its numbers are not those of attention: outputs or gradients differ by {worst:.2g} of the largest")


def _compare_further(theirs, ours, longer, x):
    """What a short input in eval cannot show: a window, and another way in training. Throws Unfit."""
    with torch.no_grad():
        if not _difference([ours(longer)], [theirs(longer)]) <= _TOLERANCE:
            raise Unfit(f"its numbers are not those of attention on a longer input, seq={longer.shape[1]}")
        with torch.random.fork_rng(devices=[]), WithoutDropout():
            if not _difference([ours.train()(x)], [theirs.train()(x)]) <= _TOLERANCE:
                raise Unfit("in training, with its dropout layers at 0, its numbers are not those of attention")


def _random(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _outputs(module, x):
    """[output, gradient of x, gradients of the parameters] of one run. Throws Unfit where it does not run."""
    x = x.clone().requires_grad_()
    try:
        with torch.enable_grad():
            out = module(x)
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unfit(f"it does not take x (batch, seq, d_in) alone: {text}") from None
    if not isinstance(out, torch.Tensor):
        raise Unfit(f"it gives a {type(out).__name__}, not one tensor")
    if not out.requires_grad:
        raise Unfit("its output has no gradient")
    grad = _random(out.shape, 1)
    parameters = [p for p in module.parameters() if p.requires_grad]
    return [out, *torch.autograd.grad(out, [x, *parameters], grad, materialize_grads=True)]


def _difference(ours, theirs):
    """The largest difference, relative to the largest number of its tensor; infinite where shapes differ."""
    found = 0.0
    for one, other in zip(ours, theirs, strict=True):
        if one.shape != other.shape:
            return math.inf
        peak = other.detach().abs().max().clamp(min=1e-3)
        difference = ((one.detach() - other.detach()).abs().max() / peak).item()
        found = max(found, difference if difference == difference else math.inf)
    return found
