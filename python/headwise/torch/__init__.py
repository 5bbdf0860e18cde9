# SPDX-License-Identifier: Apache-2.0
"""headwise under PyTorch, on CPU tensors: attention as a function."""

from . import _vmap  # noqa: F401
from ._attention import scaled_dot_product_attention
from ._errors import DTypeError, ShapeError

__all__ = ["DTypeError", "ShapeError", "scaled_dot_product_attention"]
