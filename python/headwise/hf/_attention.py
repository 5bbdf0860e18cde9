# SPDX-License-Identifier: Apache-2.0
"""The function that transformers calls for every attention module of an enabled model."""

from __future__ import annotations

import weakref
from itertools import pairwise

import torch

from headwise.torch import scaled_dot_product_attention

from ._capture import wants_weights
from ._masks import Rule, rule_of

# module -> the Enabled it belongs to
sessions = weakref.WeakKeyDictionary()

# What models pass along that says nothing about a layer's attention, or says again what the mask says.
_SAID_ELSEWHERE = frozenset(
    (
        "cache_position", "cu_seq_lens_k", "logits_to_keep", "max_length_k", "max_length_q", "num_items_in_batch",
        "output_hidden_states", "output_router_logits", "position_ids", "return_dict", "seq_idx", "sliding_window",
        "target_dtype", "use_cache",
    )
)  # fmt: skip


def attention(
    module,
    query,
    key,
    value,
    attention_mask,
    dropout=0.0,
    scaling=None,
    is_causal=None,
    position_bias=None,
    softcap=None,
    s_aux=None,
    output_attentions=None,
    cu_seq_lens_q=None,
    **others,
):
    """query (batch, heads, seq_q, head_dim); key, value (batch, kv_heads, seq_kv, ...) -> context (batch, seq_q, heads,
    v_head_dim), and the weights where somebody looks at them, else None."""
    for name, given in others.items():
        if given is not None and name not in _SAID_ELSEWHERE:
            raise ValueError(f"headwise.hf: {type(module).__name__} passes {name}, which headwise does not know")
    session = sessions.get(module)
    capture = None if session is None else session._capture
    kept = capture is not None and capture.wants(module)
    weighed = wants_weights(module, output_attentions)
    call = {
        "dropout_p": dropout,
        "scale": scaling,
        "softcap": softcap,
        "sinks": None if s_aux is None else s_aux.to(torch.promote_types(query.dtype, torch.float32)),
        "enable_gqa": query.shape[1] != key.shape[1],
        "return_weights": weighed or (kept and capture.what == "weights"),
        "stats": kept and capture.what == "stats",
    }
    causal = getattr(module, "is_causal", True) if is_causal is None else bool(is_causal)
    if cu_seq_lens_q is not None and attention_mask is None and query.shape[0] == 1:
        result = _packed(query, key, value, cu_seq_lens_q, causal, position_bias, others, call)
    else:
        result = _attend(query, key, value, attention_mask, causal, position_bias, call)
    context, weights, stats = (result, None, None) if isinstance(result, torch.Tensor) else _parts(result)
    if kept:
        capture.keep(module, weights if capture.what == "weights" else stats)
    return context.transpose(1, 2).contiguous(), weights if weighed else None


def _parts(result):
    return result.context, result.weights, result.stats


def _attend(query, key, value, attention_mask, causal, position_bias, call):
    seq_q, seq_kv = query.shape[2], key.shape[2]
    if attention_mask is None:
        rule = Rule(causal=causal and seq_q > 1)
    else:
        attention_mask = attention_mask[..., :seq_kv]
        readable = attention_mask.dtype is torch.bool and not torch.compiler.is_compiling()
        rule = rule_of(attention_mask) if readable else Rule(mask=attention_mask)
    return scaled_dot_product_attention(
        query, key, value, rule.mask, causal=rule.causal, query_offset=rule.query_offset, window=rule.window,
        kv_lengths=rule.kv_lengths, bias=position_bias, **call,
    )  # fmt: skip


def _packed(query, key, value, borders, causal, position_bias, others, call):
    """Sequences behind one another in one row: each is attended by itself, and nothing between them is computed."""
    if position_bias is not None:
        raise ValueError("headwise.hf: position_bias and cu_seq_lens_q cannot be given together")
    borders_kv = others.get("cu_seq_lens_k")
    borders_kv = borders if borders_kv is None else borders_kv
    if borders.tolist() != borders_kv.tolist():
        raise ValueError("headwise.hf: cu_seq_lens_q and cu_seq_lens_k must be equal in self-attention")
    window = others.get("sliding_window")
    if window is not None:
        call = {**call, "window": (window - 1, -1)}
    if call["return_weights"] or call["stats"]:
        raise ValueError("headwise.hf: weights and statistics of packed sequences are not served")
    edges = borders.tolist()
    if edges[0] != 0 or edges[-1] != query.shape[2] or edges != sorted(edges):
        raise ValueError(f"headwise.hf: cu_seq_lens_q must rise from 0 to the {query.shape[2]} tokens, got {edges}")
    parts = [
        scaled_dot_product_attention(
            query[:, :, a:b],
            key[:, :, a:b],
            value[:, :, a:b],
            causal=causal,
            query_offset=0 if window else None,
            **call,
        )
        for a, b in pairwise(edges)
        if b > a
    ]
    return torch.cat(parts, 2)
