# SPDX-License-Identifier: Apache-2.0
"""The published numbers of the book that these layers come from (docs and the C++ tests name the same cases)."""

import numpy as np

import headwise

TOLERANCE = 5e-5
X = np.array(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ],
    "f4",
)
BATCH = np.stack([X, X])
HEAD0 = [[-0.4519, 0.2216], [-0.5874, 0.0058], [-0.63, -0.0632], [-0.5675, -0.0843], [-0.5526, -0.0981]]
HEAD0 += [[-0.5299, -0.1081]]
HEAD1 = [[0.4772, 0.1063], [0.5891, 0.3257], [0.6202, 0.386], [0.5478, 0.3589], [0.5321, 0.3428], [0.5077, 0.3493]]
G11 = np.hstack([HEAD0, HEAD1])
G13 = [[0.319, 0.4858], [0.2943, 0.3897], [0.2856, 0.3593], [0.2693, 0.3873], [0.2639, 0.3928], [0.2575, 0.4028]]


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE)


def as_heads(x):
    return x[None, None]


def one_layer(seed=123):
    return headwise.MultiHeadAttention(3, 2, 6, 0.0, 2, seed=seed)


class Torch:
    """torch.manual_seed, torch.rand and nn.Linear's weights, from the published generator."""

    def __init__(self, seed):
        state = np.zeros(624, np.uint32)
        state[0] = seed
        for i in range(1, 624):
            before = int(state[i - 1])
            state[i] = (1812433253 * (before ^ (before >> 30)) + i) & 0xFFFFFFFF
        self.bits = np.random.MT19937()
        self.bits.state = {"bit_generator": "MT19937", "state": {"key": state, "pos": 624}}

    def rand(self, *shape):
        words = self.bits.random_raw(int(np.prod(shape))) & np.uint64(0xFFFFFF)
        return (words.astype("f8") * 2.0**-24).astype("f4").reshape(shape)

    def linear(self, d_in, d_out):
        bound = 1 / np.sqrt(d_in)
        return (self.rand(d_out, d_in).astype("f8") * 2 * bound - bound).astype("f4")


def test_g1_simple_attention_without_weights():
    got = headwise.attention(as_heads(X), as_heads(X), as_heads(X), scale=1.0, return_weights=True)
    close(got.weights[0, 0, 1], [0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581])
    close(got.context[0, 0, 1], [0.4419, 0.6515, 0.5683])
    log_weights = np.log(got.weights[0, 0, 1]) + np.log(np.exp(X @ X[1]).sum())
    close(log_weights, [0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865])


def test_g2_dividing_by_the_sum_is_not_what_attention_computes():
    scores = X @ X[1]
    divided = scores / scores.sum()
    close(divided, [0.1455, 0.2278, 0.2249, 0.1285, 0.1077, 0.1656])
    softmax = headwise.attention(as_heads(X), as_heads(X), as_heads(X), scale=1.0, return_weights=True).weights[0, 0, 1]
    assert np.abs(softmax - divided).max() > 0.005


def test_g3_and_g4_self_attention_of_raw_matrices():
    torch = Torch(123)
    queries, keys, values = (as_heads(X @ torch.rand(3, 2)) for _ in range(3))
    close(queries[0, 0, 1], [0.4306, 1.4551])
    close(keys[0, 0] @ queries[0, 0, 1], [1.2705, 1.8524, 1.8111, 1.0795, 0.5577, 1.5440])
    got = headwise.attention(queries, keys, values, return_weights=True)
    close(got.weights[0, 0, 1], [0.15, 0.2264, 0.2199, 0.1311, 0.0906, 0.1820])
    close(
        got.context[0, 0],
        [[0.2996, 0.8053], [0.3061, 0.8210], [0.3058, 0.8203], [0.2948, 0.7939], [0.2927, 0.7891], [0.2990, 0.8040]],
    )


def layer_789(**options):
    return headwise.MultiHeadAttentionLayer(3, 2, None, 0.0, 1, seed=789, **options)


def test_g5_self_attention_of_linear_layers():
    close(
        layer_789()(BATCH)[0],
        [
            [-0.0739, 0.0713],
            [-0.0748, 0.0703],
            [-0.0749, 0.0702],
            [-0.0760, 0.0685],
            [-0.0763, 0.0679],
            [-0.0754, 0.0693],
        ],
    )


def test_g6_causal_weights():
    weights = layer_789(causal=True)(BATCH, return_weights=True).weights[0, 0]
    rows = [
        [1.0],
        [0.5517, 0.4483],
        [0.3800, 0.3097, 0.3103],
        [0.2758, 0.2460, 0.2462, 0.2319],
        [0.2175, 0.1983, 0.1984, 0.1888, 0.1971],
        [0.1935, 0.1663, 0.1666, 0.1542, 0.1666, 0.1529],
    ]
    for i, row in enumerate(rows):
        close(weights[i, : i + 1], row)
        assert not weights[i, i + 1 :].any()
    full = layer_789()(BATCH, return_weights=True).weights[0, 0]
    masked = np.tril(full)
    np.testing.assert_allclose(masked / masked.sum(-1, keepdims=True), weights, rtol=0, atol=1e-6)


def test_g7_and_g8_initial_weights_of_two_heads():
    wrapper = headwise.MultiHeadAttentionWrapper(3, 2, 6, 0.0, 2, seed=123)
    expected = {
        "heads.0.W_query": [[-0.2354, 0.0191, -0.2867], [0.2177, -0.4919, 0.4232]],
        "heads.0.W_key": [[-0.4196, -0.4590, -0.3648], [0.2615, -0.2133, 0.2161]],
        "heads.0.W_value": [[-0.4900, -0.3503, -0.2120], [-0.1135, -0.4404, 0.3780]],
        "heads.1.W_query": [[-0.1362, 0.1853, 0.4083], [0.1076, 0.1579, 0.5573]],
        "heads.1.W_key": [[-0.2604, 0.1829, -0.2569], [0.4126, 0.4611, -0.5323]],
        "heads.1.W_value": [[0.4929, 0.2757, 0.2516], [0.2377, 0.4800, -0.0762]],
    }
    parameters = wrapper.parameters()
    assert list(parameters) == [name + ".weight" for name in expected]
    torch = Torch(123)
    for name, values in expected.items():
        close(parameters[name + ".weight"], values)
        np.testing.assert_allclose(parameters[name + ".weight"], torch.linear(3, 2), rtol=0, atol=6e-8)


def test_g9_the_same_head_without_a_mask():
    close(
        headwise.MultiHeadAttentionLayer(3, 2, 6, 0.0, 1, seed=123)(BATCH)[1],
        [
            [-0.5337, -0.1051],
            [-0.5323, -0.1080],
            [-0.5323, -0.1079],
            [-0.5297, -0.1076],
            [-0.5311, -0.1066],
            [-0.5299, -0.1081],
        ],
    )


def test_g10_one_causal_head():
    got = headwise.CausalSelfAttention(3, 2, 6, 0.0, seed=123)(BATCH)
    close(got[0], HEAD0)
    assert got[0].tobytes() == got[1].tobytes()


def test_g11_two_heads_side_by_side():
    got = headwise.MultiHeadAttentionWrapper(3, 2, 6, 0.0, 2, seed=123)(BATCH)
    assert got.shape == (2, 6, 4)
    close(got[0], G11)


def test_g11_the_wrapper_is_its_single_heads_bit_for_bit():
    wrapper = headwise.MultiHeadAttentionWrapper(3, 2, 6, 0.0, 2, seed=123)
    separate = np.concatenate([wrapper.head(i)(BATCH) for i in range(2)], axis=-1)
    assert wrapper(BATCH).tobytes() == separate.tobytes()


def test_g12_stacked_rows_give_the_wrapper_bit_for_bit():
    wrapper = headwise.MultiHeadAttentionWrapper(3, 2, 6, 0.0, 2, seed=123)
    heads = wrapper.parameters()
    fused = headwise.MultiHeadAttention(3, 4, 6, 0.0, 2, out_proj=False)
    fused.load_state_dict(
        {
            f"W_{part}.weight": np.vstack([heads[f"heads.{i}.W_{part}.weight"] for i in range(2)])
            for part in ("query", "key", "value")
        }
    )
    assert fused(BATCH).tobytes() == wrapper(BATCH).tobytes()
    assert wrapper.fuse()(BATCH).tobytes() == wrapper(BATCH).tobytes()
    close(fused(BATCH)[0], G11)


def test_g13_multi_head_attention_from_the_seed_alone():
    layer = one_layer()
    close(layer(BATCH)[0], G13)
    close(layer.parameters()["out_proj.weight"], [[-0.1668, 0.2270], [0.5000, 0.1317]])
    close(layer.parameters()["out_proj.bias"], [0.1934, 0.6825])


def test_g14_weights_of_both_heads():
    weights = one_layer()(BATCH, return_weights=True).weights[0]
    close(weights[0, 1, :2], [0.4776, 0.5224])
    close(weights[0, 5], [0.1649, 0.1726, 0.1724, 0.1625, 0.1624, 0.1653])
    close(weights[1, 1, :2], [0.4988, 0.5012])
    close(weights[1, 5], [0.1625, 0.1667, 0.1666, 0.1691, 0.1650, 0.1702])


def test_g15_gradients_of_the_sum():
    layer = one_layer()
    out = layer(X[None])
    np.testing.assert_allclose(out.sum(), 4.10717, atol=TOLERANCE)
    layer.backward(np.ones_like(out))
    gradients = layer.gradients()
    close(gradients["W_query.weight"], [[0.01511, 0.02300, 0.01534], [0.01118, 0.01738, 0.01201]])
    close(gradients["W_key.weight"], [[0.00407, 0.01353, -0.00109], [0.00026, 0.00355, -0.00158]])
    close(gradients["W_value.weight"], [[0.94310, 1.02247, 1.35900], [1.01039, 1.08477, 1.46166]])
    close(gradients["out_proj.weight"], [[-3.32581, -0.11108]] * 2)
    close(gradients["out_proj.bias"], [6, 6])


def test_g16_scores_of_every_head_at_once():
    a = np.array(
        [
            [[0.2745, 0.6584, 0.2775, 0.8573], [0.8993, 0.0390, 0.9268, 0.7388], [0.7179, 0.7058, 0.9156, 0.4340]],
            [[0.0772, 0.3565, 0.1479, 0.5331], [0.4066, 0.2318, 0.4545, 0.9737], [0.4606, 0.5159, 0.4220, 0.5786]],
        ],
        "f4",
    )[None]
    got = headwise.attention(a, a, a, scale=1.0, return_weights=True, return_lse=True)
    scores = np.log(got.weights) + got.lse[..., None]
    close(np.diagonal(scores[0, 0]), [1.3208, 2.2150, 2.0402])
    close(np.diagonal(scores[0, 1]), [0.4391, 1.3737, 0.9912])


# The signatures of the known mistakes, each made here on purpose with the weights of G13.


def project(layer):
    parameters = layer.parameters()
    return [X @ parameters[f"W_{part}.weight"].T for part in ("query", "key", "value")]


def finish(layer, merged):
    return merged @ layer.parameters()["out_proj.weight"].T + layer.parameters()["out_proj.bias"]


def by_head(x):
    return x.reshape(1, 6, 2, 1).transpose(0, 2, 1, 3)


def merged(context):
    return context.transpose(0, 2, 1, 3).reshape(6, 2)


def rows(out):
    return out[[0, 1, 5]]


def test_the_right_order_gives_g13():
    layer = one_layer()
    context = headwise.attention(*map(by_head, project(layer)), causal=True)
    close(finish(layer, merged(context)), G13)


def test_mistake_view_without_transpose():
    layer = one_layer()
    context = headwise.attention(*(x.reshape(1, 2, 6, 1) for x in project(layer)), causal=True)
    close(rows(finish(layer, context.reshape(6, 2))), [[0.2553, 0.4488], [0.1893, 0.4593], [0.1802, 0.4799]])


def test_mistake_merge_without_transpose():
    layer = one_layer()
    context = headwise.attention(*map(by_head, project(layer)), causal=True)
    close(rows(finish(layer, context.reshape(6, 2))), [[0.1351, 0.3790], [0.1696, 0.2920], [0.1850, 0.6201]])


def test_mistake_no_head_axis():
    layer = one_layer()
    context = headwise.attention(*map(as_heads, project(layer)), causal=True)
    close(rows(finish(layer, context[0, 0])), [[0.3190, 0.4858], [0.2926, 0.3896], [0.2572, 0.4033]])


def test_mistake_scale_by_the_whole_width():
    layer = one_layer()
    context = headwise.attention(*map(by_head, project(layer)), causal=True, scale=1 / np.sqrt(2))
    close(rows(finish(layer, merged(context))), [[0.3190, 0.4858], [0.2941, 0.3906], [0.2574, 0.4033]])


def test_mistake_no_mask():
    layer = one_layer()
    context = headwise.attention(*map(by_head, project(layer)))
    close(rows(finish(layer, merged(context))), [[0.2595, 0.4014], [0.2583, 0.4014], [0.2575, 0.4028]])


def test_mistake_mask_after_softmax():
    layer = one_layer()
    q, k, v = map(by_head, project(layer))
    weights = np.tril(headwise.attention(q, k, v, return_weights=True).weights)
    close(rows(finish(layer, merged(weights @ v))), [[0.2146, 0.6510], [0.2278, 0.5825], [0.2575, 0.4028]])


def test_mistake_inverted_mask_with_an_empty_row():
    layer = one_layer()
    context = headwise.attention(*map(by_head, project(layer)), mask=~np.tri(6, dtype=bool))
    close(rows(finish(layer, merged(context))), [[0.2463, 0.3841], [0.2401, 0.4078], [0.1934, 0.6825]])


def test_mistake_last_query_alone_with_upper_left_alignment():
    layer = one_layer()
    q, k, v = map(by_head, project(layer))
    wrong = headwise.attention(q[:, :, 5:], k, v, causal="upper_left")
    right = headwise.attention(q[:, :, 5:], k, v, causal="lower_right")
    close(finish(layer, wrong.reshape(1, 2)), [G13[0]])
    close(finish(layer, right.reshape(1, 2)), [G13[5]])


def test_a_window_of_two_keys():
    layer = one_layer()
    context = headwise.attention(*map(by_head, project(layer)), causal=True, window=(1, 0))
    close(rows(finish(layer, merged(context))), [[0.3190, 0.4858], [0.2943, 0.3897], [0.2338, 0.4354]])
