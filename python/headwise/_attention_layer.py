# SPDX-License-Identifier: Apache-2.0
"""What all attention layers on numpy arrays share."""

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
        rotary and window in its metadata. The file appears whole or not at all.

        A name that does not end in .safetensors is a ValueError, what the operating system refuses an OSError.
        """
        who = f"{type(self).__name__}.save"
        name = _path_bytes(who, path)
        if not name.endswith(b".safetensors"):
            raise ValueError(f"{who}: path must end in .safetensors, got {os.fsdecode(name)!r}")
        self._layer.save(name)

    def __getstate__(self):
        """For copy and pickle: weights and configuration as `save` writes them, gradients, mode, and the count of
        training forwards, from which the next dropout mask follows. What a forward keeps for `backward` is not in it.
        """
        own = ("_layer", "_parameters", "_gradients")
        others = {name: value for name, value in self.__dict__.items() if name not in own}
        layer = self._layer
        facts = {name: getattr(layer, name) for name in ("training", "frozen", "training_forwards", "dtype")}
        gradients = {name: array.copy() for name, array in self._gradients.items()}
        return {"version": 1, "layer": layer.pack(), **facts, "gradients": gradients, "attributes": others}

    def __setstate__(self, state):
        _check_version(type(self).__name__, state)
        AttentionLayer.__init__(self, _headwise.unpack_layer(state["layer"], state["dtype"] == "float64"))
        for name, array in state["gradients"].items():
            self._gradients[name][...] = array
        self._layer.training = state["training"]
        self._layer.training_forwards = state["training_forwards"]
        if state["frozen"]:
            self.freeze()
        self.__dict__.update(state["attributes"])

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


def _check_version(who, state):
    version = state.get("version") if isinstance(state, dict) else None
    if version != 1:
        raise ValueError(f"{who}: the pickled state has version {version!r}, this headwise reads version 1")


def _path_bytes(who, path):
    """As the file system has it: a name need not be UTF-8."""
    try:
        name = os.fsencode(path)
    except TypeError:
        raise TypeError(f"{who}: path must be a str or a path, got {type(path).__name__}") from None
    if b"\0" in name:
        raise ValueError(f"{who}: path must not hold a null byte, got {os.fsdecode(name)!r}")
    return name


def _dtype_name(dtype):
    if dtype is None or isinstance(dtype, str):
        return dtype
    try:
        return numpy.dtype(dtype).name
    except TypeError:
        return dtype
