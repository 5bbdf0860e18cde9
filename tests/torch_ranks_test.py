# SPDX-License-Identifier: Apache-2.0
"""Two processes that train one module under DistributedDataParallel: the gradients are those of one process."""

import os
import subprocess
import sys

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import headwise
from headwise.torch import MultiheadAttention

RANKS = 2


def module_and_batch():
    torch.manual_seed(0)
    module = MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    return module, torch.randn(2 * RANKS, 5, 8, dtype=torch.float64)


def gradients(module, x):
    out, _ = module(x, x, x, is_causal=True, need_weights=False)
    out.square().mean().backward()
    return {name.removeprefix("module."): p.grad.clone() for name, p in module.named_parameters()}


def train(rank, folder):
    headwise.set_num_threads(1)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    module, x = module_and_batch()
    found = gradients(DistributedDataParallel(module), x[2 * rank : 2 * rank + 2])
    torch.save(found, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_ranks_have_the_gradients_of_one_process(tmp_path):
    command = [sys.executable, __file__]
    ranks = [subprocess.Popen([*command, str(rank), str(tmp_path)]) for rank in range(RANKS)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0] * RANKS
    expected = gradients(*module_and_batch())
    for rank in range(RANKS):
        found = torch.load(tmp_path / f"{rank}.pt")
        for name, wanted in expected.items():
            assert torch.allclose(found[name], wanted, rtol=1e-12, atol=1e-14), name


if __name__ == "__main__":
    train(int(sys.argv[1]), sys.argv[2])
    # Without Python's teardown, in which a gloo thread of torch's aborts one process in six, with torch alone too.
    os._exit(0)
