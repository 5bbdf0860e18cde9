# SPDX-License-Identifier: Apache-2.0
"""The layers of headwise.torch.book: the numpy layers' numbers, plain torch's gradients, the book's names."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import headwise
from headwise.torch import book
from torch_calls import close

LAYERS = [
    ("CausalSelfAttention", (6, 4, 10, 0.0, True), {}),
    ("MultiHeadAttentionWrapper", (6, 4, 10, 0.0, 3), {}),
    ("MultiHeadAttentionWrapper", (6, 12, 10, 0.0, 3, True), {"width": "total", "out_proj": True}),
    ("MultiHeadAttention", (6, 12, 10, 0.0, 3), {}),
    ("MultiHeadAttention", (6, 12, None, 0.0, 4, True), {"causal": False, "num_kv_heads": 2, "head_dim": 5}),
    ("MultiHeadAttention", (6, 8, None, 0.0, 4), {"out_proj": False, "init": "gpt2"}),
    ("MultiHeadAttention", (6, 8, None, 0.0, 4), {"out_bias": False, "init": "torch_mha"}),
    ("MultiHeadAttentionLayer", (6, 8, 10, 0.0, 2), {}),
    ("MultiHeadAttentionLayer", (6, 8, 10, 0.0, 2, True), {"causal": True}),
]


@pytest.mark.parametrize("case", range(len(LAYERS)))
def test_a_layer_is_the_numpy_layer_of_the_same_arguments(case):
    name, arguments, options = LAYERS[case]
    ours = getattr(book, name)(*arguments, **options, seed=7)
    twin = getattr(headwise, name)(*arguments, **options, seed=7)
    weights = twin.state_dict()
    assert {n: t.numpy().tobytes() for n, t in ours.state_dict().items()} == {
        n: a.tobytes() for n, a in weights.items()
    }
    x = torch.randn(2, 7, 6, generator=torch.Generator().manual_seed(1), requires_grad=True)
    out = ours(x)
    assert torch.allclose(out, torch.from_numpy(twin(x.detach().numpy())), atol=1e-6)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    out.backward(grad)
    grad_x = twin.backward(grad.numpy())
    assert torch.allclose(x.grad, torch.from_numpy(grad_x), atol=1e-5)
    for parameter, t in ours.named_parameters():
        assert np.allclose(t.grad.numpy(), twin.gradients()[parameter], atol=1e-5), parameter


class BooksMultiHeadAttention(nn.Module):
    """Written from the book's description: projections, split, mask, softmax, dropout, merge, projection."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x):
        q, k, v = (
            layer(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        scores = q @ k.transpose(2, 3)
        scores = scores.masked_fill(self.mask.bool()[: x.shape[1], : x.shape[1]], -torch.inf)
        weights = self.dropout(torch.softmax(scores / k.shape[-1] ** 0.5, dim=-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


def test_a_checkpoint_of_the_book_loads_with_its_mask_and_gives_its_numbers():
    torch.manual_seed(123)
    theirs = BooksMultiHeadAttention(6, 8, 10, 0.0, 2)
    torch.manual_seed(123)
    ours = book.MultiHeadAttention(6, 8, 10, 0.0, 2)
    assert all(torch.equal(a, b) for a, b in zip(theirs.parameters(), ours.parameters(), strict=True))
    fresh = book.MultiHeadAttention(6, 8, 10, 0.0, 2)
    fresh.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 7, 6)
    close("output", fresh(x), theirs(x).double(), torch.float32, "")
    heads = book.MultiHeadAttentionWrapper(6, 4, 10, 0.0, 2)
    stored = {**heads.state_dict(), "heads.0.mask": torch.ones(10, 10), "heads.1.mask": torch.ones(10, 10)}
    heads.load_state_dict(stored)


def test_the_wrapper_equals_its_heads_one_by_one_and_its_fused_layer():
    wrapper = book.MultiHeadAttentionWrapper(6, 4, 10, 0.0, 3, True, seed=1)
    x = torch.randn(2, 7, 6)
    alone = torch.cat([head(x) for head in wrapper.heads], dim=-1)
    assert torch.allclose(wrapper(x), alone, atol=1e-6)
    assert torch.equal(wrapper.fuse()(x), wrapper(x))


def test_weights_statistics_masks_and_other_keys():
    layer = book.MultiHeadAttention(6, 8, num_heads=2, causal=False, dtype=torch.float64)
    x, other = torch.randn(2, 5, 6, dtype=torch.float64), torch.randn(2, 9, 6, dtype=torch.float64)
    result = layer(x, other, kv_lengths=[9, 4], return_weights=True, stats=("entropy",))
    assert result.out.shape == (2, 5, 8)
    assert result.weights.shape == (2, 2, 5, 9)
    assert not result.weights[1, :, :, 4:].any()
    assert result.stats["entropy"].shape == (2, 2, 5)
    assert torch.equal(layer(x, other, kv_lengths=[9, 4]), result.out)


def test_dropout_in_training_follows_manual_seed_and_is_off_in_eval():
    layer = book.MultiHeadAttentionWrapper(6, 4, 10, 0.5, 2)
    x = torch.randn(2, 7, 6, requires_grad=True)
    torch.manual_seed(0)
    first = layer(x)
    assert not torch.equal(layer(x), first)
    torch.manual_seed(0)
    again = checkpoint(layer, x, use_reentrant=False)
    assert torch.equal(again, first)
    wanted = torch.autograd.grad(first.square().sum(), x)[0]
    assert torch.equal(torch.autograd.grad(again.square().sum(), x)[0], wanted)
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_layers_copy_and_pickle():
    for name, arguments, options in LAYERS:
        layer = getattr(book, name)(*arguments, **options)
        x = torch.randn(2, 7, 6)
        for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert torch.equal(made(x), layer(x))


WRONG = [
    (lambda: book.MultiHeadAttention(6, 10, num_heads=4), ValueError,
     "MultiHeadAttention: d_out=10 is not divisible by num_heads=4; nearest valid num_heads: 2, 5"),
    (lambda: book.MultiHeadAttention(6, 8, num_heads=4, num_kv_heads=3), ValueError,
     "MultiHeadAttention: num_heads=4 is not divisible by num_kv_heads=3; nearest valid num_kv_heads: 2, 4"),
    (lambda: book.MultiHeadAttention(6, 8, num_heads=2, head_dim=3, out_proj=False), ValueError,
     "MultiHeadAttention: without out_proj d_out must be num_heads * head_dim = 6, got 8"),
    (lambda: book.MultiHeadAttention(6, 8, num_heads=2, dtype="int8"), TypeError,
     "MultiHeadAttention: dtype must be float32, float64, bfloat16 or float16, got 'int8'"),
    (lambda: book.MultiHeadAttentionWrapper(6, 4, width="both"), ValueError,
     "MultiHeadAttentionWrapper: width must be \"per_head\" or \"total\", got 'both'"),
    (lambda: book.MultiHeadAttentionLayer(6, 9, 10, 0.0, 2), ValueError,
     "MultiHeadAttentionLayer: d_out=9 is not divisible by num_heads=2; nearest valid num_heads: 1, 3"),
    (lambda: book.CausalSelfAttention(6, 0), ValueError, "CausalSelfAttention: d_out must be at least 1, got 0"),
    (lambda: book.CausalSelfAttention(6, 4.0), TypeError, "CausalSelfAttention: d_out must be an integer, got float"),
    (lambda: book.CausalSelfAttention(6, 4, dropout=1.0), ValueError,
     "CausalSelfAttention: dropout must be in [0, 1), got 1.0"),
    (lambda: book.CausalSelfAttention(6, 4, 3)(torch.zeros(1, 4, 6)), ValueError,
     "CausalSelfAttention: x has seq=4, more than context_length=3"),
    (lambda: book.CausalSelfAttention(6, 4)(torch.zeros(4, 6)), ValueError,
     "CausalSelfAttention: x must be (batch, seq, d_in=6), got (4, 6)"),
    (lambda: book.CausalSelfAttention(6, 4)(np.zeros((1, 4, 6))), TypeError,
     "CausalSelfAttention: x must be a torch.Tensor, got ndarray"),
    (lambda: book.CausalSelfAttention(6, 4)(torch.zeros(1, 4, 6), torch.zeros(1, 5, 6)), ValueError,
     "CausalSelfAttention: a causal layer needs seq_q == seq_kv or query_offset, got seq_q=4 and seq_kv=5"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_a_wrong_layer_or_call_says_what_is_wrong(case):
    call, error, text = WRONG[case]
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == text
