# SPDX-License-Identifier: Apache-2.0
"""transformers' masks, and the rules behind them: a rule costs nothing and lets whole blocks be skipped."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import torch
from transformers.masking_utils import sdpa_mask


def mask(*args, **kwargs):
    """A bool mask (batch, 1, seq_q, seq_kv), True = attend, or None where is_causal or nothing says the same."""
    return sdpa_mask(*args, **kwargs)


class Rule(NamedTuple):
    """Keywords of `headwise.torch.scaled_dot_product_attention`; `mask` is the rest that no rule says."""

    causal: bool = False
    query_offset: int | None = None
    window: tuple | None = None
    kv_lengths: torch.Tensor | None = None
    mask: torch.Tensor | None = None


_known = weakref.WeakKeyDictionary()


def rule_of(attention_mask):
    """The rule of a bool mask, found once for all the layers that share it."""
    try:
        seen = _known.get(attention_mask)
        if seen is not None and seen[0] == attention_mask._version:
            return seen[1]
    except (RuntimeError, TypeError):  # inference tensors count no versions
        return find_rule(attention_mask)
    rule = find_rule(attention_mask)
    _known[attention_mask] = (attention_mask._version, rule)
    return rule


def find_rule(attention_mask):
    """The rule that says exactly what the mask says, or the mask itself."""
    plain = Rule(mask=attention_mask)
    if attention_mask.dim() != 4 or attention_mask.shape[1] != 1 or 0 in attention_mask.shape:
        return plain
    visible = attention_mask[:, 0]
    seq_q, seq_kv = visible.shape[1:]
    count = visible.sum(-1)
    first = visible.to(torch.uint8).argmax(-1)
    end = first + count
    # A row is a run of keys exactly when as many of them lie below its end and not below its first as it has.
    keys = torch.arange(seq_kv)
    if not torch.equal(visible, (keys >= first.unsqueeze(-1)) & (keys < end.unsqueeze(-1))):
        return plain
    lengths = end.amax(-1)
    kv_lengths = None if bool((lengths == seq_kv).all()) else lengths
    rows = torch.arange(seq_q)
    if bool((first == 0).all()) and bool((end == lengths.unsqueeze(-1)).all()):
        return Rule(kv_lengths=kv_lengths)
    offset = _offset(end, lengths, seq_kv)
    if offset is None:
        return plain
    position = rows + offset
    if not torch.equal(end, torch.minimum(position + 1, lengths.unsqueeze(-1)).clamp(min=0)):
        return plain
    if bool((first == 0).all()):
        return Rule(causal=True, query_offset=offset, kv_lengths=kv_lengths)
    left = int((position - first).amax())
    if torch.equal(first, (position - left).clamp(min=0).expand_as(first)):
        return Rule(causal=True, query_offset=offset, window=(left, -1), kv_lengths=kv_lengths)
    return plain


def _offset(end, lengths, seq_kv):
    """Where query row 0 stands if the mask is causal: from a row whose end no length cut off."""
    batch = int(lengths.argmax())
    whole = end[batch] < lengths[batch]
    row = int(whole.sum()) - 1 if bool(whole.any()) else -1
    if row < 0:
        return int(seq_kv - 1) if end.shape[1] == 1 else int(end[batch, 0]) - 1
    return int(end[batch, row]) - 1 - row
