# SPDX-License-Identifier: Apache-2.0
# The extension takes every argument by position; the modules beside it give names and defaults.
from typing import Any

from numpy.typing import NDArray

__version__: str

class SavedAttention: ...

class Layer:
    training: bool
    frozen: bool
    training_forwards: int
    @property
    def kind(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def parameter_count(self) -> int: ...
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
    def forward(
        self,
        x: object,
        keys_values: object,
        mask: object,
        bias: object,
        kv_lengths: object,
        query_offset: object,
        return_weights: object,
        stats: object,
        /,
    ) -> Any: ...
    def backward(self, grad_out: object, /) -> Any: ...
    def parameters(self) -> dict[str, NDArray[Any]]: ...
    def gradients(self) -> dict[str, NDArray[Any]]: ...
    def zero_grad(self) -> None: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> None: ...
    def save(self, path: bytes, /) -> None: ...
    def pack(self) -> bytes: ...
    def fuse(self) -> Layer: ...
    def split(self) -> Layer: ...
    def head(self, index: object, /) -> Layer: ...

class KvCache:
    def __init__(
        self,
        batch: object,
        kv_heads: object,
        capacity: object,
        head_dim: object,
        v_head_dim: object,
        dtype: object,
        /,
    ) -> None: ...
    def append(self, k: object, v: object, counts: object, /) -> None: ...
    def attend(
        self,
        q: object,
        mask: object,
        bias: object,
        causal: object,
        query_offset: object,
        window: object,
        scale: object,
        softcap: object,
        alibi_slopes: object,
        sinks: object,
        return_lse: object,
        return_weights: object,
        stats: object,
        out: object,
        /,
    ) -> Any: ...
    def tokens(self) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def truncate(self, length: object, /) -> None: ...
    @property
    def lengths(self) -> NDArray[Any]: ...
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

class Decoder32:
    def __init__(
        self,
        layers: int,
        hidden: int,
        heads: int,
        vocab: int,
        positions: int,
        bias: bool,
        tied: bool,
        activation: str,
        /,
    ) -> None: ...
    def load(self, values: dict[str, NDArray[Any]], /) -> None: ...
    def logits(self, ids: object, /) -> NDArray[Any]: ...
    def loss_and_gradients(self, ids: object, targets: object, /) -> tuple[float, dict[str, NDArray[Any]]]: ...

class Decoder64:
    def __init__(
        self,
        layers: int,
        hidden: int,
        heads: int,
        vocab: int,
        positions: int,
        bias: bool,
        tied: bool,
        activation: str,
        /,
    ) -> None: ...
    def load(self, values: dict[str, NDArray[Any]], /) -> None: ...
    def logits(self, ids: object, /) -> NDArray[Any]: ...
    def loss_and_gradients(self, ids: object, targets: object, /) -> tuple[float, dict[str, NDArray[Any]]]: ...

class Training:
    def __init__(
        self,
        text: bytes,
        layers: int,
        hidden: int,
        heads: int,
        positions: int,
        batch: int,
        steps: int,
        seed: int,
        /,
    ) -> None: ...
    def step(self) -> float: ...
    def evaluate(self) -> float: ...
    def learning_rate(self, step: int, /) -> float: ...
    def vocab(self) -> int: ...
    def weights(self) -> dict[str, NDArray[Any]]: ...
    def batch(self, step: int, /) -> tuple[NDArray[Any], NDArray[Any]]: ...

class Encoder:
    def __init__(self, directory: str, /) -> None: ...
    def run(self, ids: object, lengths: object, /) -> tuple[NDArray[Any], NDArray[Any]]: ...

def attention(
    q: object,
    k: object,
    v: object,
    mask: object,
    bias: object,
    causal: object,
    query_offset: object,
    window: object,
    kv_lengths: object,
    scale: object,
    softcap: object,
    alibi_slopes: object,
    sinks: object,
    dropout: object,
    seed: object,
    batch_offset: object,
    head_offset: object,
    return_lse: object,
    return_weights: object,
    stats: object,
    save: object,
    out: object,
    /,
) -> Any: ...
def attention_backward(
    grad_context: object,
    saved: object,
    q: object,
    k: object,
    v: object,
    mask: object,
    bias: object,
    causal: object,
    query_offset: object,
    window: object,
    kv_lengths: object,
    scale: object,
    softcap: object,
    alibi_slopes: object,
    sinks: object,
    dropout: object,
    seed: object,
    batch_offset: object,
    head_offset: object,
    /,
) -> tuple[Any, ...]: ...
def tensor_attention(
    who: str,
    q: object,
    k: object,
    v: object,
    mask: object,
    bias: object,
    causal: object,
    query_offset: object,
    window: object,
    kv_lengths: object,
    scale: object,
    softcap: object,
    alibi_slopes: object,
    sinks: object,
    dropout: object,
    seed: object,
    batch_offset: object,
    head_offset: object,
    context: object,
    unrounded: object,
    row_max: object,
    row_sum: object,
    lse: object,
    weights: object,
    weights_after_dropout: object,
    stats: object,
    /,
) -> dict[str, NDArray[Any]] | None: ...
def tensor_attention_plain(
    q: object,
    k: object,
    v: object,
    is_causal: object,
    scale: object,
    enable_gqa: object,
    context: object,
    rows: object,
    /,
) -> bool: ...
def tensor_attention_plain_backward(
    q: object,
    k: object,
    v: object,
    is_causal: object,
    scale: object,
    enable_gqa: object,
    context: object,
    rows: object,
    grad_context: object,
    grad_q: object,
    grad_k: object,
    grad_v: object,
    /,
) -> bool: ...
def tensor_attention_backward(
    who: str,
    q: object,
    k: object,
    v: object,
    mask: object,
    bias: object,
    causal: object,
    query_offset: object,
    window: object,
    kv_lengths: object,
    scale: object,
    softcap: object,
    alibi_slopes: object,
    sinks: object,
    dropout: object,
    seed: object,
    batch_offset: object,
    head_offset: object,
    grad_context: object,
    context: object,
    row_max: object,
    row_sum: object,
    grad_q: object,
    grad_k: object,
    grad_v: object,
    grad_bias: object,
    grad_alibi_slopes: object,
    grad_sinks: object,
    /,
) -> None: ...
def multi_head_attention(
    d_in: object,
    d_out: object,
    context_length: object,
    dropout: object,
    num_heads: object,
    qkv_bias: object,
    causal: object,
    out_proj: object,
    out_bias: object,
    num_kv_heads: object,
    head_dim: object,
    init: object,
    seed: object,
    dtype: object,
    /,
) -> Layer: ...
def causal_self_attention(
    d_in: object, d_out: object, context_length: object, dropout: object, qkv_bias: object, seed: object, /
) -> Layer: ...
def multi_head_attention_wrapper(
    d_in: object,
    d_out: object,
    context_length: object,
    dropout: object,
    num_heads: object,
    qkv_bias: object,
    width: object,
    out_proj: object,
    seed: object,
    /,
) -> Layer: ...
def multi_head_attention_layer(
    d_in: object,
    d_out: object,
    context_length: object,
    dropout: object,
    num_heads: object,
    use_bias: object,
    causal: object,
    seed: object,
    /,
) -> Layer: ...
def load_layer(
    path: bytes,
    kind: object,
    num_heads: object,
    causal: object,
    dropout: object,
    context_length: object,
    seed: object,
    dtype: object,
    layer: object,
    family: object,
    layout: object,
    /,
) -> Layer: ...
def unpack_layer(packed: bytes, wide: bool, /) -> Layer: ...
def diagnose(
    layer: Layer, x: object, got: object, /
) -> tuple[str, list[str], float, int, list[tuple[str, str, float | None, str]]]: ...
def linear(x: object, weight: object, bias: object, /) -> NDArray[Any]: ...
def linear_backward(
    grad_out: object, x: object, weight: object, /
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
def set_num_threads(n: object, /) -> None: ...
def get_num_threads() -> int: ...
def chosen_isa() -> str: ...
def available_isas() -> list[str]: ...
def build() -> str: ...
def apply_environment() -> None: ...
def run_command(arguments: list[bytes], /) -> int: ...
