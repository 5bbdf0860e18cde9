# SPDX-License-Identifier: Apache-2.0
"""KvCache: the bits of one attention call, whatever the chunks; lengths, capacity, and what is refused."""

import re
import signal
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import headwise

DTYPES = [np.dtype("float32"), np.dtype("float64"), np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)]


def each_dtype(test):
    return pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)(test)


def problem(dtype, batch=2, heads=4, kv_heads=2, seq=300, head_dim=12, v_head_dim=20):
    rng = np.random.default_rng(0)
    shapes = ((heads, head_dim), (kv_heads, head_dim), (kv_heads, v_head_dim))
    return tuple(rng.normal(size=(batch, count, seq, width)).astype(dtype) for count, width in shapes)


def cache_for(k, v, capacity=None):
    batch, kv_heads, seq, head_dim = k.shape
    return headwise.KvCache(batch, kv_heads, capacity or seq, head_dim, v.shape[3], dtype=k.dtype)


def in_chunks(q, k, v, sizes, **options):
    """The context of every token, fed through a cache in chunks of those sizes, again and again."""
    cache, at, contexts, turn = cache_for(k, v), 0, [], 0
    while at < q.shape[2]:
        chunk = slice(at, at + sizes[turn % len(sizes)])
        cache.append(k[:, :, chunk], v[:, :, chunk])
        contexts.append(cache.attend(q[:, :, chunk], **options))
        at, turn = chunk.stop, turn + 1
    return np.concatenate(contexts, axis=2)


@each_dtype
@pytest.mark.parametrize("sizes", [(1,), (7,), (200, 1, 1, 65), (256,), (300,)], ids=str)
def test_chunks_of_any_size_give_the_bits_of_one_call(dtype, sizes):
    q, k, v = problem(dtype)
    expected = headwise.attention(q, k, v, causal=True)
    got = in_chunks(q, k, v, sizes)
    assert got.dtype == dtype
    assert got.tobytes() == expected.tobytes()


@each_dtype
def test_every_rule_gives_the_bits_of_one_call(dtype):
    q, k, v = problem(dtype)
    sums = "f8" if dtype == np.float64 else "f4"
    rules = {
        "scale": 0.3,
        "softcap": 2.0,
        "window": (40, -1),
        "alibi_slopes": np.linspace(0, 0.1, 4).astype(sums),
        "sinks": np.linspace(-1, 1, 4).astype(sums),
    }
    expected = headwise.attention(q, k, v, causal=True, **rules)
    assert in_chunks(q, k, v, (90,), **rules).tobytes() == expected.tobytes()


@each_dtype
def test_extras_are_those_of_one_call_over_all_tokens(dtype):
    q, k, v = problem(dtype)
    cache = cache_for(k, v)
    cache.append(k, v)
    rows = slice(290, 300)
    rng = np.random.default_rng(1)
    mask, bias = rng.random((10, 300)) < 0.9, rng.normal(size=(2, 1, 10, 300)).astype(dtype)
    extras = {"return_lse": True, "return_weights": True, "stats": True, "mask": mask, "bias": bias}
    got = cache.attend(q[:, :, rows], **extras)
    expected = headwise.attention(q[:, :, rows], k, v, causal="lower_right", **extras)
    for a, b in zip(got[:3], expected[:3], strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    assert list(got.stats) == list(expected.stats)
    assert all(got.stats[name].tobytes() == expected.stats[name].tobytes() for name in got.stats)
    assert got.saved is None
    out = np.empty_like(got.context)
    assert cache.attend(q[:, :, rows], mask=mask, bias=bias, out=out) is out
    assert out.tobytes() == got.context.tobytes()


@each_dtype
def test_ragged_sequences_give_the_bits_of_each_by_itself(dtype):
    q, k, v = problem(dtype, batch=3)
    cache, fed = cache_for(k, v), np.zeros(3, int)
    for counts in ([5, 0, 17], [30, 1, 2], [0, 64, 200]):
        tokens = max(counts)
        chunk_q, chunk_k, chunk_v = (np.full((3, a.shape[1], tokens, a.shape[3]), np.nan, dtype) for a in (q, k, v))
        for b, count in enumerate(counts):
            for chunk, whole in ((chunk_q, q), (chunk_k, k), (chunk_v, v)):
                chunk[b, :, :count] = whole[b, :, fed[b] : fed[b] + count]
        before = cache.lengths
        cache.append(chunk_k, chunk_v, np.array(counts))
        got = cache.attend(chunk_q, query_offset=before)
        for b, count in enumerate(counts):
            fed[b] += count
            alone = [a[b : b + 1, :, : fed[b]] for a in (q, k, v)]
            expected = headwise.attention(*alone, causal=True)[:, :, fed[b] - count :]
            assert got[b : b + 1, :, :count].tobytes() == expected.tobytes()
        assert cache.lengths.tolist() == fed.tolist()
    last = np.stack([q[b, :, fed[b] - 1 : fed[b]] for b in range(3)])
    rows = cache.attend(last)  # one row each, at the end of its own sequence
    for b in range(3):
        alone = headwise.attention(last[b : b + 1], k[b : b + 1, :, : fed[b]], v[b : b + 1, :, : fed[b]])
        assert rows[b : b + 1].tobytes() == alone.tobytes()


def test_a_chunk_sees_no_key_ahead_unless_causal_is_false():
    q, k, v = problem("f4", seq=6)
    cache = cache_for(k, v)
    cache.append(k, v)
    assert cache.attend(q).tobytes() == headwise.attention(q, k, v, causal=True).tobytes()
    assert cache.attend(q, causal=False).tobytes() == headwise.attention(q, k, v).tobytes()
    first = q[:, :, :2]
    assert cache.attend(first, causal="upper_left").tobytes() == cache.attend(first, query_offset=0).tobytes()
    assert cache.attend(first, query_offset=0).tobytes() == headwise.attention(q, k, v, causal=True)[:, :, :2].tobytes()


def test_any_strides_are_taken():
    q, k, v = problem("f4", seq=9)
    cache = cache_for(k, v)
    backwards = [np.ascontiguousarray(a[::-1, ::-1, ::-1, ::-1])[::-1, ::-1, ::-1, ::-1] for a in (q, k, v)]
    cache.append(*backwards[1:])
    assert cache.attend(backwards[0]).tobytes() == headwise.attention(q, k, v, causal=True).tobytes()


def test_truncate_and_reset_forget_tokens():
    q, k, v = problem("f4", seq=10)
    poisoned = k.copy()
    poisoned[:, :, 6:] = np.nan
    cache = cache_for(k, v)
    cache.append(poisoned, v)
    cache.truncate(6)
    assert cache.lengths.tolist() == [6, 6]
    cache.append(k[:, :, 6:], v[:, :, 6:])
    assert cache.attend(q).tobytes() == headwise.attention(q, k, v, causal=True).tobytes()
    cache.reset()
    assert cache.lengths.tolist() == [0, 0]
    assert not cache.attend(q).any()


def test_lengths_are_a_copy():
    cache = headwise.KvCache(2, 1, 4, 3)
    before = cache.lengths
    cache.append(np.ones((2, 1, 3, 3), "f4"), np.ones((2, 1, 3, 3), "f4"), [1, 3])
    assert before.dtype == np.int64
    assert before.tolist() == [0, 0]
    assert cache.lengths.tolist() == [1, 3]


def test_a_cache_says_what_it_holds():
    cache = headwise.KvCache(2, 3, 40, 8, 5, dtype=np.float16)
    facts = (cache.batch, cache.kv_heads, cache.capacity, cache.head_dim, cache.v_head_dim, cache.dtype)
    assert facts == (2, 3, 40, 8, 5, "float16")
    assert headwise.KvCache(1, 1, 1, 7).v_head_dim == 7
    assert cache.nbytes >= 2 * 2 * 3 * 40 * (8 + 5)
    text = "KvCache(batch=2, kv_heads=3, capacity=40, head_dim=8, v_head_dim=5, dtype=float16, lengths=[0, 0])"
    assert repr(cache) == text
    assert repr(headwise.KvCache(9, 1, 1, 1)).endswith("lengths=0..0)")


@each_dtype
def test_every_size_may_be_zero(dtype):
    for sizes in ((0, 2, 3, 4, 5), (1, 2, 0, 4, 5), (1, 2, 3, 0, 5), (1, 2, 3, 4, 0), (1, 0, 3, 4, 5), (0, 0, 0, 0, 0)):
        batch, kv_heads, capacity, head_dim, v_head_dim = sizes
        cache = headwise.KvCache(batch, kv_heads, capacity, head_dim, v_head_dim, dtype=dtype)
        k, v = (np.ones((batch, kv_heads, capacity, width), dtype) for width in (head_dim, v_head_dim))
        cache.append(k, v)
        got = cache.attend(np.ones((batch, kv_heads, 1, head_dim), dtype), return_weights=True)
        assert got.context.shape == (batch, kv_heads, 1, v_head_dim)
        assert (got.context == (1 if capacity else 0)).all()
        assert got.weights.shape == (batch, kv_heads, 1, capacity if batch else 0)


def empty():
    return headwise.KvCache(2, 2, 8, 4, 3)


def filled():
    cache = empty()
    cache.append(K, V)
    return cache


K, V, Q = np.zeros((2, 2, 5, 4), "f4"), np.zeros((2, 2, 5, 3), "f4"), np.zeros((2, 4, 2, 4), "f4")
TYPES = "KvCache: dtype must be float32, float64, float16 or bfloat16"
REFUSED = [
    (lambda: headwise.KvCache(-1, 2, 8, 4), ValueError, "KvCache: batch must be in 0..16777216, got -1"),
    (lambda: headwise.KvCache(1, 2, 2**30, 4), ValueError, "KvCache: capacity must be in 0..16777216, got 1073741824"),
    (lambda: headwise.KvCache(1, 2.0, 8, 4), TypeError, "KvCache: kv_heads must be an integer, got float"),
    (lambda: headwise.KvCache(1, 2, 8, True), TypeError, "KvCache: head_dim must be an integer, got bool"),
    (lambda: headwise.KvCache(1, 2, 8, 4, "3"), TypeError, "KvCache: v_head_dim must be an integer, got str"),
    (lambda: headwise.KvCache(1, 2, 8, 4, dtype="int8"), TypeError, f"{TYPES}, got int8"),
    (lambda: headwise.KvCache(1, 2, 8, 4, dtype=np.int32), TypeError, f"{TYPES}, got int32"),
    (lambda: headwise.KvCache(1, 2, 8, 4, dtype=None), TypeError, f"{TYPES}, got NoneType"),
    (lambda: empty().append(None, V), TypeError, "KvCache.append: k must be a numpy array, got NoneType"),
    (lambda: empty().append(K, V.tolist()), TypeError, "KvCache.append: v must be a numpy array, got list"),
    (
        lambda: empty().append(K.astype("f2"), V),
        TypeError,
        "KvCache.append: k must be float32 like the cache, got float16",
    ),
    (
        lambda: empty().append(K[:1], V),
        ValueError,
        "KvCache.append: k must be (batch=2, kv_heads=2, tokens, head_dim=4), got (1, 2, 5, 4)",
    ),
    (
        lambda: empty().append(K, V[:, :, :4]),
        ValueError,
        "KvCache.append: v must be (batch=2, kv_heads=2, tokens=5, v_head_dim=3), got (2, 2, 4, 3)",
    ),
    (lambda: empty().append(K, V, [1]), ValueError, "KvCache.append: counts must be (batch=2,), got (1,)"),
    (lambda: empty().append(K, V, []), ValueError, "KvCache.append: counts must be (batch=2,), got (0,)"),
    (
        lambda: empty().append(K, V, 3),
        TypeError,
        "KvCache.append: counts must be an array of integers, got int",
    ),
    (
        lambda: empty().append(K, V, [1, 6]),
        ValueError,
        "KvCache.append: counts must be in 0..tokens=5, got 6 at batch entry 1",
    ),
    (
        lambda: filled().append(K, V, [3, 4]),
        ValueError,
        "KvCache.append: capacity=8 does not hold 5 + 4 tokens at batch entry 1",
    ),
    (lambda: filled().attend(None), TypeError, "KvCache.attend: q must be a numpy array, got NoneType"),
    (
        lambda: filled().attend(Q.astype("f8")),
        TypeError,
        "KvCache.attend: q must be float32 like the cache, got float64",
    ),
    (
        lambda: filled().attend(Q[..., :3]),
        ValueError,
        "KvCache.attend: q must be (batch=2, heads, seq_q, head_dim=4), got (2, 4, 2, 3)",
    ),
    (
        lambda: filled().attend(Q[:, :3]),
        ValueError,
        "KvCache.attend: heads=3 is not divisible by kv_heads=2; nearest valid kv_heads: 1, 3",
    ),
    (
        lambda: filled().attend(Q, mask=np.ones((2, 8), bool)),
        ValueError,
        "KvCache.attend: mask must be (seq_q=2, seq_kv=5), got (2, 8)",
    ),
    (
        lambda: filled().attend(Q, causal="lower_right", query_offset=1),
        ValueError,
        'KvCache.attend: causal="lower_right" and query_offset both say where the queries stand; give one of them',
    ),
    (
        lambda: filled().attend(Q, softcap=-1),
        ValueError,
        "KvCache.attend: softcap must be a finite number above 0, got -1",
    ),
    (
        lambda: filled().attend(Q, out=np.zeros((2, 4, 2, 4), "f4")),
        ValueError,
        "KvCache.attend: out must be (batch=2, heads=4, seq_q=2, v_head_dim=3), got (2, 4, 2, 4)",
    ),
    (
        lambda: filled().attend(Q, stats="entropy"),
        TypeError,
        "KvCache.attend: stats must be True or a tuple of names, got str",
    ),
    (lambda: filled().truncate(-1), ValueError, "KvCache.truncate: length must be in 0..8, got -1"),
    (lambda: filled().truncate(9), ValueError, "KvCache.truncate: length must be in 0..8, got 9"),
    (lambda: filled().truncate(1.0), TypeError, "KvCache.truncate: length must be an integer, got float"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[case[2] for case in REFUSED])
def test_a_wrong_call_is_refused(call, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()


def test_a_refused_append_writes_nothing():
    q, k, v = problem("f4", seq=8)
    cache = cache_for(k, v)
    cache.append(k[:, :, :5], v[:, :, :5])
    expected = cache.attend(q).tobytes()
    with pytest.raises(ValueError, match="does not hold"):
        cache.append(k, v, [1, 8])
    assert cache.lengths.tolist() == [5, 5]
    assert cache.attend(q).tobytes() == expected


def test_a_cache_larger_than_free_memory_is_refused():
    with pytest.raises(MemoryError) as raised:
        headwise.KvCache(1000, 1000, 1_000_000, 128)
    text = r"KvCache: 1000000 keys and values for each of batch=1000 and kv_heads=1000 need \d+\.\d GiB of memory, "
    assert re.fullmatch(text + r"\d+\.\d GiB are free", str(raised.value))


def long_call():
    """A cache and queries that one core is busy with for far longer than a test may wait."""
    rng = np.random.default_rng(0)
    k = rng.normal(size=(1, 8, 16384, 64)).astype("f4")
    cache = cache_for(k, k)
    cache.append(k, k)
    return cache, k


def test_ctrl_c_stops_attend_and_leaves_the_cache_usable():
    cache, q = long_call()
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        cache.attend(q)
    timer.join()
    row = q[:, :, -1:]
    assert cache.attend(row).tobytes() == headwise.attention(row, q, q).tobytes()


def test_a_second_thread_is_refused_while_a_call_is_under_way():
    cache, q = long_call()
    refused = []

    def disturb():
        for call in (lambda: cache.append(q, q), lambda: cache.attend(q), lambda: cache.truncate(0)):
            try:
                call()
            except RuntimeError as error:
                refused.append(str(error))
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(0.1, disturb)
    begun = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        cache.attend(q)
    timer.join()
    assert time.perf_counter() - begun < 10
    assert refused == [
        f"KvCache.{name}: another thread is inside a call of this cache" for name in ("append", "attend", "truncate")
    ]
    assert cache.lengths.tolist() == [16384]
