# SPDX-License-Identifier: Apache-2.0
"""`MultiheadAttention`: torch.nn.MultiheadAttention's signature and state_dict over headwise's kernels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ._attention import scaled_dot_product_attention
from ._errors import DTypeError, ShapeError
from ._multihead_masks import key_mask, score_masks, with_more_keys

_WHO = "MultiheadAttention"


class MultiheadAttention(nn.MultiheadAttention):
    """torch.nn.MultiheadAttention: the same arguments, initial weights, state_dict and polarity of masks.

    What differs: is_causal is causal in every mode, with or without attn_mask; a row that sees no key is 0; returned
    weights are those before dropout; the output is contiguous; one path, hooks and all, in training and out of it.

    Args:
        embed_dim: width of the queries and of the output. num_heads: divides embed_dim, unless head_dim is given.
        dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype: as in torch.
        num_kv_heads: fewer heads for keys and values; divides num_heads.
        head_dim: width of one head, embed_dim // num_heads unless given.
            With either of them in_proj_weight is ((num_heads + 2 * num_kv_heads) * head_dim, embed_dim), and
            out_proj.weight (embed_dim, num_heads * head_dim).
    """

    def __init__(
        self,
        embed_dim,
        num_heads,
        dropout=0.0,
        bias=True,
        add_bias_kv=False,
        add_zero_attn=False,
        kdim=None,
        vdim=None,
        batch_first=False,
        device=None,
        dtype=None,
        *,
        num_kv_heads=None,
        head_dim=None,
    ):
        _check_counts(embed_dim, num_heads, num_kv_heads, head_dim, dropout)
        # torch draws its initial weights: the same after the same manual_seed.
        super().__init__(
            num_heads * (embed_dim // num_heads) or num_heads,
            num_heads,
            dropout,
            bias,
            add_bias_kv,
            add_zero_attn,
            kdim if kdim is not None else embed_dim,
            vdim if vdim is not None else embed_dim,
            batch_first,
            device,
            dtype,
        )
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        width = embed_dim // num_heads if head_dim is None else head_dim
        if self.num_kv_heads != num_heads or width * num_heads != embed_dim:
            self._take_other_widths(embed_dim, width, device, dtype)

    def _take_other_widths(self, embed_dim, head_dim, device, dtype):
        """Parameters of the shapes that torch's module cannot have."""
        packed = self.kdim == self.vdim == embed_dim
        rows, kv_rows = self.num_heads * head_dim, self.num_kv_heads * head_dim
        self.embed_dim, self.head_dim = embed_dim, head_dim

        def new(*shape):
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        shapes = {"q": (rows, embed_dim), "k": (kv_rows, self.kdim), "v": (kv_rows, self.vdim)}
        for name, shape in shapes.items():
            self.register_parameter(f"{name}_proj_weight", None if packed else new(*shape))
        self.register_parameter("in_proj_weight", new(rows + 2 * kv_rows, embed_dim) if packed else None)
        # torch reads this to choose a path of its own, which knows its own shapes alone.
        self._qkv_same_embed_dim = False
        has_bias = self.in_proj_bias is not None
        self.register_parameter("in_proj_bias", new(rows + 2 * kv_rows) if has_bias else None)
        self.out_proj = nn.Linear(rows, embed_dim, bias=has_bias, device=device, dtype=dtype)
        if self.bias_k is not None:
            self.bias_k, self.bias_v = new(1, 1, kv_rows), new(1, 1, kv_rows)
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                nn.init.xavier_normal_(row)

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        """(output, weights or None), as torch's.

        Args:
            query: (seq_q, batch, embed_dim), with batch_first (batch, seq_q, embed_dim), or unbatched
                (seq_q, embed_dim). key, value: the same with seq_kv and kdim, vdim.
            key_padding_mask: (batch, seq_kv), unbatched (seq_kv,): bool, True = ignore the key; or numbers to add.
            need_weights: also give the weights: before dropout, with a column for each of bias_kv and zero_attn.
            attn_mask: (seq_q, seq_kv), (batch * num_heads, seq_q, seq_kv) or four axes that broadcast to
                (batch, num_heads, seq_q, seq_kv): bool, True = do not attend; or numbers to add.
            average_attn_weights: weights (batch, seq_q, seq_kv), the mean over heads; else per head.
            is_causal: query row i sees keys 0..i; with attn_mask, what both allow.
        """
        axes = _check_inputs(self, query, key, value)
        batched = query.dim() == 3
        if not batched:
            query, key, value = _one_batch(query, key, value, self.batch_first)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask[None]
        q, k, v = (self._per_head(t) for t in self._project(query, key, value))
        mask, bias = score_masks(_WHO, attn_mask, axes, q.dtype)
        mask, bias = key_mask(_WHO, key_padding_mask, mask, bias, axes, q.dtype)
        if self.bias_k is not None or self.add_zero_attn:
            k, v, mask, bias = self._more_keys(k, v, mask, bias, q.shape[2] if is_causal else None)
            is_causal = False
        result = scaled_dot_product_attention(
            q,
            k,
            v,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
            enable_gqa=True,
            mask=mask,
            bias=bias,
            return_weights=bool(need_weights),
        )
        context, weights = (result.context, result.weights) if need_weights else (result, None)
        merged = context.permute((0, 2, 1, 3) if self.batch_first else (2, 0, 1, 3)).flatten(2)
        out = self.out_proj(merged)
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            out = out.squeeze(0 if self.batch_first else 1)
            weights = None if weights is None else weights.squeeze(0)
        return out, weights

    def _project(self, query, key, value):
        """Queries, keys and values, (.., .., rows) each; what is one tensor is projected in one product."""
        rows, kv_rows = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        bias = self.in_proj_bias
        if self.in_proj_weight is None:
            parts = (None,) * 3 if bias is None else bias.split((rows, kv_rows, kv_rows))
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, parts, strict=True)]
        if query is key and key is value:
            return F.linear(query, self.in_proj_weight, bias).split((rows, kv_rows, kv_rows), dim=-1)
        cuts = (rows, 2 * kv_rows) if key is value else (rows, kv_rows, kv_rows)
        inputs = (query, key) if key is value else (query, key, value)
        biases = (None,) * len(cuts) if bias is None else bias.split(cuts)
        done = [F.linear(x, w, b) for x, w, b in zip(inputs, self.in_proj_weight.split(cuts), biases, strict=True)]
        return [done[0], *done[1].split((kv_rows, kv_rows), dim=-1)] if key is value else done

    def _per_head(self, projected):
        """A view (batch, heads, seq, head_dim)."""
        return projected.unflatten(2, (-1, self.head_dim)).permute((0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3))

    def _more_keys(self, k, v, mask, bias, causal_rows):
        """Keys and values with the learned row and the zero row behind them, and masks that show both to all."""
        seq_kv, batch = k.shape[2], k.shape[0]
        if self.bias_k is not None:
            k, v = (
                torch.cat([t, row.to(t.dtype).view(1, -1, 1, self.head_dim).expand(batch, -1, -1, -1)], dim=2)
                for t, row in ((k, self.bias_k), (v, self.bias_v))
            )
        if self.add_zero_attn:
            k, v = (torch.cat([t, t.new_zeros(*t.shape[:2], 1, t.shape[3])], dim=2) for t in (k, v))
        return (k, v, *with_more_keys(mask, bias, causal_rows, seq_kv, k.shape[2] - seq_kv))


def _check_counts(embed_dim, num_heads, num_kv_heads, head_dim, dropout):
    for name, count in (("embed_dim", embed_dim), ("num_heads", num_heads), ("num_kv_heads", num_kv_heads)):
        if count is not None and count <= 0:
            raise ShapeError(f"{_WHO}: {name} must be above 0, got {count}")
    if head_dim is not None and head_dim <= 0:
        raise ShapeError(f"{_WHO}: head_dim must be above 0, got {head_dim}")
    if head_dim is None and embed_dim % num_heads:
        near = [n for n in range(1, embed_dim + 1) if embed_dim % n == 0]
        below, above = (
            max(n for n in near if n <= num_heads),
            min((n for n in near if n >= num_heads), default=embed_dim),
        )
        raise ShapeError(
            f"{_WHO}: embed_dim={embed_dim} is not divisible by num_heads={num_heads}; "
            f"nearest valid num_heads: {below}, {above}"
        )
    if num_kv_heads is not None and num_heads % num_kv_heads:
        raise ShapeError(f"{_WHO}: num_heads={num_heads} is not divisible by num_kv_heads={num_kv_heads}")
    if not 0 <= dropout <= 1:
        raise ShapeError(f"{_WHO}: dropout must be in [0, 1], got {dropout}")


def _check_inputs(module, query, key, value):
    """(batch, heads, seq_q, seq_kv); throws when the three do not fit together or into the module."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, torch.Tensor):
            raise DTypeError(f"{_WHO}: {name} must be a torch.Tensor, got {type(tensor).__name__}")
        if tensor.is_nested:
            raise DTypeError(f"{_WHO}: {name} must be a dense tensor, got a nested tensor")
    if query.dim() not in (2, 3):
        raise ShapeError(f"{_WHO}: query must have 3 axes, or 2 unbatched, got {tuple(query.shape)}")
    order = ("batch", "seq") if module.batch_first else ("seq", "batch")
    at_batch = order.index("batch")
    batch = query.shape[at_batch] if query.dim() == 3 else None
    seq_q, seq_kv = (t.shape[1 - at_batch if batch is not None else 0] if t.dim() > 1 else 0 for t in (query, key))
    wanted = {
        "query": (query, seq_q, "embed_dim", module.embed_dim),
        "key": (key, seq_kv, "kdim", module.kdim),
        "value": (value, seq_kv, "vdim", module.vdim),
    }
    for name, (tensor, seq, axis, width) in wanted.items():
        label = "seq_q" if name == "query" else "seq_kv"
        fits = [seq, width] if batch is None else [batch, seq, width] if module.batch_first else [seq, batch, width]
        if list(tensor.shape) == fits:
            continue
        length = f"{label}={seq}" if name == "value" else label
        lead = (
            [length] if batch is None else [f"batch={batch}", length] if at_batch == 0 else [length, f"batch={batch}"]
        )
        raise ShapeError(
            f"{_WHO}: {name} must be ({', '.join(lead)}, {axis}={width}) with batch_first={module.batch_first}, "
            f"got {tuple(tensor.shape)}"
        )
    return (1 if batch is None else batch), module.num_heads, seq_q, seq_kv


def _one_batch(query, key, value, batch_first):
    """The three with a batch of 1; what was one tensor stays one."""
    made = {}
    return tuple(made.setdefault(id(t), t.unsqueeze(0 if batch_first else 1)) for t in (query, key, value))
