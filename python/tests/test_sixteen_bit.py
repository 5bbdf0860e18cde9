# SPDX-License-Identifier: Apache-2.0
"""float16 and bfloat16 arrays: every result is the float64 one, rounded about once."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import reference
from random_problem import random_problem, widened

import headwise

DTYPES = [np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)]
# Rounding to 10 or 7 bits of fraction moves numbers by 2.07e-4 or 1.65e-3 of themselves, root mean square.
FLOOR = {"float16": 2.2e-4, "bfloat16": 1.7e-3}
# What float32 sums add to the rounding of the result.
ABOVE_FLOOR = 1.001


def each_dtype(test):
    return pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)(test)


def relative_error(got, exact):
    return np.linalg.norm(got.astype("f8") - exact) / np.linalg.norm(exact)


def assert_at_the_floor(name, got, exact):
    floor = relative_error(exact.astype(got.dtype), exact)
    assert relative_error(got, exact) <= ABOVE_FLOOR * floor, name
    assert floor <= FLOOR[got.dtype.name], name


def assert_rounded(name, got, exact, slack):
    """Half a step of got's type from the exact number, and `slack` of the largest number around it."""
    got, step = got.astype("f8"), float(ml_dtypes.finfo(got.dtype).eps)
    assert got.shape == exact.shape, name
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(got[~finite], exact[~finite], name)
    largest = np.abs(exact[finite]).max(initial=1.0)
    bound = step / 2 * 1.001 * np.abs(exact[finite]) + slack * largest
    excess = np.abs(got[finite] - exact[finite]) - bound
    assert excess.max(initial=-1.0) <= 0, f"{name}: {excess.max():.3g} above the bound"


@each_dtype
@pytest.mark.parametrize("causal", [False, True])
def test_outputs_and_gradients_are_at_the_rounding_floor(dtype, causal):
    rng = np.random.default_rng(1)
    q, k, v, grad = (rng.normal(size=(1, 2, 1024, 64)).astype(dtype) for _ in range(4))
    wide = [a.astype("f8") for a in (q, k, v, grad)]
    forward = headwise.attention(q, k, v, causal=causal, save=True)
    exact = reference.forward(*wide[:3], causal=causal)
    assert_at_the_floor("context", forward.context, exact.context)
    exact = reference.backward(wide[3], *wide[:3], causal=causal)
    for saved in (forward.saved, None):
        got = headwise.attention_backward(grad, q, k, v, causal=causal, saved=saved)
        for name, a, b in zip("qkv", got, exact, strict=False):
            assert_at_the_floor(name, a, b)


@each_dtype
@pytest.mark.parametrize("seed", range(2090, 2100))
def test_gradients_are_those_of_float32_rounded_once(dtype, seed):
    q, k, v, options, _ = random_problem(seed, dtype)
    grad = np.random.default_rng(seed).normal(size=(*q.shape[:3], v.shape[3])).astype(dtype)
    wide_options = {name: value.astype("f4") if name == "bias" else value for name, value in options.items()}
    wide = headwise.attention_backward(*(a.astype("f4") for a in (grad, q, k, v)), **wide_options)
    saved = headwise.attention(q, k, v, save=True, **options).saved
    for got in (
        headwise.attention_backward(grad, q, k, v, saved=saved, **options),
        headwise.attention_backward(grad, q, k, v, **options),
    ):
        for name, a, b in zip(got._fields, got, wide, strict=True):
            assert (a is None) == (b is None), name
            if a is not None:
                assert a.tobytes() == b.astype(a.dtype).tobytes(), name


@each_dtype
def test_what_is_saved_does_not_share_the_context(dtype):
    rng = np.random.default_rng(3)
    q, k, v, grad = (rng.normal(size=(1, 2, 30, 8)).astype(dtype) for _ in range(4))
    expected = headwise.attention_backward(grad, q, k, v, causal=True)
    forward = headwise.attention(q, k, v, causal=True, save=True)
    forward.context[:] = 7
    got = headwise.attention_backward(grad, q, k, v, causal=True, saved=forward.saved)
    assert [a.tobytes() for a in got[:3]] == [a.tobytes() for a in expected[:3]]


@each_dtype
@pytest.mark.parametrize("seed", range(2000, 2100))
def test_forward_with_every_option_matches_the_reference(seed, dtype):
    q, k, v, options, has_positions = random_problem(seed, dtype)
    wide_q, wide_k, wide_v, wide = widened(q, k, v, options)
    exact = reference.forward(wide_q, wide_k, wide_v, **wide)
    got = headwise.attention(q, k, v, return_lse=True, return_weights=True, stats=has_positions, **options)
    assert got.context.dtype == got.weights.dtype == dtype
    assert got.lse.dtype == np.float32
    assert_rounded("context", got.context, exact.context, 1e-5)
    assert_rounded("weights", got.weights, exact.weights, 1e-5)
    assert_rounded("lse", got.lse, exact.lse, 1e-5)
    for name, array in (got.stats or {}).items():
        assert array.dtype == (np.int64 if name == "top_keys" else np.float32)
        if name != "top_keys":  # keys of nearly equal weight may change places
            assert_rounded(name, array, reference.statistics(exact, k.shape[2])[name], 1e-5)


@each_dtype
@pytest.mark.parametrize("seed", range(2100, 2180))
def test_gradients_with_every_option_match_the_reference(seed, dtype):
    q, k, v, options, _ = random_problem(seed, dtype)
    forward = headwise.attention(q, k, v, save=True, **options)
    grad = np.random.default_rng(seed).normal(size=forward.context.shape).astype(dtype)
    wide_q, wide_k, wide_v, wide = widened(q, k, v, options)
    exact = reference.backward(grad.astype("f8"), wide_q, wide_k, wide_v, **wide)
    got = headwise.attention_backward(grad, q, k, v, saved=forward.saved, **options)
    for name, a, b in zip(got._fields, got, exact, strict=True):
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.dtype == (np.float32 if name in ("alibi_slopes", "sinks") else dtype)
            assert_rounded(name, a, b, 3e-5)


@each_dtype
def test_extras_saved_and_threads_change_no_bit(dtype):
    q, k, v, options, has_positions = random_problem(2201, dtype)
    bare = headwise.attention(q, k, v, **options)
    full = headwise.attention(q, k, v, return_lse=True, return_weights=True, stats=has_positions, save=True, **options)
    assert bare.tobytes() == full.context.tobytes()
    grad = np.ones_like(bare)
    before, results = headwise.get_num_threads(), []
    try:
        for threads, saved in ((1, full.saved), (1, None), (3, None)):
            headwise.set_num_threads(threads)
            gradients = headwise.attention_backward(grad, q, k, v, saved=saved, **options)
            results.append([a.tobytes() for a in gradients if a is not None])
    finally:
        headwise.set_num_threads(before)
    assert results[0] == results[1] == results[2]


@each_dtype
def test_the_context_is_that_of_float32_rounded_once(dtype):
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=(2, 3, 300, 24)).astype(dtype) for _ in range(3))
    wide = headwise.attention(q.astype("f4"), k.astype("f4"), v.astype("f4"))
    assert headwise.attention(q, k, v).tobytes() == wide.astype(dtype).tobytes()


@each_dtype
def test_numbers_too_large_for_the_type_become_infinite_and_stay_in_their_row(dtype):
    largest = ml_dtypes.finfo(dtype).max
    v = np.zeros((1, 1, 3, 2), dtype)
    v[0, 0, 1] = largest
    q = np.zeros((1, 1, 3, 2), dtype)
    mask = np.eye(3, dtype=bool)
    got = headwise.attention(q, q, v, mask=mask, sinks=np.full(1, -np.inf, "f4"))
    assert (got[0, 0, 1] == largest).all()
    grown = headwise.attention_backward(np.full_like(v, largest), q, q, v, mask=np.ones((3, 3), bool))
    assert np.isfinite(grown.v.astype("f8")).all()  # three thirds of the largest number
    doubled = headwise.attention_backward(np.full_like(v, largest), q, q, v, mask=np.arange(3) == np.ones((3, 1)))
    assert (doubled.v[0, 0, 1].astype("f8") == np.inf).all()
    assert not doubled.v[0, 0, [0, 2]].any()


def test_float16_needs_no_package():
    code = (
        "import sys, numpy, headwise; q = numpy.ones((1, 1, 2, 4), 'f2'); "
        "assert headwise.attention(q, q, q).dtype == q.dtype; assert 'ml_dtypes' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
