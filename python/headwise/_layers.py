# SPDX-License-Identifier: Apache-2.0
"""Attention layers on numpy arrays: names and defaults of the constructors, and what all layers share."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy

from . import _headwise


class LayerResult(NamedTuple):
    """What a layer gives when more than its output is asked for; None where a part was not.

    out: (batch, seq_q, d_out). weights: (batch, heads, seq_q, seq_kv). stats: as in `AttentionResult`.
    """

    out: object
    weights: object = None
    stats: object = None


class AttentionLayer:
    """What every layer can do. It starts in training mode; `eval()` turns dropout off and keeps nothing."""

    def __init__(self, layer):
        self._layer = layer
        self._parameters = layer.parameters()
        self._gradients = layer.gradients()

    @classmethod
    def _around(cls, layer):
        made = cls.__new__(cls)
        AttentionLayer.__init__(made, layer)
        return made

    def __call__(
        self,
        x,
        keys_values=None,
        *,
        mask=None,
        bias=None,
        kv_lengths=None,
        query_offset=None,
        return_weights=False,
        stats=None,
    ):
        """x (batch, seq_q, d_in) -> (batch, seq_q, d_out), or a `LayerResult` with weights or stats.

        Args:
            x: (batch, seq_q, d_in), of the layer's type, any strides.
            keys_values: (batch, seq_kv, d_in), what keys and values are projected from; x itself unless given.
            mask: bool, True = attend; (seq_q, seq_kv), or (batch, heads, seq_q, seq_kv) with any axis 1.
            bias: added to the scores; the layer's type, shapes as mask.
            kv_lengths: (batch,) integers in 0..seq_kv; keys from there on do not exist.
            query_offset: query row i stands at position i + query_offset; an integer, or (batch,) integers.
            return_weights: True, or "after_dropout": also give the weights, (batch, heads, seq_q, seq_kv).
            stats: True or names, as in `attention`.
        """
        result = self._layer.forward(x, keys_values, mask, bias, kv_lengths, query_offset, return_weights, stats)
        return LayerResult(*result) if type(result) is tuple else result

    def backward(self, grad_out):
        """grad_out (batch, seq_q, d_out) -> grad_x (batch, seq_q, d_in); adds to `gradients()`.

        Once for each forward in training mode. After a forward with keys_values it gives the pair grad_x,
        grad_keys_values (batch, seq_kv, d_in).
        """
        return self._layer.backward(grad_out)

    def parameters(self):
        """The weights by state_dict name: arrays on the layer's own storage, writable until `freeze()`."""
        return dict(self._parameters)

    def gradients(self):
        """The gradients by state_dict name: arrays on the layer's own storage, which `backward` adds to."""
        return dict(self._gradients)

    def zero_grad(self):
        """Sets every gradient to 0."""
        self._layer.zero_grad()

    def train(self, mode=True):
        """Dropout on, and each forward keeps what backward needs. Returns the layer."""
        self._layer.training = bool(mode)
        return self

    def eval(self):
        """Dropout off, and nothing is kept for backward. Returns the layer."""
        return self.train(False)

    def freeze(self):
        """From now on the weights are read-only. Returns the layer."""
        self._layer.frozen = True
        for array in self._parameters.values():
            array.flags.writeable = False
        return self

    def state_dict(self):
        """Copies of the weights by name."""
        return {name: array.copy() for name, array in self._parameters.items()}

    def load_state_dict(self, state_dict):
        """Copies weights by name from numpy arrays. Stored masks are ignored; any other surplus or missing name is a
        ValueError, and then nothing is written."""
        self._layer.load_state_dict(dict(state_dict))

    def save(self, path):
        """Writes the weights to a safetensors file, with class, head count, causal, dropout, context_length, seed,
        rotary and window in its metadata. The file appears whole or not at all."""
        self._layer.save(_path_text(f"{type(self).__name__}.save", path))

    @property
    def training(self):
        return self._layer.training

    @property
    def frozen(self):
        return self._layer.frozen

    @property
    def seed(self):
        """What the initial weights were drawn from, and the dropout masks are."""
        return self._layer.seed

    @property
    def dtype(self):
        return self._layer.dtype

    @property
    def d_in(self):
        return self._layer.d_in

    @property
    def d_out(self):
        """The width of the output, over all heads."""
        return self._layer.d_out

    @property
    def num_heads(self):
        return self._layer.num_heads

    @property
    def num_kv_heads(self):
        return self._layer.num_kv_heads

    @property
    def head_dim(self):
        return self._layer.head_dim

    @property
    def context_length(self):
        return self._layer.context_length

    @property
    def dropout(self):
        return self._layer.dropout

    @property
    def causal(self):
        return self._layer.causal

    @property
    def rotary(self):
        """The rule by which queries and keys are turned by their positions, as text; None without one.

        A layer has one when it comes from a model that does: Llama, Mistral, Qwen2.
        """
        return self._layer.rotary

    @property
    def window_left(self):
        """How many keys before its own a query sees at most; None: no limit."""
        return self._layer.window_left

    @property
    def parameter_count(self):
        return self._layer.parameter_count

    def __repr__(self):
        heads = f"num_heads={self.num_heads}"
        if self.num_kv_heads != self.num_heads:
            heads += f", num_kv_heads={self.num_kv_heads}"
        positions = "" if self.rotary is None else f"rotary=({self.rotary}), "
        if self.window_left is not None:
            positions += f"window_left={self.window_left}, "
        return (
            f"{type(self).__name__}(d_in={self.d_in}, d_out={self.d_out}, {heads}, head_dim={self.head_dim}, "
            f"context_length={self.context_length}, dropout={self.dropout:g}, causal={self.causal}, "
            f"{positions}dtype={self.dtype}, parameters={self.parameter_count})"
        )


def _path_text(who, path):
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"{who}: path must be a str or a path, got {type(path).__name__}") from None


def _dtype_name(dtype):
    if dtype is None or isinstance(dtype, str):
        return dtype
    try:
        return numpy.dtype(dtype).name
    except TypeError:
        return dtype


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
        _path_text("load", path),
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
