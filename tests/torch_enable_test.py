# SPDX-License-Identifier: Apache-2.0
"""enable(), disable(), disabled() and explain(): headwise under torch's own names, and out of the way again."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import headwise.torch
from headwise.torch import disable, disabled, enable, explain, is_enabled
from headwise.torch import scaled_dot_product_attention as sdpa
from torch_calls import close, leaves, random_call, torch_math

TORCHS = F.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def _nothing_stays_enabled():
    yield
    assert F.scaled_dot_product_attention is TORCHS
    assert torch.backends.mha.get_fastpath_enabled()


def hidden_nan():
    """A call whose answer tells who gave it: torch lets the NaN of a hidden key through."""
    q, k, v = (t.detach() for t in leaves(1, 2, 4, 8))
    v[:, :, 3] = torch.nan
    return q, k, v, torch.tensor([True, True, True, False]).expand(4, 4)


def is_ours(function=None):
    return bool((function or F.scaled_dot_product_attention)(*hidden_nan()).isfinite().all())


def test_it_counts_and_leaves_torch_as_it_was():
    assert not is_ours()
    enable()
    enable()
    disable()
    assert is_ours()
    assert is_enabled()
    disable()
    assert not is_ours()
    disable()
    assert not is_enabled()
    with enable():
        assert is_ours()
        with enable():
            pass
        assert is_ours()
    assert not is_ours()


def test_it_is_under_callers_that_hold_torchs_own_function():
    with enable():
        assert is_ours(TORCHS)
        with disabled():
            assert not is_ours(TORCHS)
    assert not is_ours(TORCHS)


def test_a_thread_turns_it_off_for_itself():
    found = {}
    with enable(), disabled():
        assert not is_ours()
        assert not is_enabled()
        thread = threading.Thread(target=lambda: found.update(ours=is_ours()))
        thread.start()
        thread.join()
        with disabled():
            pass
        assert not is_ours()
    assert found == {"ours": True}


def test_the_math_backend_stays_torchs():
    with enable():
        with sdpa_kernel(SDPBackend.MATH):
            assert not is_ours()
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            assert is_ours()


def test_random_calls_equal_torch_in_values_and_gradients():
    for seed in range(60):
        tensors, mask, options = random_call(seed)
        ours = [t.detach().requires_grad_() for t in tensors]
        with enable():
            out = F.scaled_dot_product_attention(*ours, mask, **options)
        theirs = [t.detach().double().requires_grad_() for t in tensors]
        wide = mask if mask is None or mask.dtype is torch.bool else mask.double()
        expected = torch_math(*theirs, wide, **options)
        close("output", out, expected, tensors[0].dtype, f"random_call({seed})")
        got = torch.autograd.grad(out.sum(), ours)
        for one, other in zip(got, torch.autograd.grad(expected.sum(), theirs), strict=True):
            close("gradient", one, other, tensors[0].dtype, f"random_call({seed})")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["none", "bool", "float", "float32", "rows"])
def test_the_flash_operators_forward_and_backward(dtype, kind):
    q, k, v = leaves(2, 2, 9, 8, dtype=dtype)
    mask = {
        "none": None,
        "bool": torch.rand(9, 9) < 0.7,
        "float": torch.randn(2, 1, 9, 9).to(dtype),
        "float32": torch.randn(9, 9),
        "rows": torch.ones(9, 9, dtype=torch.bool).tril(-1),
    }[kind]
    if kind == "float32" and dtype is torch.float64:
        mask = mask.double()
    with enable():
        out = TORCHS(q, k, v, mask)
        got = torch.autograd.grad(out.sum(), (q, k, v))
    wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    expected = torch_math(*wide, mask if mask is None or mask.dtype is torch.bool else mask.double())
    close("output", out, expected, dtype, kind)
    for one, other in zip(got, torch.autograd.grad(expected.sum(), wide), strict=True):
        close("gradient", one, other, dtype, kind)


def test_a_forward_of_one_and_a_backward_of_the_other_fit_together():
    q, k, v = leaves(2, 2, 9, 8)
    mask = torch.ones(9, 9, dtype=torch.bool).tril(-1)
    expected = torch.autograd.grad(torch_math(q, k, v, mask).sum(), (q, k, v))
    with enable():
        ours = TORCHS(q, k, v, mask)
    theirs = TORCHS(q, k, v, mask)
    after = torch.autograd.grad(ours.sum(), (q, k, v))
    with enable():
        before = torch.autograd.grad(theirs.sum(), (q, k, v))
    for one, two, wanted in zip(after, before, expected, strict=True):
        close("ours then torch's", one, wanted, torch.float64, "")
        close("torch's then ours", two, wanted, torch.float64, "")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning")
def test_what_headwise_does_not_take_is_torchs():
    q = torch.zeros(1, 2, 3, 4)
    with enable():
        for arguments in ((q, q, q[:, :, :, :0].int()), (q.int(), q, q), (q, q[..., :3], q), (None, q, q)):
            with pytest.raises((RuntimeError, TypeError)) as ours:
                F.scaled_dot_product_attention(*arguments)
            with pytest.raises((RuntimeError, TypeError)) as theirs:
                TORCHS(*arguments)
            assert str(ours.value).splitlines()[0] == str(theirs.value).splitlines()[0]
        nested = torch.nested.nested_tensor([q[0], q[0]], layout=torch.jagged)
        assert F.scaled_dot_product_attention(*[nested.transpose(1, 2)] * 3).is_nested


def test_an_encoder_of_torch_trains_to_the_same_losses_and_takes_dropout_from_manual_seed():
    def losses(steps, dropout):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout, batch_first=True, dtype=torch.float64)
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(2, 8, 16, dtype=torch.float64)
        found = []
        for _ in range(steps):
            loss = (model(x) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    expected = losses(4, 0.0)
    with enable():
        assert losses(4, 0.0) == pytest.approx(expected, rel=1e-10)
        assert losses(2, 0.3) == losses(2, 0.3)


def test_torchs_fast_path_and_its_nan_are_gone_while_it_is_enabled():
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    padding = torch.tensor([[False] * 5, [True] * 5])
    with torch.no_grad(), enable():
        out, _ = module(x, x, x, key_padding_mask=padding, need_weights=False)
    assert out.isfinite().all()


def test_compiled_functions_attend_by_the_operator():
    q, k, v = leaves(1, 2, 9, 8, dtype=torch.float32)
    with enable():
        compiled = torch.compile(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), fullgraph=True, backend="aot_eager"
        )
        out = compiled(q, k, v)
        assert torch.equal(out, sdpa(q, k, v, is_causal=True))
        assert torch.autograd.grad(out.sum(), q)[0].isfinite().all()


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's forward mode
def test_explain_names_the_path_and_what_torch_alone_would_do():
    q, k, v = (t.detach() for t in leaves(1, 2, 4, 8, dtype=torch.float32))
    told = explain(q, k, v, is_causal=True)
    assert told == ("headwise", "the forward kernel, no matrix in memory", "flash", "")
    assert str(told) == "headwise: the forward kernel, no matrix in memory; torch alone: flash"
    told = explain(q.requires_grad_(), k, v, dropout_p=0.1)
    assert told[:2] == ("headwise", "kernels forward and backward, no matrix in memory")
    assert told[2:] == ("math", "its flash kernel has no dropout")
    assert explain(q[0], k[0], v[0])[2:] == ("math", "its flash kernel takes four axes alone")
    assert explain(q, k, v[..., :3])[2:] == ("math", "its flash kernel needs values as wide as queries")
    mask = torch.zeros(4, 4, requires_grad=True)
    assert explain(q, k, v, mask)[2:] == ("math", "its flash kernel has no gradient of the mask")
    with disabled():
        assert explain(q, k, v)[:2] == ("torch", "headwise is off in this thread (disabled())")
    with sdpa_kernel(SDPBackend.MATH):
        told = explain(q, k, v)
        assert told[:2] == ("torch", "sdpa_kernel leaves the flash backend out, whose place headwise takes")
        assert told[2:] == ("math", "its flash backend is disabled")
    assert explain(q.int(), k, v)[:2] == ("torch", "query is torch.int32, no type of headwise")
    told = explain(q, k[..., :3], v)
    assert told[0] == "torch"
    assert told[1].startswith("headwise does not take the call (scaled_dot_product_attention: key must be")
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(k, v)
        assert explain(k, dual, v)[1] == "forward mode, in torch's own operations: every matrix in memory"


def test_explain_draws_nothing():
    q, k, v = leaves(1, 2, 4, 8)
    before = torch.get_rng_state()
    explain(q, k, v, dropout_p=0.5)
    assert torch.equal(torch.get_rng_state(), before)
    assert headwise.torch.Explanation._fields == ("path", "reason", "torch_alone", "torch_reason")
