# SPDX-License-Identifier: Apache-2.0
"""Every wrong call is refused with one text, compared whole."""

import re

import ml_dtypes
import numpy as np
import pytest

import headwise

Q = np.zeros((2, 4, 5, 8), "f4")
K = np.zeros((2, 2, 7, 8), "f4")
V = np.zeros((2, 2, 7, 6), "f4")
SQUARE = np.zeros((2, 4, 5, 8), "f4")
GRAD = np.zeros((2, 4, 5, 6), "f4")
ALIGNMENT = 'give query_offset, causal="upper_left" or causal="lower_right"'
OFFSETS = "-9007199254740992..9007199254740992"


BF16 = np.dtype(ml_dtypes.bfloat16)


def unaligned(shape, dtype="f4"):
    return np.zeros(np.dtype(dtype).itemsize * int(np.prod(shape)) + 1, "u1")[1:].view(dtype).reshape(shape)


def narrow(dtype):
    return {"q": Q.astype(dtype), "k": K.astype(dtype), "v": V.astype(dtype)}


def read_only_out():
    out = np.zeros((2, 4, 5, 6), "f4")
    out.flags.writeable = False
    return out


def repeating_out():
    return np.lib.stride_tricks.as_strided(np.zeros(64, "f4"), (2, 4, 5, 6), (0, 0, 24, 4), writeable=True)


ATTENTION = [
    ({"q": Q.tolist()}, TypeError, "attention: q must be a numpy array, got list"),
    ({"k": None}, TypeError, "attention: k must be a numpy array, got NoneType"),
    (
        {"q": np.ma.masked_array(Q)},
        TypeError,
        "attention: q must be a numpy array, got numpy.ma.MaskedArray",
    ),
    ({"q": Q.astype("i8")}, TypeError, "attention: q must be float32, float64, float16 or bfloat16, got int64"),
    ({"q": Q.astype("c8")}, TypeError, "attention: q must be float32, float64, float16 or bfloat16, got complex64"),
    ({"q": Q.astype(">f4")}, TypeError, "attention: q must be float32, float64, float16 or bfloat16, got >f4"),
    ({"k": K.astype("f8")}, TypeError, "attention: k must be float32 like q, got float64"),
    ({"v": V.astype("f8")}, TypeError, "attention: v must be float32 like q, got float64"),
    ({"q": Q.astype("f2")}, TypeError, "attention: k must be float16 like q, got float32"),
    ({"q": Q.astype(BF16)}, TypeError, "attention: k must be bfloat16 like q, got float32"),
    (
        {"q": Q.astype(BF16.newbyteorder())},
        TypeError,
        "attention: q must be float32, float64, float16 or bfloat16, got >V2",
    ),
    (
        {"q": Q.astype(ml_dtypes.float8_e4m3fn)},
        TypeError,
        "attention: q must be float32, float64, float16 or bfloat16, got float8_e4m3fn",
    ),
    ({**narrow(BF16), "v": V.astype("f2")}, TypeError, "attention: v must be bfloat16 like q, got float16"),
    (
        {**narrow("f2"), "bias": np.zeros((5, 7), "f4")},
        TypeError,
        "attention: bias must be float16 like q, got float32",
    ),
    (
        {**narrow("f2"), "sinks": np.zeros(4, "f2")},
        TypeError,
        "attention: sinks must be float32 beside float16 q, got float16",
    ),
    (
        {**narrow(BF16), "alibi_slopes": np.zeros(4, BF16), "query_offset": 0},
        TypeError,
        "attention: alibi_slopes must be float32 beside bfloat16 q, got bfloat16",
    ),
    (
        {**narrow(BF16), "out": np.zeros((2, 4, 5, 6), "f4")},
        TypeError,
        "attention: out must be bfloat16 like q, got float32",
    ),
    (
        {"q": unaligned(Q.shape, "f2"), "k": K.astype("f2"), "v": V.astype("f2")},
        ValueError,
        "attention: q must be aligned (address and strides in multiples of its 2 bytes an element), got an unaligned "
        "view",
    ),
    (
        {"q": unaligned(Q.shape)},
        ValueError,
        "attention: q must be aligned (address and strides in multiples of its 4 bytes an element), got an unaligned "
        "view",
    ),
    ({"q": Q[0]}, ValueError, "attention: q must be (batch, heads, seq_q, head_dim), got (4, 5, 8)"),
    (
        {"k": K[..., :7]},
        ValueError,
        "attention: k must be (batch=2, kv_heads, seq_kv, head_dim=8), got (2, 2, 7, 7)",
    ),
    (
        {"v": V[:, :1]},
        ValueError,
        "attention: v must be (batch=2, kv_heads=2, seq_kv=7, v_head_dim), got (2, 1, 7, 6)",
    ),
    (
        {"q": Q[:, :3]},
        ValueError,
        "attention: heads=3 is not divisible by kv_heads=2; nearest valid kv_heads: 1, 3",
    ),
    (
        {"mask": np.ones((5, 7))},
        TypeError,
        "attention: mask must be bool (True = attend), got float64",
    ),
    ({"mask": [[True]]}, TypeError, "attention: mask must be a numpy array, got list"),
    (
        {"mask": np.ones((5, 8), bool)},
        ValueError,
        "attention: mask must be (seq_q=5, seq_kv=7), got (5, 8)",
    ),
    (
        {"mask": np.ones((2, 5, 7), bool)},
        ValueError,
        "attention: mask must be (batch=2, heads=4, seq_q=5, seq_kv=7) with any axis 1, got (2, 5, 7)",
    ),
    ({"bias": np.zeros((5, 7))}, TypeError, "attention: bias must be float32 like q, got float64"),
    (
        {"bias": np.zeros((3, 1, 1, 7), "f4")},
        ValueError,
        "attention: bias must be (batch=2, heads=4, seq_q=5, seq_kv=7) with any axis 1, got (3, 1, 1, 7)",
    ),
    (
        {"causal": True},
        ValueError,
        f"attention: causal=True needs seq_q == seq_kv or a stated alignment, got seq_q=5 and seq_kv=7; {ALIGNMENT}",
    ),
    (
        {"window": (1, 1)},
        ValueError,
        f"attention: window needs seq_q == seq_kv or a stated alignment, got seq_q=5 and seq_kv=7; {ALIGNMENT}",
    ),
    (
        {"alibi_slopes": np.ones(4, "f4")},
        ValueError,
        f"attention: alibi_slopes needs seq_q == seq_kv or a stated alignment, got seq_q=5 and seq_kv=7; {ALIGNMENT}",
    ),
    (
        {"stats": ("distance",)},
        ValueError,
        'attention: stats "distance" needs seq_q == seq_kv or a stated alignment, got seq_q=5 and seq_kv=7; '
        + ALIGNMENT,
    ),
    (
        {"causal": "right"},
        ValueError,
        'attention: causal must be False, True, "upper_left" or "lower_right", got "right"',
    ),
    (
        {"causal": 1},
        TypeError,
        'attention: causal must be False, True, "upper_left" or "lower_right", got int',
    ),
    (
        {"causal": "upper_left", "query_offset": 0},
        ValueError,
        'attention: causal="upper_left" and query_offset both say where the queries stand; give one of them',
    ),
    ({"query_offset": 1.5}, TypeError, "attention: query_offset must be an integer, got float"),
    ({"query_offset": True}, TypeError, "attention: query_offset must be an integer, got bool"),
    (
        {"query_offset": 2**60},
        ValueError,
        f"attention: query_offset must be in {OFFSETS}, got 1152921504606846976",
    ),
    (
        {"query_offset": -(2**62)},
        ValueError,
        f"attention: query_offset must be in {OFFSETS}, got -4611686018427387904",
    ),
    (
        {"query_offset": np.array([0, 2**62])},
        ValueError,
        f"attention: query_offset must be in {OFFSETS}, got 4611686018427387904",
    ),
    (
        {"query_offset": [-(2**62), 0]},
        ValueError,
        f"attention: query_offset must be in {OFFSETS}, got -4611686018427387904",
    ),
    (
        {"query_offset": np.array([1, 2, 3])},
        ValueError,
        "attention: query_offset must be (batch=2,), got (3,)",
    ),
    (
        {"query_offset": np.array([1.0, 2.0])},
        TypeError,
        "attention: query_offset must be integers, got float64",
    ),
    ({"window": 3}, TypeError, "attention: window must be a tuple (left, right), got int"),
    (
        {"window": (1, 2, 3)},
        ValueError,
        "attention: window must be a tuple (left, right), got 3 entries",
    ),
    (
        {"window": (-2, 0), "query_offset": 0},
        ValueError,
        "attention: window must be (left, right) with each >= 0, or -1 for unlimited, got (-2, 0)",
    ),
    (
        {"window": (0.5, 0), "query_offset": 0},
        TypeError,
        "attention: window must be an integer, got float",
    ),
    (
        {"kv_lengths": np.array([3, 8])},
        ValueError,
        "attention: kv_lengths must be in 0..seq_kv=7, got 8 at batch entry 1",
    ),
    ({"kv_lengths": np.array([3])}, ValueError, "attention: kv_lengths must be (batch=2,), got (1,)"),
    ({"kv_lengths": np.array([])}, TypeError, "attention: kv_lengths must be integers, got float64"),
    ({"kv_lengths": 3}, TypeError, "attention: kv_lengths must be an array of integers, got int"),
    (
        {"kv_lengths": np.array([[3, 4]])},
        ValueError,
        "attention: kv_lengths must be (batch,), got (1, 2)",
    ),
    ({"scale": float("nan")}, ValueError, "attention: scale must be a finite number, got nan"),
    ({"scale": "1"}, TypeError, "attention: scale must be a number, got str"),
    ({"scale": np.ones(1)}, TypeError, "attention: scale must be a number, got numpy.ndarray"),
    ({"softcap": 0.0}, ValueError, "attention: softcap must be a finite number above 0, got 0"),
    (
        {"alibi_slopes": np.ones(2, "f4"), "query_offset": 0},
        ValueError,
        "attention: alibi_slopes must be (heads=4,), got (2,)",
    ),
    ({"sinks": np.ones(4)}, TypeError, "attention: sinks must be float32 like q, got float64"),
    ({"sinks": np.ones((4, 1), "f4")}, ValueError, "attention: sinks must be (heads=4,), got (4, 1)"),
    ({"dropout": 1.0, "seed": 1}, ValueError, "attention: dropout must be in [0, 1), got 1"),
    ({"dropout": 2.0}, ValueError, "attention: dropout must be in [0, 1), got 2"),
    ({"dropout": -0.5}, ValueError, "attention: dropout must be in [0, 1), got -0.5"),
    ({"dropout": float("nan")}, ValueError, "attention: dropout must be in [0, 1), got nan"),
    ({"dropout": 0.1}, ValueError, "attention: dropout=0.1 needs a seed, got seed=None"),
    ({"dropout": True}, TypeError, "attention: dropout must be a number, got bool"),
    ({"seed": -1}, ValueError, "attention: seed must be in 0..2**64-1, got -1"),
    (
        {"seed": 2**64},
        ValueError,
        "attention: seed must be in 0..2**64-1, got 18446744073709551616",
    ),
    ({"seed": 1.0}, TypeError, "attention: seed must be an integer, got float"),
    ({"batch_offset": -1}, ValueError, "attention: batch_offset must be in 0..4294967295, got -1"),
    (
        {"head_offset": 2**32},
        ValueError,
        "attention: head_offset must be in 0..4294967295, got 4294967296",
    ),
    ({"return_lse": 1}, TypeError, "attention: return_lse must be True or False, got int"),
    ({"save": "yes"}, TypeError, "attention: save must be True or False, got str"),
    (
        {"return_weights": "before"},
        ValueError,
        'attention: return_weights must be False, True or "after_dropout", got "before"',
    ),
    (
        {"return_weights": 2},
        TypeError,
        'attention: return_weights must be False, True or "after_dropout", got int',
    ),
    (
        {"stats": ("entropy", "mean")},
        ValueError,
        'attention: stats has no "mean"; the names are entropy, max_weight, top_keys, distance, self, previous, next, '
        "first, received",
    ),
    ({"stats": "entropy"}, TypeError, "attention: stats must be True or a tuple of names, got str"),
    (
        {"stats": (1,)},
        TypeError,
        "attention: stats must be True or a tuple of names, got an entry of type int",
    ),
    ({"out": []}, TypeError, "attention: out must be a numpy array, got list"),
    ({"out": np.zeros((2, 4, 5, 6))}, TypeError, "attention: out must be float32 like q, got float64"),
    (
        {"out": np.zeros((2, 4, 5, 8), "f4")},
        ValueError,
        "attention: out must be (batch=2, heads=4, seq_q=5, v_head_dim=6), got (2, 4, 5, 8)",
    ),
    ({"out": read_only_out()}, ValueError, "attention: out must be writable, got a read-only array"),
    (
        {"out": repeating_out()},
        ValueError,
        "attention: out must not overlap itself, got strides that repeat an element",
    ),
    (
        {"k": SQUARE, "v": SQUARE, "out": SQUARE},
        ValueError,
        "attention: out must not overlap an input, got memory of k",
    ),
]


@pytest.mark.parametrize(("given", "error", "text"), ATTENTION, ids=[case[2] for case in ATTENTION])
def test_attention_refuses(given, error, text):
    arguments = {"q": Q, "k": K, "v": V, **given}
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        headwise.attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)


def other_saved(**options):
    return headwise.attention(Q, K, V, save=True, **options).saved


BACKWARD = [
    ({"q": Q.tolist()}, TypeError, "attention_backward: q must be a numpy array, got list"),
    (
        {"grad": GRAD[..., :5]},
        ValueError,
        "attention_backward: grad_context must be (batch=2, heads=4, seq_q=5, v_head_dim=6), got (2, 4, 5, 5)",
    ),
    (
        {"grad": GRAD.astype("f8")},
        TypeError,
        "attention_backward: grad_context must be float32 like q, got float64",
    ),
    (
        {**narrow(BF16)},
        TypeError,
        "attention_backward: grad_context must be bfloat16 like q, got float32",
    ),
    (
        {"grad": None},
        TypeError,
        "attention_backward: grad_context must be a numpy array, got NoneType",
    ),
    (
        {"saved": 3},
        TypeError,
        "attention_backward: saved must be what attention(..., save=True) returned, got int",
    ),
    (
        {"saved": other_saved(), "k": K + 1},
        ValueError,
        "attention_backward: saved belongs to another call: k is not what the forward was given",
    ),
    (
        {"saved": other_saved(causal="lower_right")},
        ValueError,
        "attention_backward: saved belongs to another call: causal is not what the forward was given",
    ),
    (
        {"saved": other_saved(dropout=0.5, seed=1), "dropout": 0.5, "seed": 2},
        ValueError,
        "attention_backward: saved belongs to another call: seed is not what the forward was given",
    ),
    (
        {"saved": other_saved(), "q": Q[:1], "k": K[:1], "v": V[:1], "grad": GRAD[:1]},
        ValueError,
        "attention_backward: saved belongs to another call: q is not what the forward was given",
    ),
    (
        {"dropout": 0.5},
        ValueError,
        "attention_backward: dropout=0.5 needs a seed, got seed=None",
    ),
]


@pytest.mark.parametrize(("given", "error", "text"), BACKWARD, ids=[case[2] for case in BACKWARD])
def test_attention_backward_refuses(given, error, text):
    arguments = {"grad": GRAD, "q": Q, "k": K, "v": V, **given}
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        headwise.attention_backward(
            arguments.pop("grad"), arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments
        )


def test_attention_backward_refuses_a_saved_context_that_was_written_to():
    result = headwise.attention(Q, K, V + 1, save=True)
    result.context[:] += 1
    text = "attention_backward: saved can no longer be used: the context it shares was written to after the forward"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        headwise.attention_backward(GRAD, Q, K, V + 1, saved=result.saved)


def test_more_memory_than_is_free_is_refused_before_anything_is_computed():
    tokens = np.broadcast_to(np.zeros(8, "f4"), (1, 1, 4_000_000, 8))
    with pytest.raises(MemoryError) as raised:
        headwise.attention(tokens, tokens, tokens, return_weights=True)
    assert re.fullmatch(
        r"attention: context, weights need 59604\.8 GiB of memory, \d+\.\d GiB are free", str(raised.value)
    )
