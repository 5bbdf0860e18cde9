# SPDX-License-Identifier: Apache-2.0
"""headwise under PyTorch, on CPU tensors.

`enable()` puts headwise under torch's own attention, `explain` says which way a call goes, and `fuse(model)` replaces
hand-written attention. `scaled_dot_product_attention` and `MultiheadAttention` have torch's signatures and more; the
layers of the book are in `book`.
"""

from . import _vmap, book  # noqa: F401  # the operators' rules
from ._attention import scaled_dot_product_attention
from ._enable import disable, disabled, enable, is_enabled
from ._errors import DTypeError, ShapeError
from ._explain import Explanation, explain
from ._fuse import FusedModule, FuseReport, fuse
from ._multihead import MultiheadAttention

__all__ = [
    "DTypeError",
    "Explanation",
    "FuseReport",
    "FusedModule",
    "MultiheadAttention",
    "ShapeError",
    "book",
    "disable",
    "disabled",
    "enable",
    "explain",
    "fuse",
    "is_enabled",
    "scaled_dot_product_attention",
]
