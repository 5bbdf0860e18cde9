# SPDX-License-Identifier: Apache-2.0
from typing import Literal

import torch
from torch import Tensor

from headwise import LayerResult

__all__ = ["CausalSelfAttention", "MultiHeadAttention", "MultiHeadAttentionLayer", "MultiHeadAttentionWrapper"]

class _BookAttention(torch.nn.Module):
    d_in: int
    d_out: int
    num_heads: int
    head_dim: int
    context_length: int | None
    dropout: float
    causal: bool
    out_proj: torch.nn.Linear | None
    def forward(
        self,
        x: Tensor,
        keys_values: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        kv_lengths: list[int] | Tensor | None = None,
        query_offset: int | list[int] | Tensor | None = None,
        return_weights: bool | Literal["after_dropout"] = False,
        stats: bool | tuple[str, ...] | None = None,
    ) -> Tensor | LayerResult: ...

class CausalSelfAttention(_BookAttention):
    W_query: torch.nn.Linear
    W_key: torch.nn.Linear
    W_value: torch.nn.Linear
    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int | None = None,
        dropout: float = 0.0,
        qkv_bias: bool = False,
        *,
        seed: int | None = None,
    ) -> None: ...

class MultiHeadAttentionWrapper(_BookAttention):
    heads: torch.nn.ModuleList
    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int | None = None,
        dropout: float = 0.0,
        num_heads: int = 1,
        qkv_bias: bool = False,
        *,
        width: Literal["per_head", "total"] = "per_head",
        out_proj: bool = False,
        seed: int | None = None,
    ) -> None: ...
    def fuse(self) -> MultiHeadAttention: ...

class MultiHeadAttention(_BookAttention):
    W_query: torch.nn.Linear
    W_key: torch.nn.Linear
    W_value: torch.nn.Linear
    num_kv_heads: int
    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int | None = None,
        dropout: float = 0.0,
        num_heads: int = 1,
        qkv_bias: bool = False,
        *,
        causal: bool = True,
        out_proj: bool = True,
        out_bias: bool = True,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        init: Literal["torch_linear", "torch_mha", "gpt2"] = "torch_linear",
        seed: int | None = None,
        dtype: str | torch.dtype = "float32",
    ) -> None: ...

class MultiHeadAttentionLayer(_BookAttention):
    query_weight: torch.nn.Linear
    key_weight: torch.nn.Linear
    value_weight: torch.nn.Linear
    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int | None,
        dropout: float,
        num_heads: int,
        use_bias: bool = False,
        *,
        causal: bool = False,
        seed: int | None = None,
    ) -> None: ...
