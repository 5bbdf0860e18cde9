# SPDX-License-Identifier: Apache-2.0
"""`enable(model)`: registers headwise with transformers and sets it on one model, until `disable()`."""

from __future__ import annotations

from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from ._attention import attention, sessions
from ._capture import Capture
from ._masks import mask

NAME = "headwise"


class Enabled:
    """What `enable` returns: a context manager, whose end (or `disable()`) gives the model its former attention back.

    captured: {module name: [one entry a forward]}, in the order of the model's attention modules. An entry is
    the weights, (batch, heads, seq_q, seq_kv), or a dict of statistics, (batch, heads, seq_q) each, "received"
    (batch, heads, seq_kv); with `heads` chosen, of those alone. Empty unless `capture` was given.
    """

    def __init__(self, model, capture):
        self._model = model
        self._before = [(config, config._attn_implementation) for config in _configs(model)]
        self._capture = capture
        self._modules = [module for module in model.modules() if not isinstance(module, PreTrainedModel)]
        self._outer = [sessions.get(module) for module in self._modules]
        for module in self._modules:
            sessions[module] = self
        self._active = True

    @property
    def captured(self):
        return {} if self._capture is None else self._capture.taken

    def clear(self):
        """Forgets what was captured so far."""
        self.captured.clear()

    def disable(self):
        """Gives the model its former attention back. A second call does nothing."""
        if not self._active:
            return
        self._active = False
        for config, implementation in self._before:
            config._attn_implementation_internal = implementation
        for module, outer in zip(self._modules, self._outer, strict=True):
            if outer is None:
                sessions.pop(module, None)
            else:
                sessions[module] = outer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.disable()
        return False


def enable(model, capture=None):
    """Gives a transformers model headwise's attention on the CPU: the same outputs, and `output_attentions=True` at
    fused speed.

    Args:
        model: a PreTrainedModel whose attention goes through transformers' AttentionInterface.
        capture: None, or {"layers": None | numbers, "heads": None | numbers, "what": "weights" | "stats"}: keeps, for
            each forward, the attention weights or their statistics; `Enabled.captured` has them. Statistics need no
            memory of seq_q * seq_kv.

    Returns:
        `Enabled`: use it in a `with` statement, or call its `disable()`.

    Grouped heads are read as they are, keys behind a right padding or outside a sliding window are never computed;
    `softcap`, sinks, position biases and packed sequences (`cu_seq_lens_q`) are served. An argument that headwise does
    not know is an error, not a silent wrong answer.

    Raises:
        TypeError: model is no PreTrainedModel. ValueError: its attention bypasses transformers' interface, or capture
            names what is not there.
    """
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"hf.enable: model must be a transformers.PreTrainedModel, got {type(model).__name__}")
    bypassing = sorted({type(part).__name__ for part in _parts(model) if not part._can_set_attn_implementation()})
    if bypassing:
        raise ValueError(
            f"hf.enable: {', '.join(bypassing)} computes attention by itself, not through transformers' "
            "AttentionInterface; headwise cannot take its place"
        )
    keeper = None if capture is None else Capture(model, capture)
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, mask)
    enabled = Enabled(model, keeper)
    try:
        model.set_attn_implementation(NAME)
    except BaseException:
        enabled.disable()
        raise
    return enabled


def _parts(model):
    return [part for part in model.modules() if isinstance(part, PreTrainedModel)]


def _configs(model):
    """Every config of the model, each once."""
    found = {}
    waiting = [part.config for part in _parts(model)]
    while waiting:
        config = waiting.pop()
        if id(config) in found:
            continue
        found[id(config)] = config
        waiting += [sub for key in config.sub_configs if (sub := getattr(config, key)) is not None]
    return list(found.values())
