# SPDX-License-Identifier: Apache-2.0
"""headwise.torch under torch.compile, torch.export, torch.func and threads: the operators and their rules."""

import copy
import pickle
import threading

import pytest
import torch

import headwise.torch
from headwise.torch import scaled_dot_product_attention as sdpa
from torch_calls import close, leaves, torch_math

# torch itself calls it, in vmap and in forward mode.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def op_arguments(dtype=torch.float64, **changes):
    """Positional arguments of headwise::attention."""
    q, k, v = leaves(2, 4, 5, 8, dtype=dtype)
    given = {"k": k[:, :2].detach().requires_grad_(), "v": v[:, :2, :, :3].detach().requires_grad_()}
    given |= {"bias": None, "slopes": None, "sinks": None, "mask": None, "offsets": None, "lengths": None, "seed": None}
    given |= {"causal": "causal", "window": [], "scale": None, "softcap": None, "dropout": 0.0, "at": [0, 0, 0]}
    given |= {"save": True, "lse": False, "weights": ""} | changes
    return (q, *given.values())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dtype": torch.bfloat16},
        {"causal": "", "dropout": 0.3, "seed": torch.tensor([7])},
        {"causal": "lower_right", "lengths": torch.tensor([5, 2])},
        {"bias": torch.randn(1, 4, 5, 5, dtype=torch.float64, requires_grad=True)},
        {"mask": torch.rand(5, 5) < 0.5, "sinks": torch.randn(4, dtype=torch.float64, requires_grad=True)},
        {"slopes": torch.rand(4, dtype=torch.float64, requires_grad=True), "window": [2, 1]},
    ],
    ids=["plain", "bfloat16", "dropout", "lengths", "bias", "mask and sinks", "slopes and window"],
)
def test_the_operator_passes_opcheck(changes):
    torch.library.opcheck(torch.ops.headwise.attention, op_arguments(**changes))


def test_compiled_calls_equal_eager_ones_forward_and_backward():
    q, k, v = leaves(2, 2, 9, 8, dtype=torch.float32)
    mask = torch.rand(9, 9) < 0.8

    def call(q, k, v):
        return sdpa(q * 2, k, v, mask, is_causal=True)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    out, expected = compiled(q, k, v), call(q, k, v)
    assert torch.equal(out, expected)
    ours, wanted = (torch.autograd.grad(o.square().sum(), (q, k, v)) for o in (out, expected))
    assert all(torch.equal(a, b) for a, b in zip(ours, wanted, strict=True))


def test_compiled_dropout_is_drawn_anew_and_follows_manual_seed():
    q, k, v = leaves(1, 2, 9, 8, dtype=torch.float32)
    compiled = torch.compile(lambda q, k, v: sdpa(q, k, v, dropout_p=0.5), fullgraph=True, backend="aot_eager")
    torch.manual_seed(1)
    first, second = compiled(q, k, v), compiled(q, k, v)
    torch.manual_seed(1)
    assert torch.equal(first, compiled(q, k, v))
    assert not torch.equal(first, second)


class Attending(torch.nn.Module):
    def forward(self, q, k, v):
        return sdpa(q, k, v, is_causal=True)


def test_an_exported_program_attends():
    q, k, v = (t.detach() for t in leaves(1, 2, 6, 4, dtype=torch.float32))
    seq = torch.export.Dim("seq", min=2, max=100)
    dynamic = {"q": {2: seq}, "k": {2: seq}, "v": {2: seq}}
    program = torch.export.export(Attending(), (q, k, v), dynamic_shapes=dynamic)
    assert torch.equal(program.module()(q, k, v), sdpa(q, k, v, is_causal=True))
    longer = [torch.randn(1, 2, 11, 4) for _ in range(3)]
    assert torch.equal(program.module()(*longer), sdpa(*longer, is_causal=True))


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (1, None, 0), (None, 2, 2)])
def test_vmap_equals_a_loop(in_dims):
    tensors = leaves(2, 2, 5, 4)
    stacked = [
        t if d is None else torch.stack([t, t.sin(), t.cos()], dim=d) for t, d in zip(tensors, in_dims, strict=True)
    ]
    out = torch.func.vmap(lambda q, k, v: sdpa(q, k, v, is_causal=True), in_dims=in_dims)(*stacked)
    for at in range(3):
        one = [t if d is None else t.select(d, at) for t, d in zip(stacked, in_dims, strict=True)]
        close("output", out[at], sdpa(*one, is_causal=True), torch.float64, f"entry {at}")


def test_vmap_takes_masks_and_dropout():
    q, k, v = leaves(3, 2, 2, 5, 4)
    mask = torch.rand(3, 5, 5) < 0.7
    out = torch.func.vmap(sdpa)(q, k, v, mask)
    assert torch.equal(out, sdpa(q, k, v, mask[:, None, None]))
    dropped = torch.func.vmap(lambda q: sdpa(q, q, q, dropout_p=0.5), randomness="different")(
        q[:1].expand(3, -1, -1, -1, -1)
    )
    assert not torch.equal(dropped[0], dropped[1])
    same = torch.func.vmap(lambda q: sdpa(q, q, q, dropout_p=0.5), randomness="same")(q[:1].expand(3, -1, -1, -1, -1))
    assert torch.equal(same[0], same[1])


def test_torch_func_differentiates_per_sample_forward_and_twice():
    q, k, v = (t.detach() for t in leaves(3, 2, 5, 4))

    def loss(attend, q, k, v):
        return attend(q, k, v).square().sum()

    ours = torch.func.vmap(torch.func.grad(lambda q, k, v: loss(sdpa, q[None], k[None], v[None])))(q, k, v)
    whole = q.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(loss(torch_math, whole, k, v), whole)
    close("per-sample gradient", ours, wanted, torch.float64, "")
    assert torch.allclose(
        torch.func.jvp(lambda q: sdpa(q, k, v), (q,), (k,))[1],
        torch.func.jvp(lambda q: torch_math(q, k, v), (q,), (k,))[1],
    )
    noisy = torch.func.jvp(lambda q: sdpa(q, k, v, dropout_p=0.3, seed=5), (q,), (k,))[1]
    step = 1e-6
    sides = [sdpa(q + at * k, k, v, dropout_p=0.3, seed=5) for at in (step, -step)]
    assert torch.allclose(noisy, (sides[0] - sides[1]) / (2 * step), atol=1e-6)
    hessian = torch.func.hessian(lambda q: loss(sdpa, q, k[:1], v[:1]))(q[:1])
    assert torch.allclose(hessian, torch.func.hessian(lambda q: loss(torch_math, q, k[:1], v[:1]))(q[:1]))


def test_calls_from_many_threads_are_each_right():
    q, k, v = leaves(2, 2, 40, 8)
    expected = torch.autograd.grad(sdpa(q, k, v, is_causal=True).sum(), (q, k, v))
    wrong = []

    def run():
        for _ in range(20):
            found = torch.autograd.grad(sdpa(q, k, v, is_causal=True).sum(), (q, k, v))
            if not all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_shapes_alone_work_on_meta_and_fake_tensors():
    q = torch.empty(2, 3, 5, 4, device="meta")
    assert sdpa(q, q, q).shape == (2, 3, 5, 4)
    with torch._subclasses.FakeTensorMode():
        q = torch.empty(2, 3, 5, 4, dtype=torch.bfloat16)
        assert sdpa(q, q, q, dropout_p=0.5).dtype is torch.bfloat16


def test_the_function_pickles_and_copies():
    assert pickle.loads(pickle.dumps(sdpa)) is sdpa
    assert copy.deepcopy(sdpa) is sdpa
    assert headwise.torch.scaled_dot_product_attention is sdpa
