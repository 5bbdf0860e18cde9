# SPDX-License-Identifier: Apache-2.0
"""fuse(model): which hand-written attention it replaces, that nothing else changes, and what it leaves."""

import copy
import math
import pickle

import pytest
import torch
from torch import nn

from headwise.torch import book, fuse


class Head(nn.Module):
    """One causal head as the book writes it."""

    def __init__(self, d_in, d_out, context, dropout=0.0, bias=False):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=bias) for _ in range(3))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context, context), diagonal=1))

    def forward(self, x):
        seq = x.shape[1]
        scores = self.W_query(x) @ self.W_key(x).mT
        scores = scores.masked_fill(self.mask.bool()[:seq, :seq], -torch.inf)
        return self.dropout(torch.softmax(scores / self.W_key.out_features**0.5, dim=-1)) @ self.W_value(x)


class OutputDropout(Head):
    def forward(self, x):
        seq = x.shape[1]
        scores = self.W_query(x) @ self.W_key(x).mT
        scores = scores.masked_fill(self.mask.bool()[:seq, :seq], -torch.inf)
        return self.dropout(torch.softmax(scores / self.W_key.out_features**0.5, dim=-1) @ self.W_value(x))


class Wrapper(nn.Module):
    """Heads whose outputs are concatenated; per head or in total, with a projection or without."""

    def __init__(self, d_in, d_out, context, heads, projection=False, dropout=0.0, bias=False):
        super().__init__()
        width = d_out // heads if projection else d_out
        self.heads = nn.ModuleList([Head(d_in, width, context, dropout, bias) for _ in range(heads)])
        self.out_proj = nn.Linear(d_out, d_out) if projection else nn.Identity()

    def forward(self, x):
        return self.out_proj(torch.cat([head(x) for head in self.heads], dim=-1))


class WeightSplit(nn.Module):
    """One projection for all heads; `fault` breaks it in a way that is often met."""

    def __init__(self, d_in, d_out, context, heads, dropout=0.0, causal=True, fault=None):
        super().__init__()
        self.num_heads, self.causal, self.fault = heads, causal, fault
        self.query, self.key, self.value = (nn.Linear(d_in, d_out) for _ in range(3))
        self.proj = nn.Linear(d_out, d_out)
        self.weights_dropout = nn.Dropout(dropout)
        self.context = context

    def forward(self, x):
        batch, seq, _ = x.shape
        if self.fault == "no transpose":
            q, k, v = (f(x).view(batch, self.num_heads, seq, -1) for f in (self.query, self.key, self.value))
        else:
            projected = (layer(x) for layer in (self.query, self.key, self.value))
            q, k, v = (t.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for t in projected)
        scores = q @ k.mT / (q.shape[-1] ** 0.5 if self.fault != "no scale" else 1)
        if self.causal:
            hidden = torch.ones(seq, seq, dtype=torch.bool).triu(1)
            if self.fault == "window":
                hidden |= torch.ones(seq, seq, dtype=torch.bool).tril(-64)
            scores = scores.masked_fill(hidden, -math.inf)
        weights = torch.softmax(scores, dim=-1 if self.fault != "softmax over queries" else -2)
        context = self.weights_dropout(weights) @ v
        if self.fault == "training":
            context = context * (2 if self.training else 1)
        return self.proj(context.transpose(1, 2).flatten(2))


def the_same(model, change):
    """Whether the change leaves outputs and all gradients of the model as they are."""
    x = torch.randn(2, 9, 6, requires_grad=True)
    before = model(x)
    grads = torch.autograd.grad(before.square().sum(), [x, *model.parameters()])
    report = change(model)
    after = model(x)
    again = torch.autograd.grad(after.square().sum(), [x, *model.parameters()])
    assert torch.allclose(after, before, atol=1e-5)
    for one, other in zip(again, grads, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)
    return report


MODELS = [
    (lambda: Wrapper(6, 4, 12, 3), "heads side by side, 3 heads, causal"),
    (lambda: Wrapper(6, 12, 12, 3, projection=True, bias=True), "heads side by side, 3 heads, causal"),
    (lambda: Wrapper(6, 4, 12, 2, dropout=0.0), "heads side by side, 2 heads, causal"),
    (lambda: WeightSplit(6, 8, 12, 2), "weight-split, 2 heads, causal"),
    (lambda: WeightSplit(6, 8, 12, 4, causal=False), "weight-split, 4 heads, not causal"),
    (lambda: Head(6, 4, 12), "one head, causal"),
    (lambda: OutputDropout(6, 4, 12), "one head, causal"),
]


@pytest.mark.parametrize("case", range(len(MODELS)))
def test_hand_written_attention_is_replaced_with_equal_numbers_and_names(case):
    make, told = MODELS[case]
    torch.manual_seed(case)
    model = make()
    names, parameters = list(model.state_dict()), [id(p) for p in model.parameters()]
    was = type(model).__name__
    report = the_same(model, fuse)
    assert report.modules == (("", was, True, f"{told}; outputs and gradients equal"),)
    assert list(model.state_dict()) == names
    assert [id(p) for p in model.parameters()] == parameters
    assert model.was.__name__ == was
    assert fuse(model).modules == ()


def test_it_reaches_into_a_model_and_keeps_an_optimizer_going():
    torch.manual_seed(0)
    model = nn.Sequential(Wrapper(6, 6, 12, 2, projection=True), nn.LayerNorm(6), WeightSplit(6, 6, 12, 3))
    twin = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin)]
    report = fuse(model)
    assert [(m.name, m.replaced) for m in report.modules] == [("0", True), ("2", True)]
    assert str(report).splitlines()[0] == "2 replaced, 0 left"
    x = torch.randn(2, 9, 6)
    for _ in range(3):
        losses = []
        for m, optimizer in zip((model, twin), optimizers, strict=True):
            loss = m(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_dropout_stays_on_the_weights_and_follows_its_layer():
    model = Wrapper(6, 4, 12, 2, dropout=0.5)
    assert fuse(model).replaced
    x = torch.randn(2, 9, 6)
    torch.manual_seed(1)
    first = model(x)
    torch.manual_seed(1)
    assert torch.equal(model(x), first)
    assert not torch.equal(model(x), first)
    model.eval()
    assert torch.equal(model(x), model(x))


def test_a_fused_model_copies_and_pickles():
    model = nn.Sequential(Wrapper(6, 4, 12, 2))
    fuse(model)
    x = torch.randn(2, 9, 6)
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(made(x), model(x))


def test_fuse_draws_nothing_and_changes_nothing_that_it_leaves():
    model = WeightSplit(6, 8, 12, 2, dropout=0.2, fault="no scale")
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    report = fuse(model)
    assert not report.replaced
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert type(model) is WeightSplit
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


class TwoArguments(Head):
    def forward(self, x, mask):
        return super().forward(x)


class WithGate(Head):
    def __init__(self):
        super().__init__(6, 4, 12)
        self.gate = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return super().forward(x) * self.gate


class Tupled(Head):
    def forward(self, x):
        return super().forward(x), None


def edited():
    model = Head(6, 4, 12)
    model.mask[7, 2] = 1
    return model


def hooked():
    model = Wrapper(6, 4, 12, 2)
    model.heads[1].register_forward_hook(lambda *_: None)
    return model


NUMBERS = "its numbers are not those of attention"
LEFT = [
    (lambda: WeightSplit(6, 8, 12, 2, fault="no scale"), f"{NUMBERS}: outputs or gradients differ by"),
    (lambda: WeightSplit(6, 8, 12, 2, fault="no transpose"), f"{NUMBERS}: outputs or gradients differ by"),
    (lambda: WeightSplit(6, 8, 12, 2, fault="softmax over queries"), f"{NUMBERS}: outputs or gradients differ by"),
    (lambda: WeightSplit(6, 8, 12, 2, fault="window"), f"{NUMBERS} on a longer input, seq=512"),
    (
        lambda: WeightSplit(6, 8, 12, 2, fault="training"),
        "in training, with its dropout layers at 0, its numbers are not",
    ),
    (lambda: TwoArguments(6, 4, 12), "it does not take x (batch, seq, d_in) alone: "),
    (WithGate, "its parameter gate has no place in attention as headwise computes it"),
    (lambda: Tupled(6, 4, 12), "it gives a tuple, not one tensor"),
    (edited, "its buffer mask is not a causal mask"),
    (hooked, "heads.1 has hooks, which would not be called any more"),
    (lambda: nn.MultiheadAttention(8, 2), "torch's own: headwise.torch.enable() serves it"),
]


@pytest.mark.parametrize("case", range(len(LEFT)))
def test_what_is_not_equal_is_left_and_the_report_says_why(case):
    make, reason = LEFT[case]
    torch.manual_seed(case)
    model = make()
    was = type(model)
    report = fuse(model)
    entry = report.modules[0]
    assert not entry.replaced
    assert entry.reason.startswith(reason)
    assert type(model) is was
    assert entry in report.left


def test_headwises_own_layers_and_other_modules_are_passed_over():
    model = nn.Sequential(book.MultiHeadAttention(6, 8, num_heads=2), nn.Linear(8, 8))
    assert fuse(model).modules == ()
    with pytest.raises(TypeError, match=r"^fuse: model must be a torch.nn.Module, got int$"):
        fuse(3)
