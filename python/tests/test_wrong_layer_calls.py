# SPDX-License-Identifier: Apache-2.0
"""Every wrong construction and call of a layer is refused with one text, compared whole."""

import re

import numpy as np
import pytest

import headwise

X = np.zeros((2, 5, 3), "f4")
MHA = "MultiHeadAttention"


def layer():
    return headwise.MultiHeadAttention(3, 4, 6, num_heads=2)


CONSTRUCTION = [
    (
        lambda: headwise.MultiHeadAttention(3, 10, num_heads=3),
        ValueError,
        f"{MHA}: d_out=10 is not divisible by num_heads=3; nearest valid num_heads: 2, 5",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, num_heads=4, num_kv_heads=3),
        ValueError,
        f"{MHA}: num_heads=4 is not divisible by num_kv_heads=3; nearest valid num_kv_heads: 2, 4",
    ),
    (
        lambda: headwise.MultiHeadAttention(0, 4),
        ValueError,
        f"{MHA}: d_in must be at least 1, got 0",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 2**30),
        ValueError,
        f"{MHA}: d_out must be at most 16777216, got 1073741824",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4.0),
        TypeError,
        f"{MHA}: d_out must be an integer, got float",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, num_heads=True),
        TypeError,
        f"{MHA}: num_heads must be an integer, got bool",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, 6, 1.0),
        ValueError,
        f"{MHA}: dropout must be in [0, 1), got 1",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, 6, 0.1, 2, 1),
        TypeError,
        f"{MHA}: qkv_bias must be True or False, got int",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, head_dim=3, out_proj=False),
        ValueError,
        f"{MHA}: without out_proj d_out must be num_heads * head_dim = 1 * 3 = 3, got 4",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, init="xavier"),
        ValueError,
        f'{MHA}: init must be one of "torch_linear", "torch_mha", "gpt2", got "xavier"',
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, init=None),
        TypeError,
        f"{MHA}: init must be a str, got NoneType",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, seed=-1),
        ValueError,
        f"{MHA}: seed must be in 0..2**64-1, got -1",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, dtype=np.float16),
        TypeError,
        f"{MHA}: dtype must be float32 or float64, got float16",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, dtype="int32"),
        TypeError,
        f"{MHA}: dtype must be float32 or float64, got int32",
    ),
    (
        lambda: headwise.CausalSelfAttention(3, 4, 0),
        ValueError,
        "CausalSelfAttention: context_length must be at least 1, got 0",
    ),
    (
        lambda: headwise.MultiHeadAttentionWrapper(3, 4, num_heads=3, width="total"),
        ValueError,
        "MultiHeadAttentionWrapper: d_out=4 is not divisible by num_heads=3; nearest valid num_heads: 2, 4",
    ),
    (
        lambda: headwise.MultiHeadAttentionWrapper(3, 4, width="each"),
        ValueError,
        'MultiHeadAttentionWrapper: width must be "per_head" or "total", got "each"',
    ),
    (
        lambda: headwise.MultiHeadAttentionLayer(3, 4, None, 0.0, "2"),
        TypeError,
        "MultiHeadAttentionLayer: num_heads must be an integer, got str",
    ),
]


@pytest.mark.parametrize(("make", "error", "text"), CONSTRUCTION, ids=[case[2] for case in CONSTRUCTION])
def test_a_wrong_construction_is_refused(make, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        make()


def test_weights_beyond_the_free_memory_are_refused():
    with pytest.raises(MemoryError) as raised:
        headwise.MultiHeadAttention(2**24, 2**24)
    assert re.fullmatch(
        r"MultiHeadAttention: the weights and their gradients need 8388608\.0 GiB of memory, \d+\.\d GiB are free",
        str(raised.value),
    )


CALLS = [
    (lambda: layer()(X.tolist()), TypeError, f"{MHA}: x must be a numpy array, got list"),
    (lambda: layer()(None), TypeError, f"{MHA}: x must be a numpy array, got NoneType"),
    (
        lambda: layer()(X.astype("f8")),
        TypeError,
        f"{MHA}: x must be float32 like the weights, got float64",
    ),
    (
        lambda: layer()(X.astype("f2")),
        TypeError,
        f"{MHA}: x must be float32 like the weights, got float16",
    ),
    (lambda: layer()(X[0]), ValueError, f"{MHA}: x must be (batch, seq, d_in=3), got (5, 3)"),
    (
        lambda: layer()(X[..., :2]),
        ValueError,
        f"{MHA}: x must be (batch, seq, d_in=3), got (2, 5, 2)",
    ),
    (
        lambda: layer()(np.zeros((1, 7, 3), "f4")),
        ValueError,
        f"{MHA}: x has seq=7 tokens, above context_length=6",
    ),
    (
        lambda: layer()(X, X[:1]),
        ValueError,
        f"{MHA}: keys_values must be (batch=2, seq_kv, d_in=3), got (1, 5, 3)",
    ),
    (
        lambda: layer()(X, mask=np.ones((5, 5))),
        TypeError,
        f"{MHA}: mask must be bool (True = attend), got float64",
    ),
    (
        lambda: layer()(X, mask=np.ones((4, 5), bool)),
        ValueError,
        f"{MHA}: mask must be (seq_q=5, seq_kv=5), got (4, 5)",
    ),
    (
        lambda: layer()(X, bias=np.zeros((5, 5))),
        TypeError,
        f"{MHA}: bias must be float32 like the weights, got float64",
    ),
    (
        lambda: layer()(X, kv_lengths=np.array([1, 6])),
        ValueError,
        f"{MHA}: kv_lengths must be in 0..seq_kv=5, got 6 at batch entry 1",
    ),
    (
        lambda: layer()(X, X[:, :4]),
        ValueError,
        f"{MHA}: causal=True needs seq_q == seq_kv or query_offset, got seq_q=5 and seq_kv=4",
    ),
    (
        lambda: headwise.MultiHeadAttention(3, 4, causal=False)(X, X[:, :4], stats=True),
        ValueError,
        f'{MHA}: stats "distance" needs seq_q == seq_kv or query_offset, got seq_q=5 and seq_kv=4',
    ),
    (
        lambda: layer()(X, stats="all"),
        TypeError,
        f"{MHA}: stats must be True or a tuple of names, got str",
    ),
    (
        lambda: layer()(X, return_weights="yes"),
        ValueError,
        f'{MHA}: return_weights must be False, True or "after_dropout", got "yes"',
    ),
    (
        lambda: headwise.MultiHeadAttention(4, 4, num_heads=2, num_kv_heads=1).split(),
        ValueError,
        f"{MHA}.split: needs num_kv_heads == num_heads, got num_kv_heads=1 and num_heads=2",
    ),
    (
        lambda: headwise.MultiHeadAttentionWrapper(4, 4, num_heads=2).head(2),
        ValueError,
        "MultiHeadAttentionWrapper.head: index must be in 0..1, got 2",
    ),
    (
        lambda: layer().save(3),
        TypeError,
        "MultiHeadAttention.save: path must be a str or a path, got int",
    ),
    (
        lambda: layer().save("x.npy"),
        ValueError,
        "MultiHeadAttention.save: path must end in .safetensors, got 'x.npy'",
    ),
    (
        lambda: layer().save(""),
        ValueError,
        "MultiHeadAttention.save: path must end in .safetensors, got ''",
    ),
    (
        lambda: layer().save("absent/x.safetensors"),
        FileNotFoundError,
        "[Errno 2] cannot be created: No such file or directory: 'absent/x.safetensors'",
    ),
    (
        lambda: layer().save("a\0.safetensors"),
        ValueError,
        "MultiHeadAttention.save: path must not hold a null byte, got 'a\\x00.safetensors'",
    ),
    (lambda: headwise.load("a\0b"), ValueError, "load: path must not hold a null byte, got 'a\\x00b'"),
    (lambda: headwise.load(None), TypeError, "load: path must be a str or a path, got NoneType"),
    (
        lambda: headwise.load("x", 2, kind="Attention"),
        ValueError,
        "load: kind must be one of MultiHeadAttention, CausalSelfAttention, MultiHeadAttentionWrapper, "
        "MultiHeadAttentionLayer, got 'Attention'",
    ),
    (lambda: headwise.load("absent.safetensors"), FileNotFoundError, "[Errno 2] no such file: 'absent.safetensors'"),
]


@pytest.mark.parametrize(("call", "error", "text"), CALLS, ids=[case[2] for case in CALLS])
def test_a_wrong_call_is_refused(call, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()


def test_load_asks_for_what_the_file_does_not_store(tmp_path):
    path = tmp_path / "bare.safetensors"
    path.write_bytes(bare_file())
    with pytest.raises(ValueError, match="num_heads"):
        headwise.load(path)
    loaded = headwise.load(path, 2, kind="MultiHeadAttention", causal=True, dropout=0.0)
    assert loaded.num_heads == 2


def bare_file():
    """A state_dict of MultiHeadAttention(2, 2) without metadata."""
    import json

    names = ["W_query.weight", "W_key.weight", "W_value.weight", "out_proj.weight"]
    header = {
        name: {"dtype": "F32", "shape": [2, 2], "data_offsets": [16 * i, 16 * i + 16]} for i, name in enumerate(names)
    }
    header["out_proj.bias"] = {"dtype": "F32", "shape": [2], "data_offsets": [64, 72]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + np.ones(18, "<f4").tobytes()
