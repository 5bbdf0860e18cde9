# SPDX-License-Identifier: Apache-2.0
"""torch: scaled_dot_product_attention as it chooses its kernel, and functional.linear."""

import numpy as np
import torch
import torch.nn.functional as F

NAME = "torch"


def version():
    return torch.__version__


def set_threads(count):
    torch.set_num_threads(count)


def prepare(problem):
    """Returns a function that runs the problem once and gives its results as a tuple of arrays, or None."""
    a = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in problem.arrays.items()}
    if problem.kind.startswith("projection"):
        return projection(problem, a)
    options = {"is_causal": bool(problem.causal), "enable_gqa": problem.heads != problem.kv_heads}
    if problem.kind in ("forward", "decode"):

        def forward():
            with torch.no_grad():
                return (F.scaled_dot_product_attention(a["q"], a["k"], a["v"], **options).numpy(),)

        return forward
    leaves = [a[name].requires_grad_() for name in ("q", "k", "v")]

    def training():
        for leaf in leaves:
            leaf.grad = None
        out = F.scaled_dot_product_attention(*leaves, dropout_p=problem.dropout, **options)
        out.backward(a["grad"])
        return out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)

    return training


def projection(problem, a):
    if problem.kind == "projection":

        def forward():
            with torch.no_grad():
                return (F.linear(a["x"], a["weight"], a["bias"]).numpy(),)

        return forward
    leaves = [a[name].requires_grad_() for name in ("x", "weight", "bias")]

    def training():
        for leaf in leaves:
            leaf.grad = None
        out = F.linear(*leaves)
        out.backward(a["grad"])
        return out.detach().numpy(), leaves[0].grad.numpy(), leaves[1].grad.numpy()

    return training
