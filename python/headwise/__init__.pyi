# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import Self

from ._headwise import SavedAttention

__all__ = [
    "AttentionGradients",
    "AttentionResult",
    "CausalSelfAttention",
    "Diagnosis",
    "KvCache",
    "LayerResult",
    "MistakeDistance",
    "MultiHeadAttention",
    "MultiHeadAttentionLayer",
    "MultiHeadAttentionWrapper",
    "__version__",
    "attention",
    "attention_backward",
    "attention_varlen",
    "diagnose",
    "get_num_threads",
    "load",
    "set_num_threads",
    "show_config",
    "view",
]

__version__: str

_Float = TypeVar("_Float", np.float32, np.float64)
_Storage = TypeVar("_Storage", np.float16, np.float32, np.float64)  # and ml_dtypes' bfloat16, which numpy types as Any
_Sums = NDArray[np.float32] | NDArray[np.float64]  # float32 beside a 16-bit q
_Integers = NDArray[np.integer[Any]] | Sequence[int]
_Causal = bool | Literal["upper_left", "lower_right"]
_Weights = bool | Literal["after_dropout"]
_Statistic = Literal["entropy", "max_weight", "top_keys", "distance", "self", "previous", "next", "first", "received"]
_Stats = bool | Sequence[_Statistic] | None
_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

class AttentionResult(NamedTuple):
    context: NDArray[Any]
    lse: NDArray[Any] | None = None
    weights: NDArray[Any] | None = None
    stats: dict[str, NDArray[Any]] | None = None
    saved: SavedAttention | None = None

class AttentionGradients(NamedTuple):
    q: NDArray[Any]
    k: NDArray[Any]
    v: NDArray[Any]
    bias: NDArray[Any] | None = None
    alibi_slopes: NDArray[Any] | None = None
    sinks: NDArray[Any] | None = None

class LayerResult(NamedTuple):
    out: NDArray[Any]
    weights: NDArray[Any] | None = None
    stats: dict[str, NDArray[Any]] | None = None

@overload
def attention(
    q: NDArray[_Storage],
    k: NDArray[_Storage],
    v: NDArray[_Storage],
    *,
    mask: NDArray[np.bool_] | None = None,
    bias: NDArray[_Storage] | None = None,
    causal: _Causal = False,
    query_offset: int | _Integers | None = None,
    window: tuple[int, int] | None = None,
    kv_lengths: _Integers | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    alibi_slopes: _Sums | None = None,
    sinks: _Sums | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    batch_offset: int = 0,
    head_offset: int = 0,
    return_lse: Literal[False] = False,
    return_weights: Literal[False] = False,
    stats: Literal[False] | None = None,
    save: Literal[False] = False,
    out: NDArray[_Storage] | None = None,
) -> NDArray[_Storage]: ...
@overload
def attention(
    q: NDArray[_Storage],
    k: NDArray[_Storage],
    v: NDArray[_Storage],
    *,
    mask: NDArray[np.bool_] | None = None,
    bias: NDArray[_Storage] | None = None,
    causal: _Causal = False,
    query_offset: int | _Integers | None = None,
    window: tuple[int, int] | None = None,
    kv_lengths: _Integers | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    alibi_slopes: _Sums | None = None,
    sinks: _Sums | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    batch_offset: int = 0,
    head_offset: int = 0,
    return_lse: bool = False,
    return_weights: _Weights = False,
    stats: _Stats = None,
    save: bool = False,
    out: NDArray[_Storage] | None = None,
) -> Any: ...  # an AttentionResult, if any more than the context is asked for
def attention_backward(
    grad_context: NDArray[_Storage],
    q: NDArray[_Storage],
    k: NDArray[_Storage],
    v: NDArray[_Storage],
    *,
    saved: SavedAttention | None = None,
    mask: NDArray[np.bool_] | None = None,
    bias: NDArray[_Storage] | None = None,
    causal: _Causal = False,
    query_offset: int | _Integers | None = None,
    window: tuple[int, int] | None = None,
    kv_lengths: _Integers | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    alibi_slopes: _Sums | None = None,
    sinks: _Sums | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
    batch_offset: int = 0,
    head_offset: int = 0,
) -> AttentionGradients: ...

class KvCache:
    def __init__(
        self,
        batch: int,
        kv_heads: int,
        capacity: int,
        head_dim: int,
        v_head_dim: int | None = None,
        *,
        dtype: DTypeLike = "float32",
    ) -> None: ...
    def append(self, k: NDArray[_Storage], v: NDArray[_Storage], counts: _Integers | None = None) -> None: ...
    @overload
    def attend(
        self,
        q: NDArray[_Storage],
        *,
        mask: NDArray[np.bool_] | None = None,
        bias: NDArray[_Storage] | None = None,
        causal: _Causal = True,
        query_offset: int | _Integers | None = None,
        window: tuple[int, int] | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        alibi_slopes: _Sums | None = None,
        sinks: _Sums | None = None,
        return_lse: Literal[False] = False,
        return_weights: Literal[False] = False,
        stats: Literal[False] | None = None,
        out: NDArray[_Storage] | None = None,
    ) -> NDArray[_Storage]: ...
    @overload
    def attend(
        self,
        q: NDArray[_Storage],
        *,
        mask: NDArray[np.bool_] | None = None,
        bias: NDArray[_Storage] | None = None,
        causal: _Causal = True,
        query_offset: int | _Integers | None = None,
        window: tuple[int, int] | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        alibi_slopes: _Sums | None = None,
        sinks: _Sums | None = None,
        return_lse: bool = False,
        return_weights: _Weights = False,
        stats: _Stats = None,
        out: NDArray[_Storage] | None = None,
    ) -> Any: ...  # an AttentionResult, if any more than the context is asked for
    def truncate(self, length: int) -> None: ...
    def reset(self) -> None: ...
    @property
    def lengths(self) -> NDArray[np.int64]: ...
    @property
    def batch(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def v_head_dim(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def nbytes(self) -> int: ...

class _AttentionLayer:
    @overload
    def __call__(
        self,
        x: NDArray[_Float],
        keys_values: NDArray[_Float] | None = None,
        *,
        mask: NDArray[np.bool_] | None = None,
        bias: NDArray[_Float] | None = None,
        kv_lengths: _Integers | None = None,
        query_offset: int | _Integers | None = None,
        return_weights: Literal[False] = False,
        stats: Literal[False] | None = None,
    ) -> NDArray[_Float]: ...
    @overload
    def __call__(
        self,
        x: NDArray[_Float],
        keys_values: NDArray[_Float] | None = None,
        *,
        mask: NDArray[np.bool_] | None = None,
        bias: NDArray[_Float] | None = None,
        kv_lengths: _Integers | None = None,
        query_offset: int | _Integers | None = None,
        return_weights: _Weights = False,
        stats: _Stats = None,
    ) -> Any: ...  # a LayerResult, if any more than the output is asked for
    def backward(self, grad_out: NDArray[_Float]) -> Any: ...
    def parameters(self) -> dict[str, NDArray[Any]]: ...
    def gradients(self) -> dict[str, NDArray[Any]]: ...
    def zero_grad(self) -> None: ...
    def train(self, mode: bool = True) -> Self: ...
    def eval(self) -> Self: ...
    def freeze(self) -> Self: ...
    def state_dict(self) -> dict[str, NDArray[Any]]: ...
    def load_state_dict(self, state_dict: Mapping[str, NDArray[Any]]) -> None: ...
    def save(self, path: _Path) -> None: ...
    @property
    def training(self) -> bool: ...
    @property
    def frozen(self) -> bool: ...
    @property
    def seed(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def d_in(self) -> int: ...
    @property
    def d_out(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def context_length(self) -> int | None: ...
    @property
    def dropout(self) -> float: ...
    @property
    def causal(self) -> bool: ...
    @property
    def rotary(self) -> str | None: ...
    @property
    def window_left(self) -> int | None: ...
    @property
    def parameter_count(self) -> int: ...

class MultiHeadAttention(_AttentionLayer):
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
        dtype: DTypeLike = "float32",
    ) -> None: ...
    def split(self) -> MultiHeadAttentionWrapper: ...

class CausalSelfAttention(_AttentionLayer):
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

class MultiHeadAttentionWrapper(_AttentionLayer):
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
    def head(self, index: int) -> CausalSelfAttention: ...

class MultiHeadAttentionLayer(_AttentionLayer):
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

def load(
    path: _Path,
    num_heads: int | None = None,
    *,
    layer: int | str | None = None,
    family: str | None = None,
    layout: str | None = None,
    kind: str | None = None,
    causal: bool | None = None,
    dropout: float | None = None,
    context_length: int | None = None,
    seed: int | None = None,
    dtype: DTypeLike | None = None,
) -> MultiHeadAttention | CausalSelfAttention | MultiHeadAttentionWrapper | MultiHeadAttentionLayer: ...

class MistakeDistance(NamedTuple):
    name: str
    what: str
    distance: float | None
    note: str

class Diagnosis(NamedTuple):
    verdict: str
    names: tuple[str, ...]
    right: float
    not_finite: int
    mistakes: tuple[MistakeDistance, ...]

def diagnose(layer: _AttentionLayer, x: NDArray[Any], got: NDArray[Any]) -> Diagnosis: ...
def set_num_threads(n: int) -> None: ...
def get_num_threads() -> int: ...
def show_config() -> None: ...
def attention_varlen(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    cu_seqlens_q: _Integers,
    cu_seqlens_k: _Integers,
    **options: Any,
) -> NoReturn: ...
def view(trace: Any, path: _Path | None = None) -> NoReturn: ...
