# SPDX-License-Identifier: Apache-2.0
"""The runner of PyTorch's own tests: what it counts, and, where their folder is given, that none of them fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).parent / "pytorch_own_tests.py"
FOLDER = os.environ.get("HEADWISE_PYTORCH_TESTS")
# 3072 tests of one pattern take hours: every 64th here, all of them by hand.
MANY = "mask_vs_math_cpu"

STANDIN = """
import unittest
import torch
import torch.nn.functional as F

class TestSDPACpuOnlyCPU(unittest.TestCase):
    def test_headwise_answers(self):
        q, hidden = torch.randn(1, 1, 3, 4), torch.tensor([True, True, False]).expand(3, 3)
        value = torch.cat([q[:, :, :2], torch.full((1, 1, 1, 4), torch.nan)], dim=2)
        assert F.scaled_dot_product_attention(q, q, value, hidden).isfinite().all()

    def test_it_fails(self):
        F.scaled_dot_product_attention(*torch.randn(3, 1, 1, 3, 4))
        assert False, "as it must"

    def test_it_skips(self):
        self.skipTest("a reason")

    def test_is_causal_and_mask_fails(self):
        assert False, "left out"

class TestOfAnotherDevice(unittest.TestCase):
    def test_it_is_not_run(self):
        assert False
"""


def run(folder, *options):
    return subprocess.run([sys.executable, "-P", RUNNER, folder, *options], capture_output=True, text=True, check=False)


def test_it_counts_what_passes_fails_and_is_left_out(tmp_path):
    (tmp_path / "nn").mkdir()
    (tmp_path / "test_transformers.py").write_text(STANDIN)
    (tmp_path / "nn" / "test_multihead_attention.py").write_text("")
    done = run(tmp_path, "--json", tmp_path / "found.json")
    assert done.returncode == 1
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["passed"], found["of_them_in_headwise_kernels"]) == (1, 1)
    assert sorted(found["skipped"].values()) == [1, 1]
    assert "torch's own: a reason" in found["skipped"]
    assert list(found["failed"]) == ["test_transformers.TestSDPACpuOnlyCPU.test_it_fails"]
    assert "as it must" in found["failed"]["test_transformers.TestSDPACpuOnlyCPU.test_it_fails"]
    assert "1 passed (1 through headwise's kernels), 2 skipped, 1 failed" in done.stdout
    assert run(tmp_path, "--only", "answers").returncode == 0


def test_it_says_where_it_expects_the_files(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 1
    expected = f"pytorch_own_tests: {tmp_path}/test_transformers.py is not there; FOLDER must be pytorch's folder test/"
    assert done.stderr.strip().splitlines()[-1] == expected


needs_folder = pytest.mark.skipif(
    not FOLDER, reason="HEADWISE_PYTORCH_TESTS does not name pytorch's folder test/ (tests/pytorch_own_tests.py)"
)


@needs_folder
@pytest.mark.parametrize("way", ["enable", "modules"])
def test_pytorchs_own_tests_pass(way):
    done = run(FOLDER, "--way", way, "--only", f"^(?!.*{MANY})")
    assert done.returncode == 0, done.stdout + done.stderr


@needs_folder
def test_every_64th_of_the_many_masks_passes():
    done = run(FOLDER, "--only", MANY, "--part", "1/64")
    assert done.returncode == 0, done.stdout + done.stderr
