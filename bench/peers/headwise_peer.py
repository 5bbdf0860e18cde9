# SPDX-License-Identifier: Apache-2.0
"""headwise itself, through its numpy face."""

import headwise

NAME = "headwise"


def version():
    return headwise.__version__


def set_threads(count):
    headwise.set_num_threads(count)


def prepare(problem):
    """Returns a function that runs the problem once and gives its results as a tuple of arrays, or None."""
    a = problem.arrays
    if problem.kind == "forward":
        return lambda: (headwise.attention(a["q"], a["k"], a["v"], causal=bool(problem.causal)),)
    if problem.kind == "training":
        options = {"causal": bool(problem.causal)}
        if problem.dropout:
            options |= {"dropout": problem.dropout, "seed": 1}

        def training():
            result = headwise.attention(a["q"], a["k"], a["v"], save=True, **options)
            grads = headwise.attention_backward(a["grad"], a["q"], a["k"], a["v"], saved=result.saved, **options)
            return result.context, grads.q, grads.k, grads.v

        return training
    if problem.kind == "decode":
        cache = headwise.KvCache(problem.batch, problem.kv_heads, problem.seq, problem.head_dim)
        cache.append(a["k"], a["v"])
        return lambda: (cache.attend(a["q"]),)
    layer = headwise.Linear(problem.d_in, problem.d_out)
    layer.parameters()["weight"][...] = a["weight"]
    layer.parameters()["bias"][...] = a["bias"]
    if problem.kind == "projection":
        layer.eval()
        return lambda: (layer(a["x"]),)

    def projection_training():
        layer.zero_grad()
        out = layer(a["x"])
        return out, layer.backward(a["grad"]), layer.gradients()["weight"]

    return projection_training
