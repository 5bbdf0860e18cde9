# SPDX-License-Identifier: Apache-2.0
"""Names the tests that are not run where torch is not installed, in place of skipping them silently."""

import importlib.util
from pathlib import Path

NEED_TORCH = {
    "checkpoint_families_torch_test.py",
    "decoder_torch_test.py",
    "minilm_torch_test.py",
    "torch_book_test.py",
    "torch_enable_test.py",
    "torch_compile_test.py",
    "torch_faults_test.py",
    "torch_fuse_combined_test.py",
    "torch_fuse_test.py",
    "torch_multihead_test.py",
    "torch_pytorch_own_test.py",
    "torch_ranks_test.py",
    "torch_reference_test.py",
    "torch_samples_test.py",
    "torch_sdpa_test.py",
    "torch_stubs_test.py",
    "torch_transforms_test.py",
    "torch_wrong_calls_test.py",
}
MISSING = [name for name in ("torch", "transformers", "expecttest") if importlib.util.find_spec(name) is None]
_not_run = []


def pytest_ignore_collect(collection_path: Path):
    if MISSING and collection_path.name in NEED_TORCH:
        _not_run.append(collection_path.name)
        return True
    return None


def pytest_terminal_summary(terminalreporter):
    if _not_run:
        terminalreporter.write_line(
            f"Not run without {' and '.join(MISSING)} (./dev test --torch installs what is missing):"
        )
        for name in sorted(_not_run):
            terminalreporter.write_line(f"  tests/{name}")
