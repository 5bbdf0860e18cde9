# SPDX-License-Identifier: Apache-2.0
from typing import Literal

from torch import Tensor

from headwise import AttentionResult

__all__ = ["DTypeError", "ShapeError", "scaled_dot_product_attention"]

class DTypeError(TypeError, RuntimeError): ...
class ShapeError(ValueError, RuntimeError): ...

def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool | Literal["upper_left", "lower_right"] = False,
    query_offset: int | list[int] | Tensor | None = None,
    window: tuple[int, int] | None = None,
    kv_lengths: list[int] | Tensor | None = None,
    softcap: float | None = None,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    seed: int | Tensor | None = None,
    batch_offset: int = 0,
    head_offset: int = 0,
    return_lse: bool = False,
    return_weights: bool | Literal["after_dropout"] = False,
    stats: bool | tuple[str, ...] | None = None,
) -> Tensor | AttentionResult: ...
