# SPDX-License-Identifier: Apache-2.0
"""torch.compile with inductor, which writes and compiles C++ around the operator: one graph, the eager numbers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import headwise.torch
from headwise.torch import book
from headwise.torch import scaled_dot_product_attention as sdpa

# What torch itself still uses.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


class Layers(nn.Module):
    """The function with keywords of its own, the module with its weights, and a layer of the book, in one graph."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.own = headwise.torch.MultiheadAttention(16, 2, batch_first=True)
        self.book = book.MultiHeadAttention(16, 16, num_heads=2)
        self.sinks = nn.Parameter(torch.randn(2))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        more = {"window": (3, 0), "softcap": 9.0, "sinks": self.sinks, "return_lse": True}
        found = sdpa(q, k, v, causal=True, query_offset=0, **more)
        x = torch.relu(found.context.transpose(1, 2).flatten(2)) + found.lse.mean(1)[..., None]
        x, weights = self.own(x, x, x, is_causal=True)
        return self.book(x * weights.square().sum(-1, keepdim=True))


def equal_under_inductor(model, x):
    """Holds outputs and gradients of the compiled model to those of the eager one."""
    expected = model(x)
    out = torch.compile(model, backend="inductor", fullgraph=True)(x)
    assert torch.allclose(out, expected, rtol=1e-5, atol=1e-5)
    parameters = list(model.parameters())
    theirs = torch.autograd.grad(expected.square().sum(), parameters)
    for one, other in zip(torch.autograd.grad(out.square().sum(), parameters), theirs, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.fixture(autouse=True)
def _nothing_stays_compiled():
    yield
    torch._dynamo.reset()


def test_functions_and_modules_in_one_graph():
    torch.manual_seed(0)
    equal_under_inductor(Layers(), torch.randn(2, 9, 16))


def test_torchs_encoder_under_enable():
    torch.manual_seed(0)
    with headwise.torch.enable():
        equal_under_inductor(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), torch.randn(2, 9, 16))


def test_a_causal_bias_is_read_in_the_graph_too():
    q, k, v = torch.randn(3, 2, 2, 5, 8)
    bias = torch.nn.attention.bias.causal_lower_right(3, 5)
    q = q[:, :, :3]
    with headwise.torch.enable():
        out = torch.compile(lambda *t: F.scaled_dot_product_attention(*t), backend="aot_eager")(q, k, v, bias)
    assert torch.equal(out, sdpa(q, k, v, causal="lower_right"))


def test_stats_leave_the_graph_or_say_so():
    q, k, v = torch.randn(3, 1, 2, 9, 8)

    def call(q, k, v):
        found = sdpa(q, k, v, stats=("entropy",))
        return found.context * 2, found.stats["entropy"]

    expected = call(q, k, v)
    for one, other in zip(torch.compile(call, backend="aot_eager")(q, k, v), expected, strict=True):
        assert torch.equal(one, other)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="stats are there in eager mode only, not under"):
        torch.compile(call, backend="aot_eager", fullgraph=True)(q, k, v)
