# SPDX-License-Identifier: Apache-2.0
"""Errors that are headwise's and torch's at once: whoever catches torch's RuntimeError around attention, still does."""

from __future__ import annotations


class ShapeError(ValueError, RuntimeError):
    """A shape or a value that does not fit."""


class DTypeError(TypeError, RuntimeError):
    """Another type than the call takes."""
