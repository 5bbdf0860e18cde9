# SPDX-License-Identifier: Apache-2.0
"""Names that are promised and not yet served: each is refused by its own name."""

from __future__ import annotations


def not_served(name: str) -> NotImplementedError:
    return NotImplementedError(f"headwise.{name} is not served yet")


def attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, **options):
    """Attention over packed sequences, (tokens, heads, head_dim). Not served yet."""
    raise not_served("attention_varlen")


def view(trace, path=None):
    """One self-contained page that shows a trace. Not served yet."""
    raise not_served("view")
