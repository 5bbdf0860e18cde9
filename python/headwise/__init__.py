# SPDX-License-Identifier: Apache-2.0
"""Multi-head attention for CPUs: exact, trainable, inspectable, and the same bits everywhere.

`attention` and `attention_backward` work on numpy arrays (batch, heads, seq, head_dim); `KvCache` keeps keys and values
for decoding. The layers take x
(batch, seq, d_in): `MultiHeadAttention`, `CausalSelfAttention`, `MultiHeadAttentionWrapper`, `MultiHeadAttentionLayer`.
"""

from ._attention import AttentionGradients, AttentionResult, attention, attention_backward
from ._attention_layer import LayerResult
from ._diagnose import Diagnosis, MistakeDistance, diagnose
from ._headwise import __version__
from ._kv_cache import KvCache
from ._later import attention_varlen, view
from ._layers import (
    CausalSelfAttention,
    MultiHeadAttention,
    MultiHeadAttentionLayer,
    MultiHeadAttentionWrapper,
    load,
)
from ._runtime import apply_environment, get_num_threads, set_num_threads, show_config

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

apply_environment()


def __getattr__(name):
    if name in ("torch", "hf"):  # not imported with the package: they need torch, and transformers
        import importlib

        return importlib.import_module(f"headwise.{name}")
    raise AttributeError(f"module 'headwise' has no attribute {name!r}")
