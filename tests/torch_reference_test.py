# SPDX-License-Identifier: Apache-2.0
"""headwise.attention and its gradients in float64 against torch's autograd, over random configurations.

A failure prints the seed; `python tests/torch_reference_test.py SEED` repeats it alone.
"""

import math
import sys

import numpy as np
import pytest
import torch

import headwise
from attention_cases import attention_case, poisoned, visible_keys

CASES_PER_BLOCK = 120
BLOCKS = 10
# Of the largest absolute value of a tensor: some thousand roundings of 2^-53.
TOLERANCE = 1e-12


def keep_scale(probability):
    """What kept weights are multiplied by: the probability counts in steps of 2^-16."""
    return 65536 / (65536 - min(math.floor(probability * 65536 + 0.5), 65535))


def torch_attention(case, kept):
    """Plain torch, written from the definition: leaves, then (context, lse, weights)."""
    visible, position = visible_keys(case)
    visible = torch.from_numpy(visible)
    options = case.options

    def leaf(array):
        return torch.tensor(np.array(array), dtype=torch.float64, requires_grad=True)

    leaves = {"q": leaf(case.q), "k": leaf(case.k), "v": leaf(case.v)}
    group = case.q.shape[1] // case.k.shape[1]
    keys = leaves["k"].repeat_interleave(group, dim=1)
    values = leaves["v"].repeat_interleave(group, dim=1)
    head_dim = case.q.shape[3]
    scale = options.get("scale", 1 / math.sqrt(head_dim) if head_dim else 1.0)
    scores = torch.einsum("bhid,bhjd->bhij", leaves["q"], keys) * scale
    if "softcap" in options:
        scores = options["softcap"] * torch.tanh(scores / options["softcap"])
    if "bias" in options:
        # A bias of -inf hides its key, which `visible` already says.
        leaves["bias"] = leaf(np.where(options["bias"] == -np.inf, 0.0, options["bias"]))
        scores = scores + leaves["bias"]
    if "alibi_slopes" in options:
        leaves["alibi_slopes"] = leaf(options["alibi_slopes"])
        distance = np.abs(np.arange(case.k.shape[2]) - position[:, None, :, None]).astype(float)
        scores = scores - leaves["alibi_slopes"][:, None, None] * torch.from_numpy(distance)
    scores = scores.masked_fill(~visible, -torch.inf)
    sinks = torch.full((*scores.shape[:3], 1), -torch.inf, dtype=torch.float64)
    if "sinks" in options:
        leaves["sinks"] = leaf(options["sinks"])
        sinks = leaves["sinks"][:, None, None].expand_as(sinks)
    sees_some = visible.any(dim=3, keepdim=True)
    # A row that sees no key gets harmless scores here and zero weights below, so that no NaN enters a gradient.
    with_sinks = torch.cat([scores, sinks], dim=3).masked_fill(~sees_some, 0.0)
    weights = torch.softmax(with_sinks, dim=3)[..., :-1] * sees_some
    lse = torch.logsumexp(with_sinks, dim=3).masked_fill(~sees_some[..., 0], -torch.inf)
    return leaves, (weights * kept) @ values, lse, weights


def compare(case, name, got, expected):
    assert got.shape == expected.shape, f"{name} of {case}"
    finite = np.isfinite(expected)
    peak = np.abs(expected[finite]).max(initial=1.0)
    assert np.array_equal(got[~finite], expected[~finite]), f"{name}: another infinity or NaN in {case}"
    error = np.abs(got[finite] - expected[finite]).max(initial=0.0)
    assert error <= TOLERANCE * peak, f"{name} is off by {error:.3g} (largest {peak:.3g}) in {case}"


def same_bits(one, other):
    """Whether two arrays are equal in every bit, without a page of numbers in the failure."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def check(seed):
    clean = attention_case(seed)
    visible, _ = visible_keys(clean)
    case = poisoned(clean, visible)
    arguments = (case.q, case.k, case.v)

    result = headwise.attention(*arguments, **case.options, return_lse=True, return_weights=True, save=True)
    kept = np.ones(visible.shape)
    if "dropout" in case.options:
        after = headwise.attention(*arguments, **case.options, return_weights="after_dropout").weights
        kept = np.where(after != 0, keep_scale(case.options["dropout"]), 0.0)
        compare(case, "weights after dropout", after, result.weights * kept)
    plain = headwise.attention(*arguments, **case.options)
    assert same_bits(plain, result.context), f"extras change the context of {case}"

    leaves, context, lse, weights = torch_attention(clean, torch.from_numpy(kept))
    for name, got, expected in [
        ("context", result.context, context),
        ("lse", result.lse, lse),
        ("weights", result.weights, weights),
    ]:
        compare(case, name, got, expected.detach().numpy())

    context.backward(torch.from_numpy(np.array(case.grad_context)))
    saved = headwise.attention_backward(case.grad_context, *arguments, saved=result.saved, **case.options)
    again = headwise.attention_backward(case.grad_context, *arguments, **case.options)
    for name in headwise.AttentionGradients._fields:
        got = getattr(saved, name)
        if name not in leaves:
            assert got is None, f"a gradient of {name} without {name} in {case}"
            continue
        compare(case, f"gradient of {name}", got, leaves[name].grad.numpy())
        assert same_bits(got, getattr(again, name)), f"gradient of {name} depends on saved= in {case}"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_attention_and_every_gradient_equal_torch_in_float64(block):
    for seed in range(block * CASES_PER_BLOCK, (block + 1) * CASES_PER_BLOCK):
        try:
            check(seed)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{attention_case(seed)} raised {error!r}") from error


def test_the_cases_hold_every_option_and_every_odd_shape():
    cases = [attention_case(seed) for seed in range(BLOCKS * CASES_PER_BLOCK)]
    options = ["mask", "bias", "causal", "query_offset", "window", "kv_lengths", "scale", "softcap", "alibi_slopes"]
    for option in [*options, "sinks", "dropout"]:
        assert sum(option in case.options for case in cases) > 100, option
    for causal in (True, "upper_left", "lower_right"):
        assert sum(case.options.get("causal") == causal for case in cases) > 50
    assert sum(case.q.shape[1] > case.k.shape[1] for case in cases) > 100
    assert sum(0 in case.q.shape + case.k.shape + case.v.shape for case in cases) > 30
    assert sum(case.k.shape[2] > 256 for case in cases) > 10
    assert sum(not visible_keys(case)[0].any(axis=3).all() for case in cases) > 100
    assert sum(not case.q.flags.c_contiguous for case in cases) > 100


if __name__ == "__main__":
    check(int(sys.argv[1]))
    print(f"equal: {attention_case(int(sys.argv[1]))}")
