# SPDX-License-Identifier: Apache-2.0
"""From what torch's users pass, any number of axes and any mask that broadcasts, to the four axes of the kernels."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from ._errors import DTypeError, ShapeError

_TYPES = frozenset((torch.float32, torch.float64, torch.bfloat16, torch.float16))
_STRIDED = torch.strided


class Problem(NamedTuple):
    """Tensors of four axes, and the shape whose leading axes the results get back."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: torch.Tensor | None
    bias: torch.Tensor | None
    lead: tuple | None  # None: the four axes are the caller's own


def check_tensor(who, name, tensor, query=None):
    """A dense tensor on the CPU, or with query on the meta device, where there are shapes alone."""
    if not isinstance(tensor, torch.Tensor):
        raise DTypeError(f"{who}: {name} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.is_nested or tensor.layout is not torch.strided:
        kind = "a nested tensor" if tensor.is_nested else f"layout {tensor.layout}"
        raise DTypeError(f"{who}: {name} must be a dense tensor, got {kind}")
    if query is not None and tensor.device != query.device and tensor.device.type != "cpu":
        raise DTypeError(f"{who}: {name} must be on the CPU like query, got device {tensor.device}")
    if query is None and tensor.device.type not in ("cpu", "meta"):
        raise DTypeError(f"{who}: {name} must be on the CPU, got device {tensor.device}")


def are_plain_inputs(query, key, value):
    """Whether there is nothing to say about them: the quick way through `check_inputs`."""
    try:
        dtype = query.dtype
        return (
            dtype in _TYPES
            and dtype is key.dtype is value.dtype
            and query.is_cpu
            and key.is_cpu
            and value.is_cpu
            and not (query.is_nested or key.is_nested or value.is_nested)
            and query.layout is key.layout is value.layout is _STRIDED
            and query.dim() == 4
        )
    except AttributeError:
        return False


def check_inputs(who, query, key, value):
    """Kinds, types and numbers of axes of the three."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_tensor(who, name, tensor, None if tensor is query else query)
        if tensor.dtype not in _TYPES:
            raise DTypeError(f"{who}: {name} must be float32, float64, bfloat16 or float16, got {tensor.dtype}")
        if tensor.dim() < 2:
            raise ShapeError(f"{who}: {name} must have at least 2 axes (seq, head_dim), got {tuple(tensor.shape)}")
        if tensor.dtype is not query.dtype:
            raise DTypeError(f"{who}: {name} must be {query.dtype} like query, got {tensor.dtype}")


def split_mask(who, attn_mask, query):
    """attn_mask as (mask, bias): bool says who is seen, numbers are added."""
    check_tensor(who, "attn_mask", attn_mask, query)
    dtype = query.dtype
    if attn_mask.dtype is torch.bool:
        return attn_mask, None
    if attn_mask.dtype not in (dtype, torch.float32):
        also = "" if dtype is torch.float32 else f" or {dtype} like query"
        raise DTypeError(f"{who}: attn_mask must be torch.bool, torch.float32{also}, got {attn_mask.dtype}")
    return None, attn_mask


def four_axes(who, query, key, value, mask, bias, enable_gqa):
    """The problem with (batch, heads, seq, head_dim) tensors; views wherever torch can make one."""
    if query.dim() == 4 and key.dim() == 4 and value.dim() == 4:
        b, h, rows, d = query.shape
        bk, hk, s, dk = key.shape
        bv, hv, sv, _ = value.shape
        plain = b == bk == bv and d == dk and s == sv and hk == hv
        if plain and (h == hk or hk == 1 or (enable_gqa and hk and h % hk == 0)):
            if mask is None and bias is None:
                return Problem(query, key, value, None, None, None)
            mask4, bias4 = _small_mask(mask, b, h, rows, s), _small_mask(bias, b, h, rows, s)
            if mask4 is not False and bias4 is not False:
                return Problem(query, key, value, mask4, bias4, None)
    return _broadcast(who, query, key, value, mask, bias, enable_gqa)


def _small_mask(mask, batch, heads, seq_q, seq_kv):
    """The mask with four axes, each 1 or whole; False where that is not all there is to do."""
    if mask is None:
        return None
    if mask.dim() > 4:
        return False
    if mask.dim() < 4:
        mask = mask[(None,) * (4 - mask.dim())]
    for got, whole in zip(mask.shape, (batch, heads, seq_q, seq_kv), strict=True):
        if got not in (1, whole):
            return False
    return mask


def _broadcast(who, query, key, value, mask, bias, enable_gqa):
    _check_widths(who, query, key, value)
    flat = query.dim() == key.dim() == value.dim() == 2 and all(m is None or m.dim() <= 2 for m in (mask, bias))
    q, k, v = (t if t.dim() > 2 else t[None] for t in (query, key, value))
    heads = _heads(who, q, k, v, mask, bias, enable_gqa)
    kv_heads = (k.shape[-3], v.shape[-3])
    if kv_heads[0] != kv_heads[1]:
        if enable_gqa:
            k, v = (t.repeat_interleave(heads // t.shape[-3], dim=-3) for t in (k, v))
        kv_heads = (max(kv_heads),) * 2 if not enable_gqa else (heads, heads)
    masks = [m if m is None or m.dim() >= 3 else m[(None,) * (3 - m.dim())] for m in (mask, bias)]
    try:
        lead = torch.broadcast_shapes(*(t.shape[:-3] for t in (q, k, v, *masks) if t is not None))
    except RuntimeError:
        raise ShapeError(
            f"{who}: the axes before heads must broadcast, got query {tuple(query.shape)}, key {tuple(key.shape)}, "
            f"value {tuple(value.shape)}" + "".join(f", mask {tuple(m.shape)}" for m in masks if m is not None)
        ) from None

    batch = math.prod(lead)

    def whole(tensor, count):
        return tensor.expand(*lead, count, *tensor.shape[-2:]).reshape(batch, count, *tensor.shape[-2:])

    def whole_mask(given):
        if given is None:
            return None
        _check_mask(who, given, heads, q.shape[-2], k.shape[-2])
        if all(extent == 1 for extent in given.shape[:-3]):
            return given.reshape(1, *given.shape[-3:])
        return given.expand(*lead, *given.shape[-3:]).reshape(batch, *given.shape[-3:])

    problem = (whole(q, heads), whole(k, kv_heads[0]), whole(v, kv_heads[1]), *map(whole_mask, masks))
    return Problem(*problem, () if flat else (*lead, heads))


def _check_widths(who, query, key, value):
    if key.shape[-1] != query.shape[-1]:
        raise ShapeError(
            f"{who}: key must be (..., kv_heads, seq_kv, head_dim={query.shape[-1]}) like query, got {tuple(key.shape)}"
        )
    if value.shape[-2] != key.shape[-2]:
        raise ShapeError(
            f"{who}: value must be (..., kv_heads, seq_kv={key.shape[-2]}, v_head_dim) like key, "
            f"got {tuple(value.shape)}"
        )


def _heads(who, q, k, v, mask, bias, enable_gqa):
    """The number of heads of the result."""
    h, hk, hv = q.shape[-3], k.shape[-3], v.shape[-3]
    if enable_gqa:
        for name, count in (("key", hk), ("value", hv)):
            if count != h and (count == 0 or h % count):
                raise ShapeError(
                    f"{who}: with enable_gqa the heads of query must be a multiple of those of {name}, "
                    f"got heads={h} and kv_heads={count}"
                )
    counts = {h} if enable_gqa else {h, hk, hv}
    counts |= {m.shape[-3] for m in (mask, bias) if m is not None and m.dim() >= 3}
    more = counts - {1}
    if len(more) <= 1:
        return more.pop() if more else 1
    if not enable_gqa and len({h, hk, hv} - {1}) > 1:
        hint = "; for grouped heads give enable_gqa=True" if hk == hv and hk and h % hk == 0 else ""
        raise ShapeError(f"{who}: query, key and value must have the same heads, got {h}, {hk} and {hv}{hint}")
    wrong = next(m for m in (mask, bias) if m is not None and m.dim() >= 3 and m.shape[-3] not in (1, max(h, hk, hv)))
    return _refuse_mask(who, wrong, max(h, hk, hv), q.shape[-2], k.shape[-2])


def _check_mask(who, mask, heads, seq_q, seq_kv):
    for got, expected in zip(mask.shape[-3:], (heads, seq_q, seq_kv), strict=True):
        if got not in (1, expected):
            _refuse_mask(who, mask, heads, seq_q, seq_kv)


def _refuse_mask(who, mask, heads, seq_q, seq_kv):
    raise ShapeError(
        f"{who}: a mask must broadcast to (..., heads={heads}, seq_q={seq_q}, seq_kv={seq_kv}), got {tuple(mask.shape)}"
    )
