# SPDX-License-Identifier: Apache-2.0
"""The layers: numbers against the reference, gradients against central differences, modes, names and lifetimes."""

import gc

import numpy as np
import pytest
import reference

import headwise

MAKERS = {
    "MultiHeadAttention": lambda **o: headwise.MultiHeadAttention(5, 6, 12, num_heads=3, seed=1, **o),
    "MultiHeadAttention without bias and mask": lambda **o: headwise.MultiHeadAttention(
        5, 6, num_heads=2, causal=False, out_bias=False, qkv_bias=True, seed=2, **o
    ),
    "MultiHeadAttention with shared key heads": lambda **o: headwise.MultiHeadAttention(
        5, 7, num_heads=4, num_kv_heads=2, head_dim=3, init="gpt2", seed=3, **o
    ),
    "MultiHeadAttention without projection": lambda **o: headwise.MultiHeadAttention(
        5, 6, num_heads=3, out_proj=False, init="torch_mha", seed=4, **o
    ),
    "CausalSelfAttention": lambda **o: headwise.CausalSelfAttention(5, 4, qkv_bias=True, seed=5, **o),
    "MultiHeadAttentionWrapper": lambda **o: headwise.MultiHeadAttentionWrapper(5, 4, num_heads=3, seed=6, **o),
    "MultiHeadAttentionWrapper in total": lambda **o: headwise.MultiHeadAttentionWrapper(
        5, 6, num_heads=3, qkv_bias=True, width="total", out_proj=True, seed=7, **o
    ),
    "MultiHeadAttentionLayer": lambda **o: headwise.MultiHeadAttentionLayer(5, 6, 12, o.pop("dropout", 0.0), 2, seed=8),
}


def some(*shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def stacked(layer, part):
    """Weight (rows, d_in) and bias of all heads' queries, keys or values, in float64."""
    found = {name: array.astype("f8") for name, array in layer.parameters().items()}
    names = [n for n in found if n.endswith((f"W_{part}.weight", f"{part}_weight.weight"))]
    weight = np.vstack([found[n] for n in names])
    biases = [found[n.removesuffix("weight") + "bias"] for n in names if n.removesuffix("weight") + "bias" in found]
    return weight, np.concatenate(biases) if biases else np.zeros(len(weight))


def by_head(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def expected_output(layer, x, keys_values=None, **options):
    x = x.astype("f8")
    source = x if keys_values is None else keys_values.astype("f8")
    inputs = []
    for part, tokens, heads in (
        ("query", x, layer.num_heads),
        ("key", source, layer.num_kv_heads),
        ("value", source, layer.num_kv_heads),
    ):
        weight, bias = stacked(layer, part)
        inputs.append(by_head(tokens @ weight.T + bias, heads))
    forward = reference.forward(*inputs, causal=layer.causal, **options)
    out = forward.context.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
    parameters = layer.parameters()
    if "out_proj.weight" in parameters:
        out = out @ parameters["out_proj.weight"].astype("f8").T
    if "out_proj.bias" in parameters:
        out = out + parameters["out_proj.bias"]
    return out, forward.weights


@pytest.mark.parametrize("name", MAKERS)
def test_the_output_matches_the_reference(name):
    layer, x = MAKERS[name](), some(2, 9, 5)
    out = layer(x)
    exact, weights = expected_output(layer, x)
    assert out.shape == (2, 9, layer.d_out)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, exact, rtol=0, atol=2e-6)
    full = layer(x[:, ::-1], return_weights=True, stats=("entropy",))
    np.testing.assert_allclose(full.weights, expected_output(layer, x[:, ::-1])[1], rtol=0, atol=1e-6)
    assert full.stats["entropy"].shape == weights.shape[:3]


@pytest.mark.parametrize("name", MAKERS)
def test_every_option_matches_the_reference(name):
    layer, x, keys_values = MAKERS[name](), some(2, 4, 5), some(2, 7, 5, seed=1)
    options = {
        "mask": some(1, 1, 4, 7, seed=2) > -1,
        "bias": some(4, 7, seed=3),
        "kv_lengths": np.array([7, 5]),
        "query_offset": np.array([3, 1]),
    }
    np.testing.assert_allclose(
        layer(x, keys_values, **options), expected_output(layer, x, keys_values, **options)[0], rtol=0, atol=2e-6
    )


def test_two_readings_of_d_out():
    x = some(1, 3, 5)
    assert headwise.MultiHeadAttentionWrapper(5, 4, num_heads=2)(x).shape == (1, 3, 8)
    assert headwise.MultiHeadAttentionWrapper(5, 4, num_heads=2, width="total")(x).shape == (1, 3, 4)
    assert headwise.MultiHeadAttention(5, 4, num_heads=2)(x).shape == (1, 3, 4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"qkv_bias": True, "num_kv_heads": 1},
        {"causal": False, "out_proj": False},
        {"dropout": 0.5, "head_dim": 3},
    ],
)
def test_gradients_are_central_differences(options):
    options = {"num_heads": 2, "seed": 9, "dtype": "float64", **options}
    x, keys_values = some(2, 3, 3, dtype="f8"), None if options.get("causal", True) else some(2, 5, 3, dtype="f8")
    layer = headwise.MultiHeadAttention(3, 4, **options)
    grad = some(2, 3, 4, dtype="f8", seed=1)
    mask = some(3, 3 if keys_values is None else 5, seed=2) > -1
    weights = layer.state_dict()

    def loss():
        fresh = headwise.MultiHeadAttention(3, 4, **options)  # its first mask is that of the layer's first forward
        fresh.load_state_dict(weights)
        return (grad * fresh(x, keys_values, mask=mask)).sum()

    layer(x, keys_values, mask=mask)
    grads = layer.backward(grad)
    targets = [(x, grads)] if keys_values is None else [(x, grads[0]), (keys_values, grads[1])]
    targets += [(weights[name], gradient) for name, gradient in layer.gradients().items()]
    for array, gradient in targets:
        difference = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            kept = array[index]
            array[index] = kept + 1e-5
            above = loss()
            array[index] = kept - 1e-5
            difference[index] = (above - loss()) / 2e-5
            array[index] = kept
        np.testing.assert_allclose(gradient, difference, rtol=1e-5, atol=1e-8)


def test_gradients_add_up_until_they_are_set_to_zero():
    layer, x = MAKERS["MultiHeadAttention"](), some(2, 9, 5)
    gradients = layer.gradients()
    layer.backward(layer(x))
    once = {name: array.copy() for name, array in gradients.items()}
    layer.backward(layer(x))
    for name, array in gradients.items():
        np.testing.assert_array_equal(array, 2 * once[name])
    layer.zero_grad()
    assert not any(array.any() for array in gradients.values())


def test_backward_once_for_each_forward_in_training():
    layer, x = MAKERS["MultiHeadAttention"](), some(2, 9, 5)
    again = "^MultiHeadAttention.backward: needs a forward in training mode, once for each backward$"
    with pytest.raises(RuntimeError, match=again):
        layer.backward(some(2, 9, 6))
    layer(x)
    with pytest.raises(ValueError, match=r"grad_out must be \(batch=2, seq=9, d_out=6\), got \(2, 9, 5\)"):
        layer.backward(some(2, 9, 5))
    layer.backward(some(2, 9, 6))
    with pytest.raises(RuntimeError, match=again):
        layer.backward(some(2, 9, 6))
    layer.eval()(x)
    with pytest.raises(
        RuntimeError,
        match=r"^MultiHeadAttention.backward: the layer is in eval mode; call train\(\) before the forward$",
    ):
        layer.backward(some(2, 9, 6))


def test_backward_uses_the_mask_of_the_forward_even_if_it_is_changed():
    layer, x, mask = MAKERS["MultiHeadAttentionLayer"](), some(1, 4, 5), np.tri(4, dtype=bool)
    layer(x, mask=mask)
    expected = layer.backward(some(1, 4, 6))
    layer(x, mask=mask)
    mask[:] = True
    x[:] = 0
    np.testing.assert_array_equal(layer.backward(some(1, 4, 6)), expected)


@pytest.mark.parametrize("name", MAKERS)
def test_dropout_draws_anew_in_training_and_rests_in_eval(name):
    layer, twin, x = MAKERS[name](dropout=0.5), MAKERS[name](dropout=0.5), some(2, 9, 5)
    first, second = layer(x), layer(x)
    assert (first != second).any()
    assert first.tobytes() == twin(x).tobytes()
    assert second.tobytes() == twin(x).tobytes()
    layer.eval()
    assert layer(x).tobytes() == layer(x).tobytes() == MAKERS[name]()(x).tobytes()
    assert layer.train()(x).tobytes() == twin(x).tobytes()


def test_layers_start_in_training_and_train_and_eval_give_the_layer():
    layer = MAKERS["MultiHeadAttention"]()
    assert layer.training
    assert layer.eval() is layer
    assert not layer.training
    assert layer.train() is layer
    assert layer.train(False) is layer
    assert not layer.training


def test_parameters_are_the_layers_own_storage():
    layer, x = MAKERS["MultiHeadAttentionWrapper"](), some(2, 9, 5)
    layer.parameters()["heads.1.W_value.weight"][:] = 0
    out = layer(x)
    assert not out[..., 4:8].any()
    assert out[..., :4].any()
    heads = [layer.parameters()[f"heads.{i}.W_query.weight"] for i in range(3)]
    addresses = [head.__array_interface__["data"][0] for head in heads]
    assert addresses[1] - addresses[0] == addresses[2] - addresses[1] == heads[0].nbytes


def test_parameters_outlive_their_layer():
    layer = MAKERS["MultiHeadAttention"]()
    weight, gradient = layer.parameters()["W_query.weight"], layer.gradients()["W_query.weight"]
    values = weight.copy()
    del layer
    gc.collect()
    some(1000, 1000)
    np.testing.assert_array_equal(weight, values)
    weight += 1
    gradient += 1
    assert (gradient == 1).all()


def test_freeze_makes_the_parameters_read_only():
    layer, x = MAKERS["MultiHeadAttention"](), some(2, 9, 5)
    weight, before = layer.parameters()["W_query.weight"], layer(x)
    assert layer.freeze() is layer
    assert layer.frozen
    with pytest.raises(ValueError, match="read-only"):
        weight[:] = 0
    with pytest.raises(ValueError, match="read-only"):
        layer.parameters()["out_proj.bias"][:] = 0
    with pytest.raises(RuntimeError, match=r"^MultiHeadAttention.load_state_dict: the layer is frozen$"):
        layer.load_state_dict(layer.state_dict())
    assert layer(x).tobytes() == before.tobytes()


def test_state_dict_is_a_copy_and_loads_back():
    layer, other = MAKERS["MultiHeadAttention"](), headwise.MultiHeadAttention(5, 6, 12, num_heads=3, seed=99)
    state = layer.state_dict()
    state["W_query.weight"][:] += 1
    assert (layer.parameters()["W_query.weight"] != state["W_query.weight"]).all()
    state = {name: np.asfortranarray(array) for name, array in layer.state_dict().items()}
    other.load_state_dict({**state, "mask": np.triu(np.ones((12, 12), "f4"), 1)})
    assert other(some(1, 3, 5)).tobytes() == layer(some(1, 3, 5)).tobytes()


def test_load_state_dict_writes_nothing_unless_everything_fits():
    layer = MAKERS["MultiHeadAttention"]()
    before, state = layer.state_dict(), layer.state_dict()
    state["W_query.weight"][:] = 0
    state["extra"] = state.pop("out_proj.bias")
    with pytest.raises(ValueError, match=r"^MultiHeadAttention.load: missing out_proj.bias; unexpected extra$"):
        layer.load_state_dict(state)
    state["out_proj.bias"] = state.pop("extra")[:5]
    with pytest.raises(ValueError, match=r"^MultiHeadAttention.load: out_proj.bias must be \(d_out=6,\), got \(5,\)$"):
        layer.load_state_dict(state)
    with pytest.raises(TypeError, match=r"^MultiHeadAttention.load_state_dict: out_proj.bias must be a numpy array"):
        layer.load_state_dict({**before, "out_proj.bias": [0.0] * 6})
    for name, array in layer.parameters().items():
        np.testing.assert_array_equal(array, before[name])


def test_wrapper_and_weight_split_layer_turn_into_each_other_bit_for_bit():
    x = some(2, 9, 5)
    for name in ("MultiHeadAttentionWrapper", "MultiHeadAttentionWrapper in total"):
        wrapper = MAKERS[name]()
        fused = wrapper.fuse()
        assert isinstance(fused, headwise.MultiHeadAttention)
        again = fused.split()
        assert isinstance(again, headwise.MultiHeadAttentionWrapper)
        out = wrapper(x)
        assert fused(x).tobytes() == again(x).tobytes() == out.tobytes()
        grads = [layer.backward(out) for layer in (wrapper, fused, again)]
        assert grads[0].tobytes() == grads[1].tobytes() == grads[2].tobytes()
        assert all(
            (a == b).all() for a, b in zip(wrapper.parameters().values(), again.parameters().values(), strict=False)
        )


@pytest.mark.parametrize("name", MAKERS)
def test_a_saved_layer_loads_as_itself(name, tmp_path):
    layer, x = MAKERS[name](), some(2, 9, 5)
    path = tmp_path / "layer.safetensors"
    layer.save(path)
    loaded = headwise.load(path)
    assert type(loaded) is type(layer)
    assert repr(loaded) == repr(layer)
    assert loaded.seed == layer.seed
    assert loaded(x).tobytes() == layer(x).tobytes()
    assert [p.name for p in tmp_path.iterdir()] == ["layer.safetensors"]


def test_load_widens_to_float64_when_asked(tmp_path):
    layer = MAKERS["MultiHeadAttention"]()
    layer.save(str(tmp_path / "a.safetensors"))
    wide = headwise.load(tmp_path / "a.safetensors", dtype=np.float64)
    assert wide.dtype == "float64"
    np.testing.assert_array_equal(wide.parameters()["W_key.weight"], layer.parameters()["W_key.weight"].astype("f8"))


def test_repr_and_facts():
    layer = headwise.MultiHeadAttention(768, 768, 1024, 0.1, 12, seed=5)
    assert repr(layer) == (
        "MultiHeadAttention(d_in=768, d_out=768, num_heads=12, head_dim=64, context_length=1024, dropout=0.1, "
        "causal=True, dtype=float32, parameters=2360064)"
    )
    assert (layer.seed, layer.parameter_count) == (5, 2_360_064)
    assert headwise.MultiHeadAttention(768, 768, num_heads=12, qkv_bias=True).parameter_count == 2_362_368
    assert headwise.MultiHeadAttention(8, 8).seed != headwise.MultiHeadAttention(8, 8).seed


def test_zero_tokens_and_zero_sequences():
    layer = MAKERS["MultiHeadAttention"]()
    for shape in ((0, 4, 5), (2, 0, 5)):
        out = layer(np.zeros(shape, "f4"))
        assert out.shape == (*shape[:2], 6)
        assert layer.backward(out).shape == shape
