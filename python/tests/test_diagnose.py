# SPDX-License-Identifier: Apache-2.0
"""A wrong output by numpy is named; a right one, in another precision too, is not."""

import numpy as np
import pytest

import headwise


def attend(layer, x, *, causal=True, scale=None, straight=False):
    """The layer in plain numpy, float64."""
    weights = {name: array.astype("float64") for name, array in layer.state_dict().items()}
    batch, seq, _ = x.shape
    heads, width = layer.num_heads, layer.head_dim

    def split(name):
        part = x @ weights[f"W_{name}.weight"].T
        if straight:
            return part.reshape(batch, heads, seq, width)
        return part.reshape(batch, seq, heads, width).transpose(0, 2, 1, 3)

    q, k, v = split("query"), split("key"), split("value")
    scores = q @ k.transpose(0, 1, 3, 2) * (width**-0.5 if scale is None else scale)
    if causal:
        scores = np.where(np.tri(seq, dtype=bool), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    context = shares / shares.sum(-1, keepdims=True) @ v
    merged = context.reshape(batch, seq, -1) if straight else context.transpose(0, 2, 1, 3).reshape(batch, seq, -1)
    return merged @ weights["out_proj.weight"].T + weights["out_proj.bias"]


@pytest.fixture(params=[1, 2, 3])
def problem(request):
    layer = headwise.MultiHeadAttention(8, 12, num_heads=3, seed=request.param).eval()
    x = 3 * np.random.default_rng(request.param).standard_normal((2, 6, 8), dtype=np.float32)
    return layer, x


def test_a_right_output_is_right_in_every_precision(problem):
    layer, x = problem
    plain = attend(layer, x)
    for got in (layer(x), plain, plain.astype("float32"), plain.astype("float16").astype("float32")):
        found = headwise.diagnose(layer, x, got)
        assert (found.verdict, found.names) == ("right", ())


def test_wrong_outputs_are_named(problem):
    layer, x = problem
    for name, options in {
        "no_mask": {"causal": False},
        "scale_by_d_out": {"scale": 12**-0.5},
        "view_without_transpose": {"straight": True},
    }.items():
        found = headwise.diagnose(layer, x, attend(layer, x, **options))
        assert (found.verdict, found.names) == ("mistake", (name,))
        assert found.mistakes[0].name == name
        assert found.mistakes[0].distance < 1e-5 < found.right


def test_noise_fits_nothing(problem):
    layer, x = problem
    got = np.random.default_rng(9).standard_normal((2, 6, 12))
    assert headwise.diagnose(layer, x, got).verdict == "none"


def test_wrong_calls_are_refused(problem):
    layer, x = problem
    with pytest.raises(TypeError, match=r"^diagnose: layer must be a layer of headwise, got str$"):
        headwise.diagnose("layer", x, x)
    with pytest.raises(ValueError, match=r"^diagnose: got must be \(batch=2, seq, d_out=12\), got \(2, 6, 8\)$"):
        headwise.diagnose(layer, x, x)
