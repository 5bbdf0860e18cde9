# SPDX-License-Identifier: Apache-2.0
"""The calls to which torch's own attention on a CPU has a wrong answer or none: what is right, from headwise.torch."""

import math

import pytest
import torch

from headwise.torch import scaled_dot_product_attention as sdpa
from torch_calls import close, leaves, torch_math


def both_ways(call):
    """The call in training and with nothing recorded, with and without dropout that drops nothing."""
    yield call({})
    with torch.no_grad():
        yield call({})
    yield call({"return_weights": True}).context


def test_a_mask_and_is_causal_go_together_on_every_way():
    q, k, v = leaves(2, 2, 6, 4)
    for mask in (torch.rand(6, 6) < 0.7, torch.randn(6, 6, dtype=torch.float64)):
        expected = torch_math(q, k, v, mask, is_causal=True)
        for out in both_ways(lambda more, mask=mask: sdpa(q, k, v, mask, is_causal=True, **more)):
            close("output", out, expected, torch.float64, "")
    assert sdpa(q, k, v, torch.ones(6, 6, dtype=torch.bool), 0.5, True).shape == (2, 2, 6, 4)


def test_a_row_that_sees_nothing_is_zero_with_zero_gradient_and_minus_infinity_as_lse():
    q, k, v = leaves(2, 2, 4, 4)
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    for given in (mask, torch.zeros(4, 4, dtype=torch.float64).masked_fill(~mask, -math.inf)):
        result = sdpa(q, k, v, given, return_lse=True, return_weights=True)
        assert not result.context[:, :, 2].any()
        assert not result.weights[:, :, 2].any()
        assert (result.lse[:, :, 2] == -math.inf).all()
        grads = torch.autograd.grad(result.context.sum(), (q, k, v))
        assert all(g.isfinite().all() for g in grads)
        assert not grads[0][:, :, 2].any()


def test_a_sequence_of_padding_alone_leaves_every_gradient_finite():
    q, k, v = leaves(2, 2, 4, 4)
    result = sdpa(q, k, v, kv_lengths=torch.tensor([4, 0]), return_weights=True)
    grads = torch.autograd.grad(result.context[0].sum(), (q, k, v))
    assert all(g.isfinite().all() for g in grads)
    assert not result.context[1].any()


@pytest.mark.parametrize("edge", [255, 256, 257, 511, 512, 513])
def test_late_rows_whose_first_keys_are_all_hidden_are_finite(edge):
    q, k, v = leaves(1, 1, 600, 4)
    rows, keys = torch.arange(600)[:, None], torch.arange(600)
    mask = torch.zeros(600, 600, dtype=torch.float64).masked_fill((keys > rows) | (keys <= rows - edge), -math.inf)
    close("output", sdpa(q, k, v, mask), torch_math(q, k, v, mask), torch.float64, "")


def test_a_row_of_the_lowest_number_is_a_uniform_average():
    q, k, v = leaves(1, 2, 4, 4, dtype=torch.float32)
    mask = torch.full((4, 4), torch.finfo(torch.float32).min)
    out = sdpa(q, k, v, mask)
    assert torch.allclose(out, v.mean(dim=2, keepdim=True).expand_as(out), atol=1e-6)
    (grad,) = torch.autograd.grad(out.sum(), v)
    assert torch.equal(grad, torch.ones_like(grad))


def test_a_hidden_key_is_not_read():
    q, k, v = leaves(1, 2, 6, 4)
    clean = sdpa(q, k, v, is_causal=True)
    bad_k, bad_v = k.detach().clone(), v.detach().clone()
    bad_k[:, :, 5], bad_v[:, :, 5] = math.nan, math.inf
    bad_k.requires_grad_(), bad_v.requires_grad_()
    for hide in ({"is_causal": True}, {"attn_mask": torch.tensor([True] * 5 + [False])}, {"kv_lengths": [5]}):
        expected = sdpa(q[:, :, :5], k, v, **hide)
        out = sdpa(q[:, :, :5], bad_k, bad_v, **hide)
        assert torch.equal(out, expected)
        ours, wanted = torch.autograd.grad(out.sum(), (q, bad_k, bad_v)), torch.autograd.grad(expected.sum(), (q, k, v))
        assert all(torch.equal(one, other) for one, other in zip(ours, wanted, strict=True))
    assert torch.equal(sdpa(q, bad_k, bad_v, is_causal=True)[:, :, :5], clean[:, :, :5])


def test_one_query_against_many_keys_says_where_it_stands():
    q, k, v = leaves(1, 2, 7, 4)
    last = q[:, :, -1:]
    close("upper left", sdpa(last, k, v, is_causal=True), v[:, :, :1], torch.float64, "sees key 0 alone, as in torch")
    whole = sdpa(q, k, v, is_causal=True)[:, :, -1:]
    assert torch.equal(sdpa(last, k, v, causal="lower_right"), whole)
    assert torch.equal(sdpa(last, k, v, is_causal=True, query_offset=6), whole)


def test_weights_are_those_before_dropout():
    q, k, v = leaves(1, 2, 5, 4)
    result = sdpa(q, k, v, dropout_p=0.5, return_weights=True)
    assert torch.allclose(result.weights.sum(-1), torch.ones(1, 2, 5, dtype=torch.float64))


def test_one_row_has_the_same_bits_in_any_batch_and_any_length():
    q, k, v = leaves(4, 2, 300, 16, dtype=torch.float32)
    whole = sdpa(q, k, v, is_causal=True)
    assert torch.equal(sdpa(q[1:2], k[1:2], v[1:2], is_causal=True), whole[1:2])
    assert torch.equal(sdpa(q[:, :, :33], k[:, :, :33], v[:, :, :33], is_causal=True), whole[:, :, :33])


def test_a_bias_of_stride_zero_reaches_beyond_two_to_the_31_places():
    q, k, v = torch.randn(1, 1, 1, 4), torch.randn(1, 1, 1, 4), torch.randn(1, 1, 1, 4)
    wide = torch.zeros(1, 1, 1, 1).expand(1, 1, 50000, 50000)
    out = sdpa(q.expand(1, 1, 50000, 4)[:, :, :1], k.expand(1, 1, 50000, 4), v.expand(1, 1, 50000, 4), wide[:, :, :1])
    assert torch.allclose(out, v, atol=1e-5)


def test_the_odd_shape_that_once_freed_twice_has_gradients_in_bfloat16():
    q, k, v = leaves(2, 2, 49, 32, dtype=torch.bfloat16)
    grads = torch.autograd.grad(sdpa(q, k, v).sum(), (q, k, v))
    assert all(g.isfinite().all() for g in grads)
