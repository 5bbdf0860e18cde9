# SPDX-License-Identifier: Apache-2.0
"""Keys and values of the tokens so far, for decoding: the names, defaults and meaning of every argument."""

from __future__ import annotations

from . import _headwise
from ._attention import AttentionResult
from ._attention_layer import _check_version, _dtype_name


class KvCache:
    """Keys and values of the tokens so far, packed once in the form that the kernels read.

    Tokens are appended behind those of each batch entry, and queries attend to all that are there. Prefill at once, in
    chunks of any size or token by token gives the same bits as one `attention` call over all tokens.

    Memory is taken when the cache is made and never grows: an append beyond the capacity is an error, and leaves the
    cache as it was. One thread at a time: a call from a second thread, while one is under way, is a RuntimeError.

    Args:
        batch: sequences side by side; each has a length of its own.
        kv_heads: heads of keys and values.
        capacity: tokens that each sequence has room for.
        head_dim: width of a key.
        v_head_dim: width of a value, head_dim unless given.
        dtype: "float32", "float64", "float16" or "bfloat16", of the keys, the values and the queries to come.
    """

    def __init__(self, batch, kv_heads, capacity, head_dim, v_head_dim=None, *, dtype="float32"):
        self._cache = _headwise.KvCache(batch, kv_heads, capacity, head_dim, v_head_dim, _dtype_name(dtype))

    def append(self, k, v, counts=None):
        """Puts tokens behind those of each batch entry; on an error nothing is written.

        Args:
            k: (batch, kv_heads, tokens, head_dim), of the cache's type, any strides.
            v: (batch, kv_heads, tokens, v_head_dim).
            counts: (batch,) integers in 0..tokens, how many of the tokens each entry takes, from the first on; all of
                them unless given.
        """
        self._cache.append(k, v, counts)

    def attend(
        self,
        q,
        *,
        mask=None,
        bias=None,
        causal=True,
        query_offset=None,
        window=None,
        scale=None,
        softcap=None,
        alibi_slopes=None,
        sinks=None,
        return_lse=False,
        return_weights=False,
        stats=None,
        out=None,
    ):
        """Attention of q to every token in the cache; see `attention` for what is computed.

        Unless query_offset says otherwise, the query rows stand at the end of their sequence: the last row at the last
        token that was appended. `causal` is True by default, so that a chunk of several rows does not see ahead; for
        a single row it changes nothing. seq_kv below is the length of the longest sequence, `lengths.max()`; shorter
        ones end where they end.

        Args:
            q: (batch, heads, seq_q, head_dim), of the cache's type; heads is a multiple of kv_heads.
            mask: bool, True = attend; (seq_q, seq_kv), or (batch, heads, seq_q, seq_kv) with any axis 1.
            bias: of the cache's type, shapes as mask.
            causal: True, False, "upper_left" or "lower_right".
            query_offset: query row i stands at position i + query_offset; an integer, or (batch,) integers. After an
                append with counts, the lengths before it put row i at token i of the chunk.
            window, scale, softcap, alibi_slopes, sinks, return_lse, return_weights, stats: as in `attention`.
            out: (batch, heads, seq_q, v_head_dim), written to; no memory of another argument.

        Returns:
            The context, (batch, heads, seq_q, v_head_dim); an `AttentionResult` if any more is asked for.
        """
        result = self._cache.attend(
            q,
            mask,
            bias,
            causal,
            query_offset,
            window,
            scale,
            softcap,
            alibi_slopes,
            sinks,
            return_lse,
            return_weights,
            stats,
            out,
        )
        return AttentionResult(*result) if type(result) is tuple else result

    def __getstate__(self):
        """For copy and pickle: the sizes, and the keys and values of the tokens so far."""
        sizes = {name: getattr(self, name) for name in ("batch", "kv_heads", "capacity", "head_dim", "v_head_dim")}
        others = {name: value for name, value in self.__dict__.items() if name != "_cache"}
        keys, values = self._cache.tokens()
        state = {"version": 1, "dtype": self.dtype, "sizes": sizes, "lengths": self.lengths}
        return {**state, "keys": keys, "values": values, "attributes": others}

    def __setstate__(self, state):
        _check_version(type(self).__name__, state)
        KvCache.__init__(self, **state["sizes"], dtype=state["dtype"])
        if state["lengths"].any():
            self._cache.append(state["keys"], state["values"], state["lengths"])
        self.__dict__.update(state["attributes"])

    def truncate(self, length):
        """Forgets the tokens from `length` on, of every batch entry; an integer in 0..capacity."""
        self._cache.truncate(length)

    def reset(self):
        """Forgets every token."""
        self._cache.truncate(0)

    @property
    def lengths(self):
        """Tokens held by each batch entry, (batch,) int64; a copy."""
        return self._cache.lengths

    @property
    def batch(self):
        return self._cache.batch

    @property
    def kv_heads(self):
        return self._cache.kv_heads

    @property
    def capacity(self):
        return self._cache.capacity

    @property
    def head_dim(self):
        return self._cache.head_dim

    @property
    def v_head_dim(self):
        return self._cache.v_head_dim

    @property
    def dtype(self):
        """The type's name."""
        return self._cache.dtype

    @property
    def nbytes(self):
        """Bytes of the packed keys and values, for the whole capacity."""
        return self._cache.nbytes

    def __repr__(self):
        lengths = self.lengths.tolist()
        held = lengths if len(lengths) <= 8 else f"{min(lengths)}..{max(lengths)}"
        return (
            f"KvCache(batch={self.batch}, kv_heads={self.kv_heads}, capacity={self.capacity}, "
            f"head_dim={self.head_dim}, v_head_dim={self.v_head_dim}, dtype={self.dtype}, lengths={held})"
        )
