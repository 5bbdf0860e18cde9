# SPDX-License-Identifier: Apache-2.0
"""headwise.torch.scaled_dot_product_attention against torch's own in float64: random calls and their gradients."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from headwise.torch import scaled_dot_product_attention as sdpa
from torch_calls import close, leaves, random_call, torch_math

# torch itself calls it, in vmap and in forward mode.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


@pytest.mark.parametrize("block", range(10))
def test_random_calls_and_their_gradients_equal_torch(block):
    for seed in range(block * 50, block * 50 + 50):
        tensors, mask, options = random_call(seed)
        about = f"random_call({seed})"
        differentiable = [t for t in (*tensors, mask) if t is not None and t.is_floating_point()]
        ours = [t.detach().requires_grad_() for t in differentiable]
        theirs = [t.detach().double().requires_grad_() for t in differentiable]
        own_mask = mask if mask is None or mask.dtype is torch.bool else ours[3]
        their_mask = mask if mask is None or mask.dtype is torch.bool else theirs[3]
        out = sdpa(*ours[:3], own_mask, **options)
        expected = torch_math(*theirs[:3], their_mask, **options)
        close("output", out, expected, tensors[0].dtype, about)
        grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed)).to(out.dtype)
        gradients = torch.autograd.grad(out, ours, grad)
        wanted = torch.autograd.grad(expected, theirs, grad.double(), materialize_grads=True)
        for name, got, want in zip("qkvm", gradients, wanted, strict=False):
            want = want if name != "m" else want.masked_fill(mask == -math.inf, 0)
            close(f"gradient of {name}", got, want, tensors[0].dtype, about)


def test_gradients_of_first_and_second_order_pass_gradcheck():
    q, k, v = leaves(2, 2, 5, 4)
    bias = torch.randn(2, 1, 5, 5, dtype=torch.float64, requires_grad=True)

    def call(q, k, v, bias):
        return sdpa(q, k, v, bias, dropout_p=0.3, is_causal=True, seed=3, softcap=5.0)

    assert torch.autograd.gradcheck(call, (q, k, v, bias), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, (q, k, v, bias))


def test_every_option_is_differentiable_a_second_time():
    q, k, v = leaves(2, 4, 3, 4)
    k, v = (t[:, :2, :].detach().repeat(1, 1, 2, 1).requires_grad_() for t in (k, v))
    slopes, sinks = torch.rand(4, dtype=torch.float64, requires_grad=True), leaves(4, count=1)[0]
    options = {"window": (3, 1), "kv_lengths": [6, 4], "query_offset": [2, 1], "dropout_p": 0.2, "seed": 1}

    def call(q, k, v, slopes, sinks):
        return sdpa(q, k, v, alibi_slopes=slopes, sinks=sinks, enable_gqa=True, causal=True, **options)

    assert torch.autograd.gradcheck(call, (q, k, v, slopes, sinks))
    assert torch.autograd.gradgradcheck(call, (q, k, v, slopes, sinks))


def test_keys_made_from_queries_get_each_gradient_once_in_a_gradient_penalty():
    def penalty(attend):
        x = leaves(1, 2, 4, 8, count=1)[0]
        k = torch.sin(x)
        out = attend(x, k, k * x)
        (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), x)[0]

    close("second derivative", penalty(sdpa), penalty(torch_math), torch.float64, "k from q")


def test_weights_and_lse_are_returned_and_differentiable():
    q, k, v = leaves(2, 3, 5, 4)
    result = sdpa(q, k, v, is_causal=True, return_lse=True, return_weights=True, stats=("entropy", "top_keys"))
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    scores = (q @ k.mT / 2).masked_fill(hidden, -math.inf)
    close("weights", result.weights, scores.softmax(-1), torch.float64, "")
    close("lse", result.lse, scores.logsumexp(-1), torch.float64, "")
    assert result.stats["entropy"].shape == (2, 3, 5)
    assert result.stats["top_keys"].dtype is torch.int64
    factor = torch.randn(2, 3, 5, 5, dtype=torch.float64)
    ours = torch.autograd.grad((result.weights * factor).sum() + result.lse.sum() + result.context.sum(), (q, k, v))
    loss = (scores.softmax(-1) * factor).sum() + scores.logsumexp(-1).sum() + (scores.softmax(-1) @ v).sum()
    for got, want in zip(ours, torch.autograd.grad(loss, (q, k, v)), strict=True):
        close("gradient", got, want, torch.float64, "through weights and lse")


def test_dropout_follows_manual_seed_and_keeps_the_expected_share():
    q, k, v = leaves(2, 4, 64, 8)
    torch.manual_seed(5)
    first, second = sdpa(q, k, v, dropout_p=0.5), sdpa(q, k, v, dropout_p=0.5)
    torch.manual_seed(5)
    assert torch.equal(first, sdpa(q, k, v, dropout_p=0.5))
    assert not torch.equal(first, second)
    kept = sdpa(q, k, v, dropout_p=0.25, return_weights="after_dropout").weights != 0
    assert abs(kept.double().mean().item() - 0.75) < 0.02
    assert torch.equal(sdpa(q, k, v, dropout_p=1.0), torch.zeros_like(v))


def test_checkpointing_draws_the_same_dropout_again():
    q, k, v = leaves(2, 2, 16, 8)

    def call(q, k, v):
        return sdpa(q, k, v, dropout_p=0.4)

    for reentrant in (False, True):
        torch.manual_seed(9)
        plain = torch.autograd.grad(call(q, k, v).square().sum(), (q, k, v))
        torch.manual_seed(9)
        out = checkpoint(call, q, k, v, use_reentrant=reentrant)
        if reentrant:
            out.square().sum().backward()
            again = [t.grad for t in (q, k, v)]
        else:
            again = torch.autograd.grad(out.square().sum(), (q, k, v))
        assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))


def test_the_output_keeps_the_order_of_the_queries_axes_in_memory():
    x = torch.randn(2, 7, 3, 4, 8)
    q, k, v = x.permute(2, 0, 3, 1, 4)
    for options in ({}, {"dropout_p": 0.1}, {"attn_mask": torch.ones(7, 7)}):
        out = sdpa(q, k, v, **options)
        assert out.transpose(1, 2).is_contiguous()
        assert sdpa(q.contiguous(), k, v, **options).is_contiguous()
    assert sdpa(q[0], k[0], v[0]).shape == (4, 7, 8)


def test_inputs_are_not_copied():
    x = torch.randn(1, 4096, 3, 2, 64)
    q, k, v = x.permute(2, 0, 3, 1, 4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        sdpa(q, k, v, is_causal=True)
    names = {event.name for event in seen.events()}
    assert names <= {"aten::empty_like", "aten::empty_strided", "aten::empty", "aten::is_neg"}, names


def test_autocast_computes_in_bfloat16():
    q, k, v = leaves(1, 2, 5, 8, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = sdpa(q, k, v)
        assert out.dtype is F.scaled_dot_product_attention(q, k, v).dtype is torch.bfloat16
    assert all(g.dtype is torch.float32 for g in torch.autograd.grad(out.sum(), (q, k, v)))


def test_a_float32_mask_beside_bfloat16_is_added_in_float32():
    q, k, v = leaves(1, 1, 4, 8, dtype=torch.bfloat16)
    mask = torch.tensor([256.0, 256.5, 255.75, 256.25]).expand(4, 4).clone().requires_grad_()
    out = sdpa(q, k, v, mask)
    expected = torch_math(*(t.double() for t in (q, k, v)), mask.double())
    close("output", out, expected, torch.bfloat16, "")
    assert torch.autograd.grad(out.sum(), mask)[0].dtype is torch.float32
