# SPDX-License-Identifier: Apache-2.0
"""Gradients against central differences of the package's own forward, in float64."""

import numpy as np
import pytest
from random_problem import random_problem

import headwise

STEP = 1e-5


def central_difference(loss, array):
    gradient = np.zeros(array.shape)
    for index in np.ndindex(array.shape):
        kept = array[index]
        if not np.isfinite(kept):
            continue
        array[index] = kept + STEP
        above = loss()
        array[index] = kept - STEP
        gradient[index] = (above - loss()) / (2 * STEP)
        array[index] = kept
    return gradient


def small_problem(seed):
    q, k, v, options, _ = random_problem(seed, "f8")
    # Nearly all of the time goes into differences: a corner of the problem is enough.
    rows = slice(0, 3)
    q = q[:1, :, rows, :3].copy()
    k, v = k[:1, :, :, :3].copy(), v[:1, :, :, :2].copy()
    shape = (1, q.shape[1], q.shape[2], k.shape[2])
    for name in ("mask", "bias"):
        if name in options:
            whole = options[name]
            options[name] = whole[..., rows, :].copy() if whole.ndim == 2 else whole[:1, :, rows].copy()
    for name in ("kv_lengths", "query_offset"):
        if isinstance(options.get(name), np.ndarray):
            options[name] = options[name][:1]
    if shape[2] != shape[3] and options.get("causal") in (False, True, None) and "query_offset" not in options:
        options["query_offset"] = 0
    return q, k, v, options


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_gradients_are_central_differences(seed):
    q, k, v, options = small_problem(seed)
    grad = np.random.default_rng(seed).normal(size=(*q.shape[:3], v.shape[3]))

    def loss():
        return float((grad * headwise.attention(q, k, v, **options)).sum())

    got = headwise.attention_backward(grad, q, k, v, **options)
    arrays = (q, k, v, options.get("bias"), options.get("alibi_slopes"), options.get("sinks"))
    for name, gradient, array in zip(got._fields, got, arrays, strict=True):
        assert (gradient is None) == (array is None), name
        if array is not None:
            np.testing.assert_allclose(gradient, central_difference(loss, array), rtol=1e-5, atol=1e-7, err_msg=name)
