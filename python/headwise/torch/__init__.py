# SPDX-License-Identifier: Apache-2.0
"""headwise under PyTorch, on CPU tensors.

`scaled_dot_product_attention` and `MultiheadAttention` have torch's signatures; the layers of the book are in `book`.
"""

from . import _vmap, book  # noqa: F401  # the operators' rules
from ._attention import scaled_dot_product_attention
from ._errors import DTypeError, ShapeError
from ._multihead import MultiheadAttention

__all__ = ["DTypeError", "MultiheadAttention", "ShapeError", "book", "scaled_dot_product_attention"]
