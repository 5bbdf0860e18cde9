# SPDX-License-Identifier: Apache-2.0
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from headwise import AttentionResult

from . import book as book

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

class DTypeError(TypeError, RuntimeError): ...
class ShapeError(ValueError, RuntimeError): ...

class Explanation(NamedTuple):
    path: str
    reason: str
    torch_alone: str
    torch_reason: str

def enable() -> AbstractContextManager[Any]: ...
def disable() -> None: ...
def disabled() -> AbstractContextManager[None]: ...
def is_enabled() -> bool: ...
def explain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Explanation: ...
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

class FusedModule(NamedTuple):
    name: str
    was: str
    replaced: bool
    reason: str

class FuseReport(NamedTuple):
    modules: tuple[FusedModule, ...]
    @property
    def replaced(self) -> tuple[FusedModule, ...]: ...
    @property
    def left(self) -> tuple[FusedModule, ...]: ...

def fuse(model: torch.nn.Module) -> FuseReport: ...

class MultiheadAttention(torch.nn.MultiheadAttention):
    num_kv_heads: int
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
    ) -> None: ...
    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]: ...
