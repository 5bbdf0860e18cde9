# SPDX-License-Identifier: Apache-2.0
"""headwise itself, through its numpy face; the projection alone, which has no public name, through the extension."""

import headwise
from headwise import _headwise

NAME = "headwise"


def version():
    return headwise.__version__


def show_config():
    headwise.show_config()


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
    if problem.kind == "projection":
        return lambda: (_headwise.linear(a["x"], a["weight"], a["bias"]),)

    def projection_training():
        out = _headwise.linear(a["x"], a["weight"], a["bias"])
        grad_x, grad_weight, _ = _headwise.linear_backward(a["grad"], a["x"], a["weight"])
        return out, grad_x, grad_weight

    return projection_training
