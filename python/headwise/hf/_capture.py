# SPDX-License-Identifier: Apache-2.0
"""Which weights or statistics are kept, and whether transformers itself wants weights."""

from __future__ import annotations

_KEYS = ("layers", "heads", "what")
_KINDS = ("weights", "stats")


class Capture:
    """Keeps what `capture` asks for, by module name."""

    def __init__(self, model, capture):
        self.taken = {}
        if not isinstance(capture, dict):
            raise TypeError(f"hf.enable: capture must be a dict, got {type(capture).__name__}")
        unknown = [key for key in capture if key not in _KEYS]
        if unknown:
            raise ValueError(f'hf.enable: capture takes "layers", "heads" and "what", got {unknown[0]!r}')
        self.what = capture.get("what", "weights")
        if self.what not in _KINDS:
            raise ValueError(f'hf.enable: capture["what"] must be "weights" or "stats", got {self.what!r}')
        self.layers = _numbers("layers", capture.get("layers"))
        self.heads = _numbers("heads", capture.get("heads"))
        self._names = {module: name for name, module in model.named_modules()}
        self._order = {}

    def wants(self, module):
        """Whether this module's attention is to be kept; modules without a number count by their first call."""
        number = getattr(module, "layer_idx", None)
        if number is None:
            number = self._order.setdefault(module, len(self._order))
        return self.layers is None or number in self.layers

    def keep(self, module, values):
        self.taken.setdefault(self._names[module], []).append(self._chosen(values))

    def _chosen(self, values):
        if isinstance(values, dict):
            return {name: self._chosen(value) for name, value in values.items()}
        if self.heads is None:
            return values.detach()
        beyond = [head for head in self.heads if not 0 <= head < values.shape[1]]
        if beyond:
            raise ValueError(f'hf.enable: capture["heads"] has {beyond[0]}, but the layer has {values.shape[1]} heads')
        return values[:, self.heads].detach()


def _numbers(name, given):
    if given is None:
        return None
    numbers = list(given)
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise ValueError(f'hf.enable: capture["{name}"] must be None or numbers from 0 on, got {number!r}')
    return numbers


def wants_weights(module, given):
    """Whether this call's weights will be looked at: asked for by argument or config, or collected by a hook."""
    if given is not None:
        return bool(given)
    config = getattr(module, "config", None)
    if config is not None and getattr(config, "_output_attentions", False):
        return True
    try:
        from transformers.utils.output_capturing import _active_collector
    except ImportError:  # an older transformers passes output_attentions on
        return False
    collected = _active_collector.get()
    return collected is not None and any("attentions" in key for key in collected)
