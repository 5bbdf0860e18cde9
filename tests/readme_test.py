# SPDX-License-Identifier: Apache-2.0
"""The README's examples are run as they stand there, and print what they say."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import headwise
import repository

README = repository.text("README.md")
# The command as it is installed beside this Python.
HEADWISE = Path(sys.executable).with_name("headwise")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(start):
    lines = "".join(blocks("sh")).splitlines()
    return [line.partition("  #")[0] for line in lines if line.startswith(start)]


def said_to_print(code):
    """What the comments behind print calls say."""
    return re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.splitlines()[-1])
def test_a_python_example_runs_and_prints_what_it_says(code, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    printed = ran.stdout.splitlines()
    assert printed
    assert [line for line in said_to_print(code) if line not in printed] == []


def test_the_cpp_example_is_the_one_that_is_built_and_run():
    (code,) = blocks("cpp")
    built = repository.text("examples/first_layer.cc")
    assert built.split("\n", 2)[2] == code


@pytest.mark.parametrize("command", commands("headwise "))
def test_a_command_of_the_readme_runs(command, tmp_path):
    program, *arguments = shlex.split(command.partition("|")[0])
    ran = subprocess.run([HEADWISE.with_name(program), *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout
    if "--json" in arguments:
        assert json.loads(ran.stdout)
    if "--save" in arguments:
        assert (tmp_path / arguments[arguments.index("--save") + 1]).stat().st_size > 0


def test_every_dev_command_of_the_readme_is_one_that_dev_lists():
    usage = subprocess.run([repository.ROOT / "dev"], capture_output=True, text=True, check=True).stdout
    named = [command.split()[1] for command in commands("./dev")]
    assert {"demo", "test"} <= set(named)
    assert [name for name in named if not re.search(rf"^  {name} ", usage, re.MULTILINE)] == []


def not_there_yet(start):
    """What the rows of the README's table refuse, without `start`."""
    rows = re.findall(r"^\|(.*)\| not yet: .*\|$", README, re.MULTILINE)
    return [name[len(start) :] for row in rows for name in re.findall(r"`([^`]+)`", row) if name.startswith(start)]


@pytest.mark.parametrize("name", not_there_yet("headwise."))
def test_what_the_readme_calls_not_there_yet_in_python_is_refused_by_name(name):
    with pytest.raises(NotImplementedError, match=f"^headwise.{name} is not served yet"):
        getattr(headwise, name)(*[None] * (5 if name == "attention_varlen" else 1))


@pytest.mark.parametrize("name", not_there_yet("headwise "))
def test_what_the_readme_calls_not_there_yet_on_the_command_line_is_refused_by_name(name):
    ran = subprocess.run([HEADWISE, name], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"headwise: '{name}' is not there yet")
