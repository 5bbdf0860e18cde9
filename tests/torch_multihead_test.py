# SPDX-License-Identifier: Apache-2.0
"""headwise.torch.MultiheadAttention against torch.nn.MultiheadAttention in float64: random modules and calls."""

import copy
import io
import math
import pickle
import random

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from headwise.torch import MultiheadAttention
from torch_calls import close


def random_module(seed):
    """(torch's module, ours with the same weights, query, key, value, options of the call)."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    heads, width = rng.choice([1, 2, 3, 4]), rng.choice([1, 2, 5, 8])
    embed = heads * width
    kdim, vdim = (rng.choice([None, None, 3, 6]) for _ in range(2))
    settings = {
        "bias": rng.random() < 0.7,
        "add_bias_kv": rng.random() < 0.25,
        "add_zero_attn": rng.random() < 0.25,
        "kdim": kdim,
        "vdim": vdim,
        "batch_first": rng.random() < 0.5,
        "dtype": torch.float64,
    }
    theirs = nn.MultiheadAttention(embed, heads, **settings)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    ours = MultiheadAttention(embed, heads, **settings)
    ours.load_state_dict(theirs.state_dict())
    batch, seq_q, seq_kv = rng.choice([1, 2, 3]), rng.choice([1, 2, 5, 9]), rng.choice([1, 3, 5, 9])
    batched = rng.random() < 0.8

    def made(seq, width):
        shape = (batch, seq, width) if settings["batch_first"] else (seq, batch, width)
        return torch.randn(shape if batched else (seq, width), dtype=torch.float64, requires_grad=True)

    if not batched:
        batch = 1
    query = made(seq_q, embed)
    key = made(seq_kv, kdim or embed)
    value = made(seq_kv, vdim or embed)
    if kdim is None and vdim is None and rng.random() < 0.5:
        key = value = query if rng.random() < 0.7 else key
        seq_kv = seq_q if key is query else seq_kv
    options = {"need_weights": rng.random() < 0.5, "average_attn_weights": rng.random() < 0.5}
    floats = rng.random() < 0.5
    if rng.random() < 0.5:
        shape = (seq_q, seq_kv) if rng.random() < 0.5 else (batch * heads, seq_q, seq_kv)
        hidden = torch.rand(shape) < 0.3
        hidden[..., 0] = False
        options["attn_mask"] = (
            torch.randn(shape, dtype=torch.float64).masked_fill(hidden, -math.inf) if floats else hidden
        )
    if rng.random() < 0.5:
        shape = (batch, seq_kv) if batched else (seq_kv,)
        hidden = torch.rand(shape) < 0.3
        hidden[..., 0] = False
        number = torch.zeros(shape, dtype=torch.float64).masked_fill(hidden, -math.inf)
        options["key_padding_mask"] = number if floats else hidden
    return theirs, ours, (query, key, value), options


@pytest.mark.parametrize("block", range(10))
def test_random_modules_and_all_their_gradients_equal_torch(block):
    for seed in range(block * 40, block * 40 + 40):
        theirs, ours, tensors, options = random_module(seed)
        out, weights = ours(*tensors, **options)
        expected, their_weights = theirs(*tensors, **options)
        about = f"random_module({seed})"
        close("output", out, expected, torch.float64, about)
        assert (weights is None) == (their_weights is None)
        if weights is not None:
            close("weights", weights, their_weights, torch.float64, about)
        assert out.is_contiguous()
        grad = torch.randn_like(out)
        inputs = list({id(t): t for t in tensors}.values())
        got = torch.autograd.grad(out, [*ours.parameters(), *inputs], grad, materialize_grads=True)
        wanted = torch.autograd.grad(expected, [*theirs.parameters(), *inputs], grad, materialize_grads=True)
        for name, one, other in zip([*dict(ours.named_parameters()), "q", "k", "v"], got, wanted, strict=False):
            close(f"gradient of {name}", one, other, torch.float64, about)


def pair(**settings):
    torch.manual_seed(3)
    theirs = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64, **settings)
    torch.manual_seed(3)
    return theirs, MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64, **settings)


@pytest.mark.parametrize("settings", [{}, {"bias": False}, {"kdim": 3, "vdim": 5}, {"add_bias_kv": True}])
def test_the_initial_weights_and_names_are_torchs(settings):
    theirs, ours = pair(**settings)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    theirs.load_state_dict(ours.state_dict())
    assert isinstance(ours, nn.MultiheadAttention)


def test_is_causal_is_causal_in_training_in_eval_and_with_weights():
    _, ours = pair()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, weights = ours(x, x, x, attn_mask=hidden)
    for mode in (True, False):
        ours.train(mode)
        for need_weights in (True, False):
            with torch.set_grad_enabled(mode):
                out, found = ours(x, x, x, is_causal=True, need_weights=need_weights)
                again, _ = ours(x, x, x, attn_mask=hidden, is_causal=True, need_weights=need_weights)
            assert torch.equal(out, expected)
            assert torch.equal(again, expected)
            assert found is None or torch.equal(found, weights)


def test_a_wrong_causal_hint_does_not_throw_the_mask_away():
    _, ours = pair()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    first = torch.zeros(5, 5, dtype=torch.bool)
    first[:, 1:] = True
    expected, _ = ours(x, x, x, attn_mask=first)
    assert torch.equal(ours(x, x, x, attn_mask=first, is_causal=True, need_weights=False)[0], expected)


def test_causal_and_padding_go_together_without_a_dense_mask():
    theirs, ours = pair()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, x, x, key_padding_mask=padding, attn_mask=hidden)
    close("output", ours(x, x, x, key_padding_mask=padding, is_causal=True)[0], expected, torch.float64, "")


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_fully_padded_sequence_gives_the_output_bias_and_finite_gradients(mode, need_weights):
    _, ours = pair()
    ours.train(mode)
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    padding = torch.tensor([[False] * 5, [True] * 5])
    with torch.set_grad_enabled(mode):
        out, weights = ours(x, x, x, key_padding_mask=padding, need_weights=need_weights)
    assert torch.equal(out[1], ours.out_proj.bias.expand(5, 8))
    assert weights is None or not weights[1].any()
    if mode:
        grads = torch.autograd.grad(out[0].sum(), [x, *ours.parameters()])
        assert all(g.isfinite().all() for g in grads)


def test_one_fully_masked_head_does_not_reach_the_others():
    _, ours = pair()
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    mask = torch.zeros(2, 3, 3, dtype=torch.bool)
    mask[1] = True
    out, weights = ours(x, x, x, attn_mask=mask, average_attn_weights=False)
    assert out.isfinite().all()
    assert not weights[0, 1].any()
    assert torch.equal(out, ours(x, x, x, attn_mask=mask, need_weights=False)[0])


def test_a_zero_column_does_not_shift_causality():
    theirs, ours = pair(add_zero_attn=True, add_bias_kv=True)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected, weights = theirs(x, x, x, attn_mask=hidden)
    out, found = ours(x, x, x, is_causal=True)
    close("output", out, expected, torch.float64, "")
    close("weights", found, weights, torch.float64, "")
    assert found.shape == (2, 5, 7)


def test_weights_in_training_are_those_before_dropout():
    _, ours = pair(dropout=0.5)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    weights = ours(x, x, x)[1]
    assert torch.allclose(weights.sum(-1), torch.ones(2, 5, dtype=torch.float64))
    assert not torch.equal(ours(x, x, x)[0], ours(x, x, x)[0])


def test_masks_of_four_axes_are_taken():
    _, ours = pair()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    mask = torch.rand(3, 1, 5, 5) < 0.3
    expected, _ = ours(x, x, x, attn_mask=mask.expand(3, 2, 5, 5).reshape(6, 5, 5))
    assert torch.equal(ours(x, x, x, attn_mask=mask)[0], expected)


def test_fewer_heads_for_keys_equal_torch_with_the_rows_repeated():
    torch.manual_seed(0)
    ours = MultiheadAttention(8, 4, num_kv_heads=2, batch_first=True, dtype=torch.float64)
    theirs = nn.MultiheadAttention(8, 4, batch_first=True, dtype=torch.float64)
    q, k, v = ours.in_proj_weight.split((8, 4, 4))
    repeated = [t.unflatten(0, (2, 2)).repeat_interleave(2, dim=0).flatten(0, 1) for t in (k, v)]
    theirs.load_state_dict(
        {**ours.state_dict(), "in_proj_weight": torch.cat([q, *repeated]), "in_proj_bias": torch.zeros(24)}
    )
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    close("output", ours(x, x, x)[0], theirs(x, x, x)[0], torch.float64, "")
    assert ours.in_proj_weight.shape == (16, 8)


def test_a_head_of_another_width_has_its_own_shapes():
    module = MultiheadAttention(10, 4, num_kv_heads=2, head_dim=6, add_bias_kv=True, kdim=3)
    shapes = {name: tuple(t.shape) for name, t in module.state_dict().items()}
    assert shapes == {
        "q_proj_weight": (24, 10),
        "k_proj_weight": (12, 3),
        "v_proj_weight": (12, 10),
        "in_proj_bias": (48,),
        "bias_k": (1, 1, 12),
        "bias_v": (1, 1, 12),
        "out_proj.weight": (10, 24),
        "out_proj.bias": (10,),
    }
    out, weights = module(torch.randn(5, 2, 10), torch.randn(7, 2, 3), torch.randn(7, 2, 10))
    assert out.shape == (5, 2, 10)
    assert weights.shape == (2, 5, 8)


def test_it_copies_pickles_saves_and_checkpoints():
    _, ours = pair(dropout=0.3)
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    copies = [copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), torch.load(file, weights_only=False)]
    torch.manual_seed(1)
    expected = ours(x, x, x)[0]
    for made in copies:
        torch.manual_seed(1)
        assert torch.equal(made(x, x, x)[0], expected)
    torch.manual_seed(1)
    again = checkpoint(lambda x: ours(x, x, x, need_weights=False)[0], x, use_reentrant=False)
    assert torch.equal(again, expected)
    wanted = torch.autograd.grad(expected.square().sum(), x)[0]
    assert torch.equal(torch.autograd.grad(again.square().sum(), x)[0], wanted)


def test_it_serves_an_encoder_layer_of_torch():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, dtype=torch.float64)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    expected = layer(x)
    ours = MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    ours.load_state_dict(layer.self_attn.state_dict())
    layer.self_attn = ours
    close("output", layer(x), expected, torch.float64, "")


def test_it_compiles_whole():
    _, ours = pair()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    out, weights = compiled(x, x, x, is_causal=True)
    expected, their_weights = ours(x, x, x, is_causal=True)
    close("output", out, expected, torch.float64, "")
    close("weights", weights, their_weights, torch.float64, "")
    ours_grad, wanted = (
        torch.autograd.grad(o.square().sum() + w.square().sum(), ours.in_proj_weight)[0]
        for o, w in ((out, weights), (expected, their_weights))
    )
    close("gradient", ours_grad, wanted, torch.float64, "through output and weights")


def test_bfloat16_and_autocast():
    torch.manual_seed(0)
    module = MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8)
    expected = module(x, x, x)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = module(x, x, x, attn_mask=torch.zeros(5, 5))[0]
    assert out.dtype is torch.bfloat16
    assert torch.allclose(out.float(), expected, atol=0.02)
    low = copy.deepcopy(module).bfloat16()
    assert torch.allclose(low(*[x.bfloat16()] * 3)[0].float(), expected, atol=0.02)


X = torch.zeros(4, 2, 8)
WHO = "MultiheadAttention: "
WRONG_MODULES = [
    ({"embed_dim": 0, "num_heads": 1}, "embed_dim must be above 0, got 0"),
    ({"embed_dim": 8, "num_heads": -2}, "num_heads must be above 0, got -2"),
    ({"embed_dim": 10, "num_heads": 4}, "embed_dim=10 is not divisible by num_heads=4; nearest valid num_heads: 2, 5"),
    ({"embed_dim": 8, "num_heads": 4, "num_kv_heads": 3}, "num_heads=4 is not divisible by num_kv_heads=3"),
    ({"embed_dim": 8, "num_heads": 4, "head_dim": 0}, "head_dim must be above 0, got 0"),
    ({"embed_dim": 8, "num_heads": 4, "dropout": 2.0}, "dropout must be in [0, 1], got 2.0"),
]
WRONG_CALLS = [
    ((X[..., :7], X, X), {}, ValueError,
     "query must be (seq_q, batch=2, embed_dim=8) with batch_first=False, got (4, 2, 7)"),
    ((X, X[:, :1], X), {}, ValueError, "key must be (seq_kv, batch=2, kdim=8) with batch_first=False, got (4, 1, 8)"),
    ((X, X, X[:3]), {}, ValueError,
     "value must be (seq_kv=4, batch=2, vdim=8) with batch_first=False, got (3, 2, 8)"),
    ((X[None], X, X), {}, ValueError, "query must have 3 axes, or 2 unbatched, got (1, 4, 2, 8)"),
    ((X[0], X, X[0]), {}, ValueError, "key must be (seq_kv, kdim=8) with batch_first=False, got (4, 2, 8)"),
    (([1.0], X, X), {}, TypeError, "query must be a torch.Tensor, got list"),
    ((X, X, X), {"attn_mask": torch.zeros(4, 3)}, ValueError,
     "attn_mask must be (seq_q=4, seq_kv=4), (batch * num_heads=4, 4, 4) or broadcast to (2, 2, 4, 4), got (4, 3)"),
    ((X, X, X), {"attn_mask": torch.zeros(4, 4, dtype=torch.uint8)}, TypeError,
     "attn_mask must be torch.bool (True = hidden), torch.float32, got torch.uint8"),
    ((X, X, X), {"key_padding_mask": torch.zeros(4, 2, dtype=torch.bool)}, ValueError,
     "key_padding_mask must be (batch=2, seq_kv=4), got (4, 2)"),
    ((X, X, X), {"key_padding_mask": [[0]]}, TypeError, "key_padding_mask must be a torch.Tensor, got list"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(WRONG_MODULES)))
def test_a_wrong_module_says_what_is_wrong(case):
    settings, text = WRONG_MODULES[case]
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        MultiheadAttention(**settings)
    assert str(raised.value) == WHO + text


@pytest.mark.parametrize("case", range(len(WRONG_CALLS)))
def test_a_wrong_call_of_the_module_says_what_is_wrong(case):
    arguments, options, error, text = WRONG_CALLS[case]
    with pytest.raises(error) as raised:
        MultiheadAttention(8, 2)(*arguments, **options)
    assert str(raised.value) == WHO + text
