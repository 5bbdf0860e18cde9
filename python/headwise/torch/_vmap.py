# SPDX-License-Identifier: Apache-2.0
"""torch.func.vmap over the operators: the mapped axis becomes part of batch, and one kernel call does all."""

from __future__ import annotations

import torch

from . import _op  # noqa: F401  # the operators

# Places of arguments: arrays with a batch axis, arrays (heads,), the seed; of backward also what the forward gave.
_BATCHED, _BIAS, _PER_HEAD, _SEED = (0, 1, 2, 3, 6, 7, 8), 3, (4, 5), 9
_FROM_FORWARD = (10, 11, 12, 13, 14)


def _rule(op, info, in_dims, arguments, batched, needed):
    # Arrays may come as lists of dimensions too (window, offsets): those are not mapped.
    dims = [d if isinstance(d, int) else None for d in in_dims]
    one_by_one = arguments[_SEED] is not None or any(dims[at] is not None for at in _PER_HEAD)
    if one_by_one or any(needed[4:6]):
        return _loop(op, info.batch_size, dims, arguments)
    queries = arguments[0]
    batch = queries.shape[0] if dims[0] is None else queries.movedim(dims[0], 0).shape[1]
    folded = list(arguments)
    for at in batched:
        if arguments[at] is not None:
            whole = at == _BIAS and any(needed)
            folded[at] = _folded(arguments[at], dims[at], info.batch_size, batch, whole)
    results = [t if t.dim() == 1 else t.unflatten(0, (info.batch_size, batch)) for t in op(*folded)]
    bias = arguments[_BIAS]
    if any(needed) and bias is not None and needed[_BIAS]:
        rows = bias.shape[0] if dims[_BIAS] is None else bias.movedim(dims[_BIAS], 0).shape[1]
        results[_BIAS] = results[_BIAS].sum(1, keepdim=True) if rows == 1 else results[_BIAS]
    return tuple(results), tuple(None if t.dim() == 1 else 0 for t in results)


def _loop(op, size, dims, arguments):
    calls = [
        op(*(a if d is None else a.select(d, entry) for a, d in zip(arguments, dims, strict=True)))
        for entry in range(size)
    ]
    return tuple(torch.stack(found) for found in zip(*calls, strict=True)), (0,) * len(calls[0])


def _folded(tensor, dim, size, batch, whole):
    """(size * batch, ...); a mask that is the same for all stays as it is, unless its gradient is asked for."""
    if dim is None:
        if tensor.shape[0] != batch and not whole:
            return tensor
        tensor = tensor.expand(size, *tensor.shape)
    else:
        tensor = tensor.movedim(dim, 0)
    if tensor.dim() > 2 or tensor.shape[1] != 0:
        tensor = tensor.expand(size, batch, *tensor.shape[2:])
    return tensor.reshape(size * batch, *tensor.shape[2:])


def _forward_rule(info, in_dims, *arguments):
    nobody = [False] * 6
    return _rule(torch.ops.headwise.attention, info, in_dims, arguments, _BATCHED, nobody)


def _backward_rule(info, in_dims, *arguments):
    batched = (*_BATCHED, *(at for at in _FROM_FORWARD if arguments[at].dim() > 1))
    return _rule(torch.ops.headwise.attention_backward, info, in_dims, arguments, batched, arguments[-1])


if hasattr(torch.library, "register_vmap"):  # from torch 2.5 on; before, vmap says itself that there is no rule
    torch.library.register_vmap("headwise::attention", _forward_rule)
    torch.library.register_vmap("headwise::attention_backward", _backward_rule)
