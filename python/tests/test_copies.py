# SPDX-License-Identifier: Apache-2.0
"""Layers and caches are copied and pickled with everything that decides what they give next."""

import copy
import pickle

import numpy as np
import pytest

import headwise

WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda it, n=n: pickle.loads(pickle.dumps(it, n)) for n in range(2, pickle.HIGHEST_PROTOCOL + 1)},
}
MAKERS = {
    "MultiHeadAttention": lambda: headwise.MultiHeadAttention(5, 6, 20, 0.3, 2, True, seed=3),
    "grouped": lambda: headwise.MultiHeadAttention(
        5, 6, dropout=0.25, num_heads=4, num_kv_heads=2, head_dim=3, causal=False, out_bias=False, seed=4
    ),
    "float64": lambda: headwise.MultiHeadAttention(5, 6, dropout=0.1, num_heads=3, dtype="float64", seed=5),
    "CausalSelfAttention": lambda: headwise.CausalSelfAttention(5, 6, 20, 0.3, seed=6),
    "MultiHeadAttentionWrapper": lambda: headwise.MultiHeadAttentionWrapper(5, 3, 20, 0.3, 2, out_proj=True, seed=7),
    "MultiHeadAttentionLayer": lambda: headwise.MultiHeadAttentionLayer(5, 6, None, 0.3, 2, True, seed=8),
}
both = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
each = pytest.mark.parametrize("name", MAKERS)


def some(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def same_arrays(a, b):
    return a.keys() == b.keys() and all(a[name].tobytes() == b[name].tobytes() for name in a)


@both
@each
def test_a_copy_goes_on_as_the_layer_does(way, name):
    layer = MAKERS[name]()
    x = some(2, 7, 5, dtype=layer.dtype)
    for _ in range(3):  # three masks drawn, gradients added
        layer.backward(layer(x))
    twin = way(layer)
    assert type(twin) is type(layer)
    assert repr(twin) == repr(layer)
    assert (twin.seed, twin.training, twin.frozen) == (layer.seed, True, False)
    assert same_arrays(twin.parameters(), layer.parameters())
    assert same_arrays(twin.gradients(), layer.gradients())
    assert any(array.any() for array in layer.gradients().values())
    first = layer(x)
    assert twin(x).tobytes() == first.tobytes()  # the next mask, and the one behind it
    out = layer(x)
    assert twin(x).tobytes() == out.tobytes()
    assert first.tobytes() != out.tobytes()
    assert layer.backward(out).tobytes() == twin.backward(out).tobytes()
    assert same_arrays(twin.gradients(), layer.gradients())
    assert twin.eval()(x).tobytes() == layer.eval()(x).tobytes()


@both
@each
def test_a_copy_has_storage_of_its_own(way, name):
    layer = MAKERS[name]()
    before = layer.state_dict()
    twin = way(layer)
    for array in twin.parameters().values():
        array[...] = 0
    for array in twin.gradients().values():
        array[...] = 1
    assert same_arrays(layer.parameters(), before)
    assert not any(array.any() for array in layer.gradients().values())


@both
def test_mode_and_freezing_are_kept(way):
    layer = MAKERS["MultiHeadAttention"]().eval().freeze()
    twin = way(layer)
    assert (twin.training, twin.frozen) == (False, True)
    with pytest.raises(ValueError, match="read-only"):
        twin.parameters()["W_query.weight"][0, 0] = 1
    with pytest.raises(RuntimeError, match="frozen"):
        twin.load_state_dict(layer.state_dict())


@both
def test_what_a_forward_keeps_for_backward_is_not_copied(way):
    layer = MAKERS["MultiHeadAttention"]()
    out = layer(some(1, 3, 5))
    with pytest.raises(RuntimeError, match="needs a forward in training mode"):
        way(layer).backward(out)


@both
def test_numbers_that_are_none_and_attributes_of_subclasses_are_kept(way):
    layer = Named(4, 4, num_heads=2, seed=1)
    layer.name, layer.notes = "first", [1]
    layer.parameters()["W_key.weight"][0, :3] = np.nan, np.inf, -0.0
    twin = way(layer)
    assert type(twin) is Named
    assert (twin.name, twin.notes) == ("first", [1])
    assert same_arrays(twin.parameters(), layer.parameters())


class Named(headwise.MultiHeadAttention):
    """A layer that carries more than headwise knows."""


@both
def test_a_layer_of_a_model_keeps_rotary_positions_and_window(way, tmp_path):
    layer = rotary_layer(tmp_path)
    twin = way(layer)
    assert (twin.rotary, twin.window_left) == (layer.rotary, 3)
    x = some(1, 9, 8)
    assert twin(x).tobytes() == layer(x).tobytes()


def rotary_layer(folder):
    import json
    import struct

    names = ["q_proj", "k_proj", "v_proj", "o_proj"]
    header = {
        f"model.layers.0.self_attn.{name}.weight": {
            "dtype": "F32",
            "shape": [8, 8],
            "data_offsets": [256 * i, 256 * i + 256],
        }
        for i, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + some(4, 8, 8).tobytes())
    config = {"model_type": "mistral", "num_attention_heads": 2, "sliding_window": 4}
    (folder / "config.json").write_text(json.dumps(config))
    return headwise.load(folder)


def test_a_state_that_is_none_is_refused():
    layer = MAKERS["MultiHeadAttention"]()
    state = layer.__getstate__()
    for wrong in (None, {}, {**state, "version": 2}):
        version = None if not wrong else 2
        with pytest.raises(ValueError, match=f"^MultiHeadAttention: the pickled state has version {version}, "):
            headwise.MultiHeadAttention.__new__(headwise.MultiHeadAttention).__setstate__(wrong)
    with pytest.raises(ValueError, match=r"^pickled layer: file has 3 bytes"):
        layer.__setstate__({**state, "layer": b"abc"})


@both
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_a_copy_of_a_cache_goes_on_as_the_cache_does(way, dtype):
    kind = dtype
    if dtype == "bfloat16":
        kind = pytest.importorskip("ml_dtypes").bfloat16
    cache = headwise.KvCache(2, 2, 300, 8, 5, dtype=dtype)
    counts = np.array([270, 3])
    cache.append(some(2, 2, 270, 8, dtype=kind), some(2, 2, 270, 5, dtype=kind, seed=1), counts)
    twin = way(cache)
    assert repr(twin) == repr(cache)
    assert list(twin.lengths) == [270, 3]
    for turn in range(2):
        q = some(2, 4, 1, 8, dtype=kind, seed=2)
        assert cache.attend(q).tobytes() == twin.attend(q).tobytes()
        more = some(2, 2, 1, 8, dtype=kind, seed=turn), some(2, 2, 1, 5, dtype=kind, seed=turn)
        cache.append(*more)
        twin.append(*more)
    twin.reset()
    assert list(cache.lengths) == [272, 5]
    assert list(way(twin).lengths) == [0, 0]
