# SPDX-License-Identifier: Apache-2.0
"""torch.nn.attention.bias.CausalBias: a mask without numbers in it, which says upper left or lower right."""

from __future__ import annotations

from torch.nn.attention.bias import CausalBias, CausalVariant

from ._errors import ShapeError


def is_causal_bias(attn_mask):
    return isinstance(attn_mask, CausalBias)


def causal_of(who, bias, is_causal, query, key):
    """(is_causal, causal) as the call would have them without the bias; torch's reading of it, no matrix made."""
    if is_causal:
        raise ShapeError(f"{who}: is_causal=True and an attn_mask of class CausalBias both say what is causal")
    seq_q, seq_kv = query.shape[-2], key.shape[-2]
    if (bias.seq_len_q, bias.seq_len_kv) != (seq_q, seq_kv):
        raise ShapeError(
            f"{who}: attn_mask was made for seq_q={bias.seq_len_q} and seq_kv={bias.seq_len_kv}, "
            f"query and key have {seq_q} and {seq_kv}"
        )
    if bias.variant == CausalVariant.LOWER_RIGHT and seq_q != seq_kv:
        return False, "lower_right"
    return True, False


def torchs_own(query, key, value, bias, dropout_p, is_causal, options):
    """torch's answer: its class knows the function by the name under which headwise stands now."""
    return CausalBias._dispatch(query, key, value, bias, dropout_p, is_causal, **options)
