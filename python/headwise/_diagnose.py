# SPDX-License-Identifier: Apache-2.0
"""The name of the mistake in an output."""

from __future__ import annotations

from typing import NamedTuple

import numpy

from . import _headwise
from ._layers import AttentionLayer


class MistakeDistance(NamedTuple):
    """How far the output is from what one known mistake gives; None where `note` says why."""

    name: str
    what: str
    distance: float | None
    note: str


class Diagnosis(NamedTuple):
    """verdict: "right", "mistake" or "none"; names: of the mistakes that fit equally well."""

    verdict: str
    names: tuple[str, ...]
    right: float
    not_finite: int
    mistakes: tuple[MistakeDistance, ...]


def diagnose(layer, x, got):
    """Which known mistake an output shows that somebody's code gave for this layer and input.

    Args:
        layer: one of the layers of this package, with the weights that the other code had.
        x: (batch, seq, d_in) of the layer's type.
        got: (batch, seq, d_out), float32 or float64; with fewer tokens than x, that of the last ones.

    Distances are the root mean square of the difference in units of the right output's.
    """
    if not isinstance(layer, AttentionLayer):
        raise TypeError(f"diagnose: layer must be a layer of headwise, got {type(layer).__name__}")
    if isinstance(got, numpy.ndarray) and got.dtype == numpy.float32:
        got = got.astype(numpy.float64)  # exact
    verdict, names, right, not_finite, mistakes = _headwise.diagnose(layer._layer, x, got)
    return Diagnosis(verdict, tuple(names), right, not_finite, tuple(MistakeDistance(*one) for one in mistakes))
