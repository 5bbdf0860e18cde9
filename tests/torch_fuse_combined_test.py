# SPDX-License-Identifier: Apache-2.0
"""fuse on layers that make queries, keys and values with one matrix: nanoGPT's and minGPT's attention, the book's and
timm's, and the orders in which the rows of that matrix are cut."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_fuse_test import the_same

from headwise.torch import fuse


class Gpt(nn.Module):
    """One c_attn and a dropout behind the projection, as nanoGPT (fused=True: torch's function, the probability in an
    attribute) and minGPT (both dropouts are layers) have it."""

    def __init__(self, width, heads, context, dropout=0.0, fused=False):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attn_dropout, self.resid_dropout = nn.Dropout(dropout), nn.Dropout(dropout)
        self.n_head, self.n_embd, self.dropout, self.fused = heads, width, dropout, fused
        self.register_buffer("bias", torch.ones(context, context).tril().view(1, 1, context, context))

    def forward(self, x):
        seq = x.shape[1]
        q, k, v = (t.unflatten(2, (self.n_head, -1)).transpose(1, 2) for t in self.c_attn(x).split(self.n_embd, dim=2))
        if self.fused:
            rate = self.dropout if self.training else 0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=rate, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.bias[:, :, :seq, :seq] == 0, -math.inf)
            y = self.attn_dropout(F.softmax(scores, dim=-1)) @ v
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().flatten(2)))


class Combined(nn.Module):
    """One qkv whose rows are cut in a named order; the book's is 3hd."""

    def __init__(self, width, heads, order="3hd", causal=True, bias=False, place="weights", dropout=0.0):
        super().__init__()
        self.num_heads, self.order, self.causal, self.place = heads, order, causal, place
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        batch, seq, width = x.shape
        sizes = {"3": 3, "h": self.num_heads, "d": width // self.num_heads}
        names = "bt" + self.order
        parts = self.qkv(x).view(batch, seq, *(sizes[axis] for axis in self.order))
        q, k, v = parts.permute(*(names.index(axis) for axis in "3bhtd"))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if self.causal:
            scores = scores.masked_fill(torch.ones(seq, seq, dtype=torch.bool).triu(1), -math.inf)
        weights = scores.softmax(-1)
        if self.place == "weights":
            weights = self.drop(weights)
        elif self.place == "function":
            weights = F.dropout(weights, 0.5, self.training)
        context = (weights @ (self.drop(v) if self.place == "values" else v)).transpose(1, 2).reshape(x.shape)
        return self.proj(self.drop(context) if self.place == "context" else context)


MODELS = [
    (lambda: Gpt(12, 3, 16), "combined qkv, 3 heads, causal"),
    (lambda: Gpt(12, 3, 16, fused=True), "combined qkv, 3 heads, causal"),
    (lambda: Gpt(6, 1, 16), "one head, causal"),
    (lambda: Combined(12, 3), "combined qkv, 3 heads, causal"),
    (lambda: Combined(12, 3, causal=False, bias=True), "combined qkv, 3 heads, not causal"),
    (lambda: Combined(12, 2, "h3d", bias=True), "combined qkv, 2 heads, causal"),
    (lambda: Combined(12, 2, "hd3"), "combined qkv, 2 heads, causal"),
    (lambda: Combined(12, 2, "3dh", causal=False), "combined qkv, 2 heads, not causal"),
]


@pytest.mark.parametrize("case", range(len(MODELS)))
def test_a_combined_layer_is_replaced_with_equal_numbers_and_names(case):
    make, told = MODELS[case]
    torch.manual_seed(case)
    model = make()
    width = model.get_submodule("c_attn" if hasattr(model, "c_attn") else "qkv").in_features
    lift = nn.Sequential(nn.Linear(6, width), model)
    names, parameters = list(lift.state_dict()), [id(p) for p in lift.parameters()]
    report = the_same(lift, fuse)
    entry = ("1", type(model).was.fget(model).__name__, True, f"{told}; outputs and gradients equal")
    assert report.modules == (entry,)
    assert list(lift.state_dict()) == names
    assert [id(p) for p in lift.parameters()] == parameters


@pytest.mark.parametrize("fused", [False, True])
def test_both_dropouts_of_a_gpt_layer_stay_where_they_are(fused):
    torch.manual_seed(0)
    model = Gpt(12, 3, 16, dropout=0.5, fused=fused)
    assert fuse(model).replaced
    x = torch.randn(2, 9, 12)
    out = model.train()(x)
    assert 0.3 < (out == 0).float().mean() < 0.7  # behind the projection, every second number
    model.resid_dropout.p = 0.0
    torch.manual_seed(1)
    first = model(x)
    torch.manual_seed(1)
    assert torch.equal(model(x), first)
    assert not torch.equal(model(x), first)  # on the weights
    if fused:
        model.dropout = 0.0
    else:
        model.attn_dropout.p = 0.0
    assert torch.equal(model(x), model.eval()(x))


LEFT = [
    (lambda: Combined(12, 3, place="values", dropout=0.1),
     "drop is a dropout on neither the attention weights nor the output"),
    (lambda: Combined(12, 3, place="context", dropout=0.1),
     "drop is a dropout on neither the attention weights nor the output"),
    (lambda: Combined(12, 3, place="function"), "no attribute of it holds the dropout_p=0.5 of its weights"),
    (lambda: Combined(12, 5), "its queries are 12 wide, which 5 heads do not divide"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(LEFT)))
def test_a_combined_layer_that_does_not_fit_is_left_and_the_report_says_why(case):
    make, reason = LEFT[case]
    model = make()
    entry = fuse(model).modules[0]
    assert (entry.replaced, entry.reason) == (False, reason)
    assert type(model) is Combined


def test_a_combined_layer_without_a_known_number_of_heads_is_left():
    model = Combined(12, 3)
    model.groups = model.num_heads
    del model.num_heads
    entry = fuse(model).modules[0]
    assert entry.reason == (
        "it has one layer qkv and no number of heads by the name of num_heads, n_heads, n_head, heads, h"
    )
