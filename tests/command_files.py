# SPDX-License-Identifier: Apache-2.0
"""Files for tests of the command, written without headwise: safetensors by hand, arrays by numpy."""

import json
import struct

import numpy as np

TYPES = {"float32": "F32", "float64": "F64"}


def write_safetensors(path, arrays, metadata=None):
    header, data = {"__metadata__": metadata or {}}, b""
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": TYPES[str(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_layer(path, d_in=6, d_out=8, num_heads=2, causal=True, dtype="float32"):
    """A MultiHeadAttention with random weights, which are returned by name."""
    rng = np.random.default_rng(1)

    def draw(*shape):
        return (rng.standard_normal(shape) / np.sqrt(d_in)).astype(dtype)

    weights = {f"W_{name}.weight": draw(d_out, d_in) for name in ("query", "key", "value")}
    weights |= {"out_proj.weight": draw(d_out, d_out), "out_proj.bias": draw(d_out)}
    facts = {"kind": "MultiHeadAttention", "num_heads": str(num_heads), "causal": str(causal).lower(), "dropout": "0.1"}
    write_safetensors(path, weights, {"format": "headwise-layer", "version": "1", **facts})
    return weights


CONFIG = {
    "model_type": "bert",
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_size": 8,
    "intermediate_size": 12,
    "vocab_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}


def write_encoder(folder):
    """A BERT of two layers in a new folder."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    rng = np.random.default_rng(2)
    hidden, wide = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (CONFIG["vocab_size"], hidden),
        "embeddings.position_embeddings.weight": (CONFIG["max_position_embeddings"], hidden),
        "embeddings.token_type_embeddings.weight": (CONFIG["type_vocab_size"], hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    for layer in range(CONFIG["num_hidden_layers"]):
        start = f"encoder.layer.{layer}."
        parts = {f"attention.self.{name}": (hidden, hidden) for name in ("query", "key", "value")}
        parts |= {"attention.output.dense": (hidden, hidden), "attention.output.LayerNorm": (hidden,)}
        parts |= {
            "intermediate.dense": (wide, hidden),
            "output.dense": (hidden, wide),
            "output.LayerNorm": (hidden,),
        }
        for name, shape in parts.items():
            shapes[f"{start}{name}.weight"] = shape
            shapes[f"{start}{name}.bias"] = shape[:1]
    arrays = {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    write_safetensors(folder / "model.safetensors", arrays)
    return folder


def write_llama(folder):
    """The attention of a Llama's only layer in a new folder: rotary positions with a scaling, no window."""
    folder.mkdir()
    scaling = {"rope_type": "linear", "factor": 2.0}
    config = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2}
    config |= {"hidden_size": 16, "rope_theta": 500000.0, "rope_scaling": scaling}
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(5)
    shapes = {"q_proj": (16, 16), "k_proj": (8, 16), "v_proj": (8, 16), "o_proj": (16, 16)}
    start = "model.layers.0.self_attn."
    arrays = {f"{start}{name}.weight": rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    write_safetensors(folder / "model.safetensors", arrays)
    return folder


def attention(x, weights, num_heads, causal=True):
    """The layer in float64 numpy: (out, weights)."""
    batch, seq, _ = x.shape
    projected = [x.astype("float64") @ weights[f"W_{name}.weight"].T for name in ("query", "key", "value")]
    queries, keys, values = (part.reshape(batch, seq, num_heads, -1).swapaxes(1, 2) for part in projected)
    scores = queries @ keys.swapaxes(2, 3) / np.sqrt(queries.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones((seq, seq), dtype=bool)), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    context = (shares @ values).swapaxes(1, 2).reshape(batch, seq, -1)
    return context @ weights["out_proj.weight"].T + weights["out_proj.bias"], shares
