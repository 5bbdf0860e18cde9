# SPDX-License-Identifier: Apache-2.0
"""Wrong calls of headwise.torch: each text whole."""

import math

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from headwise.torch import scaled_dot_product_attention as sdpa

Q = torch.zeros(2, 4, 5, 8)
WHO = "scaled_dot_product_attention: "
WRONG = [
    (((1, 2), Q, Q), {}, TypeError, "query must be a torch.Tensor, got tuple"),
    ((Q, None, Q), {}, TypeError, "key must be a torch.Tensor, got NoneType"),
    ((Q.int(), Q, Q), {}, TypeError, "query must be float32, float64, bfloat16 or float16, got torch.int32"),
    ((Q, Q.double(), Q), {}, TypeError, "key must be torch.float32 like query, got torch.float64"),
    ((Q[0, 0, 0], Q, Q), {}, ValueError, "query must have at least 2 axes (seq, head_dim), got (8,)"),
    ((Q.to_sparse(), Q, Q), {}, TypeError, "query must be a dense tensor, got layout torch.sparse_coo"),
    ((Q, Q[..., :7], Q), {}, ValueError,
     "key must be (..., kv_heads, seq_kv, head_dim=8) like query, got (2, 4, 5, 7)"),
    ((Q, Q, Q[:, :, :3]), {}, ValueError,
     "value must be (..., kv_heads, seq_kv=5, v_head_dim) like key, got (2, 4, 3, 8)"),
    ((Q, Q[:, :2], Q[:, :2]), {}, ValueError,
     "query, key and value must have the same heads, got 4, 2 and 2; for grouped heads give enable_gqa=True"),
    ((Q, Q[:, :3], Q[:, :3]), {}, ValueError, "query, key and value must have the same heads, got 4, 3 and 3"),
    ((Q, Q[:, :3], Q[:, :3]), {"enable_gqa": True}, ValueError,
     "with enable_gqa the heads of query must be a multiple of those of key, got heads=4 and kv_heads=3"),
    ((Q, Q.repeat(2, 1, 1, 1)[:3], Q), {}, ValueError,
     "the axes before heads must broadcast, got query (2, 4, 5, 8), key (3, 4, 5, 8), value (2, 4, 5, 8)"),
    ((Q, Q, Q, torch.zeros(5, 5, dtype=torch.int64)), {}, TypeError,
     "attn_mask must be torch.bool, torch.float32, got torch.int64"),
    ((Q.half(), Q.half(), Q.half(), torch.zeros(5, 5).double()), {}, TypeError,
     "attn_mask must be torch.bool, torch.float32 or torch.float16 like query, got torch.float64"),
    ((Q, Q, Q, torch.zeros(5, 4)), {}, ValueError,
     "a mask must broadcast to (..., heads=4, seq_q=5, seq_kv=5), got (1, 5, 4)"),
    ((Q, Q, Q, torch.zeros(3, 5, 5)), {}, ValueError,
     "a mask must broadcast to (..., heads=4, seq_q=5, seq_kv=5), got (3, 5, 5)"),
    ((Q, Q, Q, [[1.0]]), {}, TypeError, "attn_mask must be a torch.Tensor, got list"),
    ((Q, Q, Q), {"dropout_p": 1.5}, ValueError, "dropout_p must be in [0, 1], got 1.5"),
    ((Q, Q, Q), {"mask": torch.zeros(5, 5)}, TypeError, "mask must be torch.bool (True = attend), got torch.float32"),
    ((Q, Q, Q), {"bias": torch.zeros(5, 5).half()}, TypeError,
     "bias must be torch.float32 like query or torch.float32, got torch.float16"),
    ((Q, Q, Q), {"causal": "left"}, ValueError,
     "causal must be False, True, \"upper_left\" or \"lower_right\", got 'left'"),
    ((Q, Q, Q), {"causal": "lower_right", "query_offset": 1}, ValueError,
     'causal="lower_right" and query_offset both say where the queries stand'),
    ((Q, Q, Q), {"causal": "lower_right", "is_causal": True}, ValueError,
     'is_causal=True is upper left; give it or causal="lower_right"'),
    ((Q, Q, Q), {"kv_lengths": [5, 6]}, ValueError, "kv_lengths must be in 0..seq_kv=5, got 6 at batch entry 1"),
    ((Q, Q, Q), {"kv_lengths": [5]}, ValueError, "kv_lengths must be (batch=2,), got (1,)"),
    ((Q, Q, Q), {"scale": math.nan}, ValueError, "scale must be a finite number, got nan"),
    ((Q, Q, Q), {"softcap": -1.0}, ValueError, "softcap must be a finite number above 0, got -1"),
    ((Q, Q, Q), {"sinks": torch.zeros(3)}, ValueError, "sinks must be (heads=4,), got (3,)"),
    ((Q, Q.to("meta"), Q), {}, TypeError, "key must be on the CPU like query, got device meta"),
    ((Q, Q, Q, torch.zeros(5, 5, device="meta")), {}, TypeError,
     "attn_mask must be on the CPU like query, got device meta"),
    ((Q, Q, Q), {"sinks": torch.zeros(4, device="meta")}, TypeError,
     "sinks must be on the CPU like query, got device meta"),
    ((Q, Q, Q), {"alibi_slopes": [1.0]}, TypeError, "alibi_slopes must be a torch.Tensor, got list"),
    ((Q, Q, Q), {"stats": ("colour",)}, ValueError,
     'stats has no "colour"; the names are entropy, max_weight, top_keys, distance, self, previous, next, first, '
     'received'),
    ((Q, Q, Q), {"window": (1,)}, ValueError, "window must be a tuple (left, right), got 1 entries"),
    ((Q, Q, Q), {"dropout_p": -0.1}, ValueError, "dropout_p must be in [0, 1], got -0.1"),
    ((Q, Q, Q), {"dropout_p": 0.5, "seed": -1}, ValueError, "seed must be in 0..2**64-1, got -1"),
    ((Q, Q, Q), {"alibi_slopes": torch.zeros(4).double()}, TypeError,
     "alibi_slopes must be float32 like q, got torch.float64"),
    ((Q, Q, Q), {"query_offset": [1, 2, 3]}, ValueError, "query_offset must be (batch=2,), got (3,)"),
    ((Q, Q, Q), {"batch_offset": -1}, ValueError, "batch_offset must be in 0..4294967295, got -1"),
    ((Q, Q, Q), {"return_weights": "after"}, ValueError,
     "return_weights must be False, True or \"after_dropout\", got 'after'"),
    ((Q, Q, Q, causal_upper_left(5, 6)), {}, ValueError,
     "attn_mask was made for seq_q=5 and seq_kv=6, query and key have 5 and 5"),
    ((Q, Q, Q, causal_lower_right(5, 5)), {"is_causal": True}, ValueError,
     "is_causal=True and an attn_mask of class CausalBias both say what is causal"),
    ((Q, Q, Q, causal_lower_right(5, 5)), {"causal": True}, ValueError,
     "causal, query_offset and an attn_mask of class CausalBias exclude each other"),
    ((Q, Q, Q, torch.zeros(2, 5, 5)), {"bias": torch.zeros(3, 5, 5)}, ValueError,
     "attn_mask and bias must broadcast, got (2, 5, 5) and (3, 5, 5)"),
]  # fmt: skip


def test_there_are_at_least_forty():
    assert len(WRONG) >= 40


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_a_wrong_call_says_what_is_wrong(case):
    arguments, options, error, text = WRONG[case]
    with pytest.raises(error) as raised:
        sdpa(*arguments, **options)
    assert str(raised.value) == WHO + text
