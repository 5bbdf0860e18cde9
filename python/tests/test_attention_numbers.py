# SPDX-License-Identifier: Apache-2.0
"""Forward, backward and statistics against the reference, over random problems with every option."""

import numpy as np
import pytest
import reference
from random_problem import random_problem, widened

import headwise


def assert_close(name, got, exact, plain):
    """Within four times the error of plain numpy in the same type, and a few roundings of the largest number."""
    assert got.shape == exact.shape, name
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(got[~finite], exact[~finite], name)
    if not finite.any():
        return
    largest = np.abs(exact[finite]).max()
    bound = 4 * np.abs(plain[finite] - exact[finite]).max() + 64 * np.finfo(got.dtype).eps * max(1.0, largest)
    error = np.abs(got[finite] - exact[finite]).max()
    assert error <= bound, f"{name}: error {error:.3g}, bound {bound:.3g}"


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("seed", range(200))
def test_forward_matches_the_reference(seed, dtype):
    q, k, v, options, _ = random_problem(seed, dtype)
    wide_q, wide_k, wide_v, wide = widened(q, k, v, options)
    exact, plain = reference.forward(wide_q, wide_k, wide_v, **wide), reference.forward(q, k, v, **options)
    got = headwise.attention(q, k, v, return_lse=True, return_weights=True, **options)
    assert got.context.dtype == q.dtype
    assert got.context.flags.c_contiguous
    assert_close("context", got.context, exact.context, plain.context)
    assert_close("lse", got.lse, exact.lse, plain.lse)
    assert_close("weights", got.weights, exact.weights, plain.weights)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("seed", range(200, 350))
def test_gradients_match_the_reference(seed, dtype):
    q, k, v, options, _ = random_problem(seed, dtype)
    forward = headwise.attention(q, k, v, save=True, **options)
    grad = np.random.default_rng(seed).normal(size=forward.context.shape).astype(dtype)
    wide_q, wide_k, wide_v, wide = widened(q, k, v, options)
    exact = reference.backward(grad.astype("f8"), wide_q, wide_k, wide_v, **wide)
    plain = reference.backward(grad, q, k, v, **options)
    got = headwise.attention_backward(grad, q, k, v, saved=forward.saved, **options)
    for name, a, b, c in zip(got._fields, got, exact, plain, strict=True):
        assert (a is None) == (b is None), name
        if a is not None:
            assert_close(name, a, b, c)


@pytest.mark.parametrize("seed", range(350, 450))
def test_statistics_match_the_reference(seed):
    q, k, v, options, has_positions = random_problem(seed, "f8")
    names = True if has_positions else ("entropy", "max_weight", "top_keys", "first", "received")
    got = headwise.attention(q, k, v, stats=names, **options).stats
    exact = reference.statistics(reference.forward(q, k, v, **options), k.shape[2])
    assert list(got) == (list(exact) if names is True else list(names))
    for name, array in got.items():
        if name == "top_keys":
            assert array.dtype == np.int64
            np.testing.assert_array_equal(array, exact[name])
        else:
            np.testing.assert_allclose(array, exact[name], rtol=1e-11, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("seed", range(450, 480))
def test_extras_never_change_the_bits_of_the_context(seed):
    q, k, v, options, has_positions = random_problem(seed, "f4")
    bare = headwise.attention(q, k, v, **options)
    full = headwise.attention(
        q, k, v, return_lse=True, return_weights="after_dropout", stats=has_positions, save=True, **options
    )
    assert bare.tobytes() == full.context.tobytes()


@pytest.mark.parametrize("seed", range(480, 510))
def test_backward_gives_the_same_bits_with_and_without_saved(seed):
    q, k, v, options, _ = random_problem(seed, "f4")
    forward = headwise.attention(q, k, v, save=True, **options)
    grad = np.random.default_rng(seed).normal(size=forward.context.shape).astype("f4")
    with_saved = headwise.attention_backward(grad, q, k, v, saved=forward.saved, **options)
    without = headwise.attention_backward(grad, q, k, v, **options)
    for a, b in zip(with_saved, without, strict=True):
        assert (a is None and b is None) or a.tobytes() == b.tobytes()


@pytest.mark.parametrize("seed", range(510, 540))
def test_the_number_of_threads_changes_no_bit(seed):
    q, k, v, options, _ = random_problem(seed, "f4")
    before = headwise.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 5):
            headwise.set_num_threads(threads)
            context = headwise.attention(q, k, v, **options)
            gradients = headwise.attention_backward(np.ones_like(context), q, k, v, **options)
            results.append([array.tobytes() for array in (context, *gradients) if array is not None])
    finally:
        headwise.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_weights_after_dropout_are_what_multiplies_v():
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(2, 3, 40, 8)) for _ in range(3))
    options = {"dropout": 0.4, "seed": 11, "batch_offset": 5, "head_offset": 2}
    before = headwise.attention(q, k, v, return_weights=True, **options).weights
    after = headwise.attention(q, k, v, return_weights="after_dropout", **options)
    np.testing.assert_allclose(before.sum(-1), 1, rtol=1e-12)
    assert 0.3 < (after.weights == 0).mean() < 0.5
    np.testing.assert_allclose(after.weights @ v, after.context, rtol=1e-11, atol=1e-12)


def test_dropout_of_a_slice_of_batch_and_heads_is_the_slice_of_the_dropout():
    rng = np.random.default_rng(4)
    q, k, v = (rng.normal(size=(4, 6, 9, 5)).astype("f4") for _ in range(3))
    whole = headwise.attention(q, k, v, dropout=0.5, seed=1)
    part = headwise.attention(q[1:3, 2:5], k[1:3, 2:5], v[1:3, 2:5], dropout=0.5, seed=1, batch_offset=1, head_offset=2)
    assert part.tobytes() == whole[1:3, 2:5].tobytes()


def test_hidden_keys_are_not_read():
    rng = np.random.default_rng(5)
    q, k, v = (rng.normal(size=(2, 2, 12, 4)) for _ in range(3))
    clean = headwise.attention(q, k, v, kv_lengths=np.array([7, 12]), causal=True)
    k[0, :, 7:], v[0, :, 7:] = np.nan, np.inf
    k[1, :, 11], v[1, :, 11] = np.nan, -np.inf
    poisoned = headwise.attention(q, k, v, kv_lengths=np.array([7, 12]), causal=True)
    assert poisoned[0].tobytes() == clean[0].tobytes()
    assert poisoned[1, :, :11].tobytes() == clean[1, :, :11].tobytes()
    assert np.isnan(poisoned[1, :, 11]).all()


def test_a_row_that_sees_no_key_is_zero_everywhere():
    rng = np.random.default_rng(6)
    q, k, v = (rng.normal(size=(1, 2, 5, 3)) for _ in range(3))
    mask = np.ones((5, 5), bool)
    mask[2] = False
    got = headwise.attention(q, k, v, mask=mask, return_lse=True, return_weights=True, stats=True)
    assert not got.context[:, :, 2].any()
    assert not got.weights[:, :, 2].any()
    assert (got.lse[:, :, 2] == -np.inf).all()
    assert (got.stats["top_keys"][:, :, 2] == -1).all()
    assert not got.stats["entropy"][:, :, 2].any()
    assert not headwise.attention_backward(np.ones_like(got.context), q, k, v, mask=mask).q[:, :, 2].any()


def test_a_row_of_the_lowest_number_is_an_exact_average():
    v = np.random.default_rng(7).normal(size=(1, 1, 4, 3)).astype("f4")
    q = np.zeros((1, 1, 1, 3), "f4")
    bias = np.full((1, 4), np.finfo("f4").min, "f4")
    got = headwise.attention(q, np.zeros_like(v), v, bias=bias, return_weights=True)
    assert (got.weights == 0.25).all()
