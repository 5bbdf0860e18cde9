# SPDX-License-Identifier: Apache-2.0
"""Everything about one attention call that is no gradient's business, and the random seed of its dropout."""

from __future__ import annotations

from typing import NamedTuple

import torch

_SEEDS = 2**63 - 1
_WORD = 2**64


class Options(NamedTuple):
    """The meaning of each as in `headwise.attention`; query positions are always stated.

    query_offset is an integer, or (batch,) integers as a list or tensor; so is kv_lengths, or it is None.
    seed is an integer, an int64 tensor of one element, or None.
    """

    who: str
    causal: object = False
    query_offset: object = 0
    window: object = None
    kv_lengths: object = None
    scale: object = None
    softcap: object = None
    dropout: float = 0.0
    seed: object = None
    batch_offset: int = 0
    head_offset: int = 0
    return_lse: bool = False
    return_weights: object = False
    stats: object = None

    def settled(self):
        """The same with tensors read: what a later backward must find as it is now."""
        _, _, offset, _, lengths, _, _, _, seed, *_ = self
        if (seed is None or type(seed) is int) and lengths is None and type(offset) is int:
            return self
        return self._replace(
            kv_lengths=_numbers(lengths),
            query_offset=_numbers(offset),
            seed=int(seed) % _WORD if isinstance(seed, torch.Tensor) else seed,
        )


def _numbers(given):
    return given.tolist() if isinstance(given, torch.Tensor) else given


def drawn_seed():
    """A seed from torch's CPU generator: what manual_seed sets and a checkpoint's recomputation puts back."""
    return torch.randint(_SEEDS, (1,), device="cpu", dtype=torch.int64)


def seed_tensor(seed):
    """The seed as an operator takes it."""
    if seed is None or isinstance(seed, torch.Tensor):
        return seed
    return torch.tensor([seed if seed < _WORD // 2 else seed - _WORD], dtype=torch.int64)
