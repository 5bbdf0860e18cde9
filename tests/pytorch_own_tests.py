# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own attention tests with headwise in torch's place: counts, and a reason for every test that is left out.

    python tests/pytorch_own_tests.py FOLDER [--way enable|modules] [--only REGEX] [--part I/N] [--json FILE]

FOLDER is pytorch's folder `test/` at the tag of the installed torch, or the two files of it that are read:
test_transformers.py and nn/test_multihead_attention.py. They are not part of this repository. The package expecttest is
needed. Exit code 1 when a test fails.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
import re
import sys
import time
import unittest
from pathlib import Path

FILES = ("test_transformers.py", "nn/test_multihead_attention.py")
# Classes that run on CPUs. Those of other devices make no test here.
CLASSES = re.compile(
    r"^Test(Transformers|SDPAFailureModes|SDPA|SDPACpuOnly|AttnBias|MultiheadAttentionNN\w*?)(CPU|META)?$"
)

# Under both ways: what the test asks of torch is not what headwise is for.
LEFT_OUT = {
    r"test_multihead_self_attn_two_masks_fast_path_mock|test_mask_check_fastpath|test_disable_fastpath"
    r"|test_bias_is_none|test_transformerencoderlayer_no_fastpath_with_hooks": "asks for a call of torch's own fast "
    "path, which is off under enable()",
    r"test_multihead_attn_nested_tensor_outside_fast_path": "nested tensors in nn.MultiheadAttention need torch's own "
    "fast path, which is off under enable()",
    r"test_scaled_dot_product_attention_.*dropout_p_0_[1-9]|test_transformerencoderlayer_subclass": "compares dropout "
    "with another path's stream of random bits; tests/torch_samples_test.py holds headwise's",
    r"test_incompatible_mask|test_is_causal_and_mask_fails": "asks that is_causal and a mask are refused together; "
    "headwise lets a key pass that both allow",
}
# Under `modules`.
LEFT_OUT_MODULES = {
    r"invalid_shape": "compares torch's texts of errors; headwise's name the argument",
    r"with_nested_tensor_input|kpm_mask_trailing_column_with_nested": (
        "nested tensors, which the module refuses by name"
    ),
    r"test_script": "TorchScript, which does not take the module's keywords",
    r"query_and_bias_have_different_dtypes": "a float64 module with a float16 bias, which F.linear refuses",
    r"test_train_with_is_causal": "asks that the module refuses is_causal without a mask; headwise's is causal then",
}


def main():
    arguments = read_arguments()
    swap_in(arguments.way)
    reached = count_kernel_calls()
    tests = [t for file in FILES for t in tests_of(Path(arguments.folder) / file)]
    tests = [t for t in tests if re.search(arguments.only, t.id())]
    part, parts = (int(n) for n in arguments.part.split("/"))
    results = run(tests[part - 1 :: parts], left_out(arguments.way), reached)
    summary = {"torch": sys.modules["torch"].__version__, "way": arguments.way, **results}
    print(text_of(summary))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(summary, indent=1) + "\n")
    return 1 if summary["failed"] else 0


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="pytorch's folder test/")
    parser.add_argument("--way", choices=("enable", "modules"), default="enable")
    parser.add_argument("--only", default="", metavar="REGEX", help="tests whose id it is found in")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th test, from the I-th")
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def swap_in(way):
    """headwise under torch's functions and operators, and with `modules` in the place of nn.MultiheadAttention too;
    before the tests are imported, which take names out of torch."""
    import torch

    import headwise.torch

    headwise.torch.enable()
    if way == "modules":
        for place in (torch.nn, torch.nn.modules, torch.nn.modules.activation, torch.nn.modules.transformer):
            place.MultiheadAttention = headwise.torch.MultiheadAttention


def count_kernel_calls():
    """A list of one number, which counts how often headwise's forward kernel is called from here on."""
    from headwise import _headwise
    from headwise.torch import _plain

    calls = [0]

    def counted(function):
        def call(*arguments):
            calls[0] += 1
            return function(*arguments)

        return call

    _headwise.tensor_attention = counted(_headwise.tensor_attention)
    _plain._forward = counted(_plain._forward)
    return calls


def tests_of(file):
    """Every test of the file's CPU classes."""
    if not file.is_file():
        sys.exit(f"pytorch_own_tests: {file} is not there; FOLDER must be pytorch's folder test/")
    os.environ.setdefault("PYTORCH_TEST_WITH_SLOW", "0")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    loader = unittest.TestLoader()
    for name, found in sorted(vars(module).items()):
        if isinstance(found, type) and issubclass(found, unittest.TestCase) and CLASSES.match(name):
            yield from loader.loadTestsFromTestCase(found)


def left_out(way):
    return {**LEFT_OUT, **(LEFT_OUT_MODULES if way == "modules" else {})}


def run(tests, reasons, reached):
    """Runs them one by one. Gives the counts, {reason: how many were skipped for it}, and the failures."""
    passed, by_headwise, skipped, failures = 0, 0, collections.Counter(), {}
    started = time.monotonic()
    for test in tests:
        reason = next((text for pattern, text in reasons.items() if re.search(pattern, test.id())), None)
        if reason is not None:
            skipped[reason] += 1
            continue
        result, before = unittest.TestResult(), reached[0]
        test.run(result)
        if result.skipped:
            skipped["torch's own: " + first_line(result.skipped[0][1])] += 1
        elif result.failures or result.errors or result.unexpectedSuccesses:
            text = (result.failures + result.errors or [(None, "an unexpected success")])[0][1]
            failures[test.id()] = text
            print(f"FAILED {test.id()}\n{text}", file=sys.stderr, flush=True)
        else:
            passed += 1
            by_headwise += reached[0] > before
    return {
        "seconds": round(time.monotonic() - started),
        "passed": passed,
        "of_them_in_headwise_kernels": by_headwise,
        "skipped": dict(sorted(skipped.items(), key=lambda item: -item[1])),
        "failed": failures,
    }


def first_line(text):
    return text.strip().splitlines()[0] if text.strip() else "no reason given"


def text_of(summary):
    lines = [
        f"torch {summary['torch']}, {summary['way']}: {summary['passed']} passed "
        f"({summary['of_them_in_headwise_kernels']} through headwise's kernels), {sum(summary['skipped'].values())} "
        f"skipped, {len(summary['failed'])} failed, {summary['seconds']} s"
    ]
    lines += [f"  {count:5} skipped: {reason}" for reason, count in summary["skipped"].items()]
    lines += [f"  failed: {name}" for name in summary["failed"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
