# SPDX-License-Identifier: Apache-2.0
"""Attention layers on numpy arrays: names and defaults of the constructors, and loading."""

from __future__ import annotations

from . import _headwise
from ._attention_layer import AttentionLayer, _dtype_name, _path_bytes


class MultiHeadAttention(AttentionLayer):
    """The weight-split layer: one projection each for queries, keys and values, cut into heads, merged, projected.

    Parameters: W_query.weight (heads * head_dim, d_in), W_key.weight and W_value.weight (kv_heads * head_dim, d_in),
    with qkv_bias also .bias; out_proj.weight (d_out, heads * head_dim) and out_proj.bias (d_out,).

    Args:
        d_in, d_out: widths of x and of the output, over all heads.
        context_length: a longer x is an error; None: no limit.
        dropout: probability that a weight is dropped in training; each forward draws another mask.
        num_heads: divides d_out, unless head_dim is given.
        qkv_bias, out_proj, out_bias: which parts there are.
        causal: False for an encoder.
        num_kv_heads: fewer heads for keys and values; divides num_heads.
        head_dim: width of one head, d_out // num_heads unless given; free only with out_proj.
        init: "torch_linear" (equal to torch.manual_seed(seed) and the book's class), "torch_mha" or "gpt2".
        seed: of the initial weights and of dropout; a fresh one unless given.
        dtype: "float32" or "float64"; layers hold no 16-bit numbers.
    """

    def __init__(
        self,
        d_in,
        d_out,
        context_length=None,
        dropout=0.0,
        num_heads=1,
        qkv_bias=False,
        *,
        causal=True,
        out_proj=True,
        out_bias=True,
        num_kv_heads=None,
        head_dim=None,
        init="torch_linear",
        seed=None,
        dtype="float32",
    ):
        super().__init__(
            _headwise.multi_head_attention(
                d_in,
                d_out,
                context_length,
                dropout,
                num_heads,
                qkv_bias,
                causal,
                out_proj,
                out_bias,
                num_kv_heads,
                head_dim,
                init,
                seed,
                _dtype_name(dtype),
            )
        )

    def split(self):
        """The same weights as a `MultiHeadAttentionWrapper`: equal outputs, bit for bit."""
        return MultiHeadAttentionWrapper._around(self._layer.split())


class CausalSelfAttention(AttentionLayer):
    """One causal head. Parameters: W_query.weight, W_key.weight, W_value.weight, each (d_out, d_in), with qkv_bias also
    .bias. x (batch, seq, d_in) -> (batch, seq, d_out)."""

    def __init__(self, d_in, d_out, context_length=None, dropout=0.0, qkv_bias=False, *, seed=None):
        super().__init__(_headwise.causal_self_attention(d_in, d_out, context_length, dropout, qkv_bias, seed))


class MultiHeadAttentionWrapper(AttentionLayer):
    """Causal heads side by side, their outputs concatenated; stacked storage, so H heads cost what the weight-split
    layer costs. The outputs are those of H `CausalSelfAttention` objects, bit for bit.

    Parameters: heads.{i}.W_query.weight, heads.{i}.W_key.weight, heads.{i}.W_value.weight, each (head_dim, d_in), with
    qkv_bias also .bias; with out_proj also out_proj.weight and out_proj.bias.

    Args:
        width: "per_head": d_out counts one head, and the output is (batch, seq, num_heads * d_out); "total": d_out
            counts all heads, each has d_out // num_heads, and the output is (batch, seq, d_out).
        out_proj: a projection over the concatenated heads.
    """

    def __init__(
        self,
        d_in,
        d_out,
        context_length=None,
        dropout=0.0,
        num_heads=1,
        qkv_bias=False,
        *,
        width="per_head",
        out_proj=False,
        seed=None,
    ):
        super().__init__(
            _headwise.multi_head_attention_wrapper(
                d_in, d_out, context_length, dropout, num_heads, qkv_bias, width, out_proj, seed
            )
        )

    def fuse(self):
        """The weight-split layer of the same weights: equal outputs, bit for bit."""
        return MultiHeadAttention._around(self._layer.fuse())

    def head(self, index):
        """A copy of one head as a `CausalSelfAttention`."""
        return CausalSelfAttention._around(self._layer.head(index))


class MultiHeadAttentionLayer(AttentionLayer):
    """The weight-split layer without an output projection, and without a mask unless one is asked for.

    Parameters: query_weight.weight, key_weight.weight, value_weight.weight, each (d_out, d_in), with use_bias also
    .bias. x (batch, seq, d_in) -> (batch, seq, d_out), head_dim = d_out // num_heads.
    """

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, use_bias=False, *, causal=False, seed=None):
        super().__init__(
            _headwise.multi_head_attention_layer(
                d_in, d_out, context_length, dropout, num_heads, use_bias, causal, seed
            )
        )


def load(
    path,
    num_heads=None,
    *,
    layer=None,
    family=None,
    layout=None,
    kind=None,
    causal=None,
    dropout=None,
    context_length=None,
    seed=None,
    dtype=None,
):
    """An attention layer from a safetensors file: as `save` wrote it, as somebody's state_dict, or out of a model.

    Known are the names and layouts of these classes, of the book's other ones, nn.MultiheadAttention, GPT-2, nanoGPT,
    BERT, RoBERTa, DistilBERT, ALBERT, Llama, Mistral, Qwen, ViT, DINOv2 and timm. What a file leaves open comes from
    config.json beside it or from the call, never from a guess. float16 and bfloat16 widen exactly.

    Args:
        path: the file, a model.safetensors.index.json, or a folder with one of them.
        layer: which one, where there are several: its number, or its name (`headwise inspect` lists both).
        family: whose names the file has, where they fit several: "gpt2", "bert", "llama", "torch", ...
        layout: how the weights lie: "separate", "separate_in_out", "per_head", "qkv_rows" or "qkv_columns".
        num_heads, causal: needed where nothing stores them; one that differs from a stored one is an error.
        dropout: needed where a file of these classes does not store it; 0 in others where nothing says it.
        kind: the class's name, where the names of the tensors leave it open.
        context_length: no limit where it is neither stored nor given.
        seed: of the dropout masks.
        dtype: "float64" widens a float32 file; the file's own type unless given.

    Raises:
        FileNotFoundError; ValueError that names the file and what is wrong in it, or the fact that is missing, or the
        layers or families to choose from.
    """
    layer = _headwise.load_layer(
        _path_bytes("load", path),
        kind,
        num_heads,
        causal,
        dropout,
        context_length,
        seed,
        _dtype_name(dtype),
        layer,
        family,
        layout,
    )
    return _CLASSES[layer.kind]._around(layer)


_CLASSES = {
    made.__name__: made
    for made in (MultiHeadAttention, CausalSelfAttention, MultiHeadAttentionWrapper, MultiHeadAttentionLayer)
}
