# SPDX-License-Identifier: Apache-2.0
"""The projection by itself, which the measurements call."""

import re

import numpy as np
import pytest

from headwise import _headwise

X, W, B = np.zeros((5, 3), "f4"), np.zeros((4, 3), "f4"), np.zeros(4, "f4")
GRAD = np.zeros((5, 4), "f4")


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("size", [(1, 1, 1), (7, 300, 33), (70, 64, 20), (0, 3, 2), (3, 0, 2), (3, 2, 0)], ids=str)
def test_the_projection_and_its_gradients(size, dtype):
    tokens, d_in, d_out = size
    rng = np.random.default_rng(0)
    x, weight, bias, grad = (
        rng.normal(size=shape).astype(dtype) for shape in ((tokens, d_in), (d_out, d_in), (d_out,), (tokens, d_out))
    )
    tolerance = {"rtol": 64 * np.finfo(dtype).eps, "atol": 256 * np.finfo(dtype).eps}
    np.testing.assert_allclose(_headwise.linear(x, weight, bias), x @ weight.T + bias, **tolerance)
    np.testing.assert_allclose(_headwise.linear(x, weight, None), x @ weight.T, **tolerance)
    got = _headwise.linear_backward(grad, x, weight)
    for a, b in zip(got, (grad @ weight, grad.T @ x, grad.sum(0)), strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, **tolerance)


def test_any_strides_are_taken():
    rng = np.random.default_rng(1)
    x, weight = rng.normal(size=(9, 12)).astype("f4"), rng.normal(size=(4, 6)).astype("f4")
    expected = _headwise.linear(x[:, ::2].copy(), weight, None)
    assert _headwise.linear(x[:, ::2], np.asfortranarray(weight), None).tobytes() == expected.tobytes()


REFUSED = [
    (lambda: _headwise.linear(None, W, B), TypeError, "linear: x must be a numpy array, got NoneType"),
    (
        lambda: _headwise.linear(X.astype("f2"), W, B),
        TypeError,
        "linear: x must be float32 or float64, got float16",
    ),
    (lambda: _headwise.linear(X, W.astype("f8"), B), TypeError, "linear: weight must be float32 like x, got float64"),
    (lambda: _headwise.linear(X[0], W, B), ValueError, "linear: x must be (tokens, d_in), got (3,)"),
    (lambda: _headwise.linear(X, W[:, :2], B), ValueError, "linear: weight must be (d_out, d_in=3), got (4, 2)"),
    (lambda: _headwise.linear(X, W, B[:3]), ValueError, "linear: bias must be (d_out=4,), got (3,)"),
    (
        lambda: _headwise.linear_backward(GRAD[:4], X, W),
        ValueError,
        "linear_backward: x must be (tokens=4, d_in), got (5, 3)",
    ),
    (
        lambda: _headwise.linear_backward(GRAD, X, W[:3]),
        ValueError,
        "linear_backward: weight must be (d_out=4, d_in=3), got (3, 3)",
    ),
    (
        lambda: _headwise.linear_backward(GRAD.astype("f8"), X, W),
        TypeError,
        "linear_backward: x must be float64 like grad_out, got float32",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[case[2] for case in REFUSED])
def test_a_wrong_call_is_refused(call, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()
