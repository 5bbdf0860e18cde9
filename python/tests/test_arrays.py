# SPDX-License-Identifier: Apache-2.0
"""Which arrays are taken: any strides, read-only, empty; and where results may be written."""

import threading

import ml_dtypes
import numpy as np
import pytest

import headwise

DTYPES = ["float32", "float64", "float16", ml_dtypes.bfloat16]


def arrays(shape_q=(2, 4, 5, 6), shape_kv=(2, 2, 7, 6), dtype="f4"):
    rng = np.random.default_rng(0)
    return tuple(rng.normal(size=shape).astype(dtype) for shape in (shape_q, shape_kv, shape_kv))


VIEWS = {
    "transposed": lambda a: np.ascontiguousarray(a.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3),
    "Fortran order": np.asfortranarray,
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1, ::-1, ::-1])[::-1, ::-1, ::-1, ::-1],
    "every third": lambda a: np.repeat(a, 3, axis=3)[..., ::3],
    "a field of a record": lambda a: as_field(a),
    "read-only": lambda a: read_only(a),
}


def as_field(a):
    record = np.zeros(a.shape, [("other", a.dtype), ("value", a.dtype)])
    record["value"] = a
    return record["value"]


def read_only(a):
    copy = a.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", VIEWS)
def test_every_view_gives_the_bits_of_the_dense_array(name, dtype):
    q, k, v = arrays(dtype=dtype)
    bias, grad = np.random.default_rng(1).normal(size=(2, 4, 5, 7)).astype(dtype), np.ones((2, 4, 5, 6), dtype)
    mask = bias > -1
    view = VIEWS[name]
    dense = headwise.attention(q, k, v, bias=bias, mask=mask)
    assert headwise.attention(view(q), view(k), view(v), bias=view(bias), mask=view(mask)).tobytes() == dense.tobytes()
    for a, b in zip(
        headwise.attention_backward(grad, q, k, v, bias=bias, mask=mask),
        headwise.attention_backward(view(grad), view(q), view(k), view(v), bias=view(bias), mask=view(mask)),
        strict=True,
    ):
        assert (a is None and b is None) or a.tobytes() == b.tobytes()


def test_axes_of_stride_zero_are_read_in_place():
    q, k, v = arrays()
    one_q = np.broadcast_to(q[:1, :1], q.shape)
    one_mask = np.broadcast_to(np.tri(5, 7, dtype=bool), (2, 4, 5, 7))
    got = headwise.attention(one_q, k, v, mask=one_mask)
    assert got.tobytes() == headwise.attention(one_q.copy(), k, v, mask=one_mask.copy()).tobytes()


def test_inputs_stay_as_they_were():
    q, k, v = arrays()
    before = [a.tobytes() for a in (q, k, v)]
    headwise.attention_backward(headwise.attention(q, k, v), q, k, v)
    assert [a.tobytes() for a in (q, k, v)] == before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("batch", "heads", "seq_q", "seq_kv", "head_dim", "v_head_dim"),
    [
        (0, 2, 3, 4, 5, 6),
        (1, 0, 3, 4, 5, 6),
        (1, 2, 0, 4, 5, 6),
        (1, 2, 3, 0, 5, 6),
        (1, 2, 3, 4, 0, 6),
        (1, 2, 3, 4, 5, 0),
        (0, 0, 0, 0, 0, 0),
    ],
)
def test_every_size_may_be_zero(batch, heads, seq_q, seq_kv, head_dim, v_head_dim, dtype):
    q, k = np.ones((batch, heads, seq_q, head_dim), dtype), np.ones((batch, heads, seq_kv, head_dim), dtype)
    v = np.full((batch, heads, seq_kv, v_head_dim), 3, dtype)
    got = headwise.attention(q, k, v, return_lse=True, return_weights=True, stats=True, save=True, query_offset=0)
    assert got.context.shape == (batch, heads, seq_q, v_head_dim)
    assert (got.context == (3 if seq_kv else 0)).all()
    assert got.weights.shape == (batch, heads, seq_q, seq_kv)
    assert got.stats["top_keys"].shape == (batch, heads, seq_q, min(4, seq_kv))
    gradients = headwise.attention_backward(got.context, q, k, v, saved=got.saved, query_offset=0)
    assert [a.shape for a in gradients[:3]] == [q.shape, k.shape, v.shape]
    assert all(np.isfinite(a.astype("f8")).all() for a in gradients[:3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_out_is_written_and_given_back(dtype):
    q, k, v = arrays(dtype=dtype)
    expected = headwise.attention(q, k, v)
    out = np.full((2, 4, 5, 12), np.nan, dtype)[..., ::2]
    assert headwise.attention(q, k, v, out=out) is out
    np.testing.assert_array_equal(out, expected)
    result = headwise.attention(q, k, v, out=out, return_lse=True)
    assert result.context is out


def test_out_may_lie_between_the_elements_of_an_input():
    q, k, v = arrays()
    both = np.zeros((2, 4, 5, 12), "f4")
    both[..., ::2] = q
    headwise.attention(both[..., ::2], k, v, out=both[..., 1::2])
    np.testing.assert_array_equal(both[..., 1::2], headwise.attention(q, k, v))


def test_saved_outlives_a_reused_out():
    q, k, v = arrays()
    out = np.empty((2, 4, 5, 6), "f4")
    saved = headwise.attention(q, k, v, out=out, save=True).saved
    out[:] = 7
    with_saved = headwise.attention_backward(np.ones_like(out), q, k, v, saved=saved)
    without = headwise.attention_backward(np.ones_like(out), q, k, v)
    for a, b in zip(with_saved[:3], without[:3], strict=True):
        np.testing.assert_array_equal(a, b)


def test_calls_from_many_threads_do_not_disturb_each_other():
    q, k, v = arrays((1, 2, 33, 8), (1, 2, 33, 8))
    expected = headwise.attention(q, k, v, causal=True).tobytes()
    wrong = []

    def work():
        wrong.extend(1 for _ in range(30) if headwise.attention(q, k, v, causal=True).tobytes() != expected)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
