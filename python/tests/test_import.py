# SPDX-License-Identifier: Apache-2.0
"""What `import headwise` costs and reads, seen from fresh processes."""

import os
import subprocess
import sys

import pytest

import headwise
from headwise import _headwise


def python(code, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWISE_")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**environment, **variables}, check=False
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_import_costs_at_most_20_ms_beyond_numpy():
    code = (
        "import numpy, time; begun = time.perf_counter(); import headwise; print((time.perf_counter() - begun) * 1000)"
    )
    assert min(float(python(code)[1]) for _ in range(7)) <= 20


def test_import_loads_no_outside_package_but_numpy():
    code = "import sys, headwise; print(sorted({name.split('.')[0] for name in sys.modules}))"
    outside = set(eval(python(code)[1])) - set(sys.stdlib_module_names) - {"__main__", "__mp_main__"}
    assert {name for name in outside if not name.startswith(("_", "sitecustomize", "usercustomize"))} <= {
        "headwise",
        "numpy",
    } | site_packages()


def site_packages():
    """What an empty program has already: start-up hooks of the environment."""
    return set(eval(python("import sys; print(sorted({name.split('.')[0] for name in sys.modules}))")[1]))


def test_the_thread_count_comes_from_the_environment():
    code = "import headwise; print(headwise.get_num_threads())"
    assert python(code, HEADWISE_NUM_THREADS="3")[1] == "3"


@pytest.mark.parametrize("value", ["0", "-1", "two", "", "1.5", "100000"])
def test_a_bad_thread_count_in_the_environment_is_an_error_that_names_it(value):
    code, _, message = python("import headwise", HEADWISE_NUM_THREADS=value)
    assert code == 1
    assert (
        message.splitlines()[-1]
        == f"ValueError: HEADWISE_NUM_THREADS must be a whole number from 1 to 4096, got {value!r}"
    )


@pytest.mark.parametrize("isa", _headwise.available_isas())
def test_the_instruction_set_comes_from_the_environment(isa):
    code, out, _ = python("import headwise; headwise.show_config()", HEADWISE_ISA=isa)
    assert code == 0
    assert f"instruction set  {isa}" in out


def test_every_instruction_set_gives_the_same_bits():
    code = """
import hashlib, numpy, headwise
digest = hashlib.sha256()
for dtype in ("f4", "f8", "f2"):
    q, k, v = numpy.random.default_rng(0).normal(size=(3, 2, 2, 150, 24)).astype(dtype)
    context = headwise.attention(q, k, v, causal=True)
    cache = headwise.KvCache(2, 2, 150, 24, dtype=q.dtype)
    cache.append(k, v)
    for array in (context, *headwise.attention_backward(context, q, k, v, causal=True)[:3], cache.attend(q[:, :, -3:])):
        digest.update(array.tobytes())
print(digest.hexdigest())
"""
    done = [python(code, HEADWISE_ISA=isa) for isa in _headwise.available_isas()]
    assert [(returned, message) for returned, _, message in done] == [(0, "")] * len(done)
    assert len({digest for _, digest, _ in done}) == 1


def test_a_bad_instruction_set_in_the_environment_is_an_error_that_names_it():
    code, _, message = python("import headwise", HEADWISE_ISA="sse9")
    assert code == 1
    here = ", ".join(_headwise.available_isas())
    assert (
        message.splitlines()[-1] == f"ValueError: HEADWISE_ISA must be one that this machine has ({here}), got 'sse9'"
    )


def test_show_config_names_version_threads_and_build(capsys):
    headwise.show_config()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"headwise {headwise.__version__}"
    assert [line.split("  ")[1].strip() for line in lines[1:]] == ["instruction set", "threads", "build", "variables"]


def test_set_num_threads():
    before = headwise.get_num_threads()
    try:
        headwise.set_num_threads(3)
        assert headwise.get_num_threads() == 3
        for wrong, error, text in (
            (0, ValueError, "set_num_threads: n must be in 1..4096, got 0"),
            (1.5, TypeError, "set_num_threads: n must be an integer, got float"),
            (True, TypeError, "set_num_threads: n must be an integer, got bool"),
        ):
            with pytest.raises(error, match=f"^{text}$"):
                headwise.set_num_threads(wrong)
    finally:
        headwise.set_num_threads(before)
