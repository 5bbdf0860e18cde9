# SPDX-License-Identifier: Apache-2.0
"""What the layers of the book refuse, by name."""

from __future__ import annotations

import torch

from ._errors import DTypeError, ShapeError


def check_count(who, name, count):
    if isinstance(count, bool) or not isinstance(count, int):
        raise DTypeError(f"{who}: {name} must be an integer, got {type(count).__name__}")
    if count < 1:
        raise ShapeError(f"{who}: {name} must be at least 1, got {count}")


def check_divisible(who, whole_name, whole, parts_name, parts):
    if whole % parts == 0:
        return
    valid = [n for n in range(1, whole + 1) if whole % n == 0]
    near = [max(n for n in valid if n <= parts), *(n for n in valid if n >= parts)][:2]
    raise ShapeError(
        f"{who}: {whole_name}={whole} is not divisible by {parts_name}={parts}; "
        f"nearest valid {parts_name}: {', '.join(map(str, near))}"
    )


def check_dropout(who, dropout):
    if not 0 <= dropout < 1:
        raise ShapeError(f"{who}: dropout must be in [0, 1), got {dropout}")


def check_context_length(who, context_length, seq):
    if context_length is not None and seq > context_length:
        raise ShapeError(f"{who}: x has seq={seq}, more than context_length={context_length}")


def check_input(who, name, x, d_in):
    if not isinstance(x, torch.Tensor):
        raise DTypeError(f"{who}: {name} must be a torch.Tensor, got {type(x).__name__}")
    if x.dim() != 3 or x.shape[2] != d_in:
        raise ShapeError(f"{who}: {name} must be (batch, seq, d_in={d_in}), got {tuple(x.shape)}")


def check_positions(who, causal, query_offset, seq_q, seq_kv):
    if causal and query_offset is None and seq_q != seq_kv:
        raise ShapeError(
            f"{who}: a causal layer needs seq_q == seq_kv or query_offset, got seq_q={seq_q} and seq_kv={seq_kv}"
        )


def torch_dtype(who, dtype):
    """A torch type from "float32", "float64", "bfloat16", "float16" or the type itself."""
    found = dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype), None)
    if found not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        raise DTypeError(f"{who}: dtype must be float32, float64, bfloat16 or float16, got {dtype!r}")
    return found
