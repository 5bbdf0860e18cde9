# SPDX-License-Identifier: Apache-2.0
"""Rules for the text of every file: licence line, length, names, and what must not stand in it."""

import re

import repository

MOST_LINES = 400
# Longer files, each with the reason why it is not split.
LONGER = {}

# Put together here so that this file does not contain what it forbids.
HOSTS = (
    "pypi" + ".org",
    "python" + "hosted.org",
    "npm" + "js",
    "deb." + "debian",
    "crates" + ".io",
    "proxy." + "golang",
)
MACHINE_PATH = re.compile(r"(?<![\w.$}*-])/(?:work|root|home|tmp|opt)/[\w.]")
LEFTOVER = re.compile(
    r"\b(?:TO"
    + r"DO|FIX"
    + r"ME|XX"
    + r"X)\b|GTEST_"
    + r"SKIP|pytest\."
    + r"skip|mark\.(?:skip|xf"
    + r"ail)|\bDISABLED"
    + r"_"
)
# Tests that cannot run everywhere, each with the reason; the runner names them as skipped.
MAY_SKIP = {
    "headwise/runtime/isa_test.cc": "there is no list of flags to compare with where the kernel keeps none",
    "tests/torch_pytorch_own_test.py": "PyTorch's own test files are not part of this repository",
    "python/tests/test_command.py": "the package's own tests run without the model; ./dev test installs it",
}
VAGUE_NAMES = {"util", "utils", "common", "helper", "helpers", "misc"}
CODE = (".h", ".cc", ".py", ".pyi", ".js", ".css", ".cmake", ".toml", "CMakeLists.txt", "/run", "dev")


def code_files():
    return [path for path in repository.files(*CODE) if path.name != "LICENSE"]


def text_files():
    """Every file that is text."""
    for path in repository.files():
        try:
            yield path, repository.text(path)
        except UnicodeDecodeError:
            continue


def lacks_licence(text):
    lines = [line for line in text.splitlines()[:3] if not line.startswith(("#!", "<!doctype"))]
    return bool(lines) and "SPDX-License-Identifier: Apache-2.0" not in lines[0]


def test_every_source_starts_with_its_licence():
    assert [str(path) for path in code_files() if lacks_licence(repository.text(path))] == []


def test_no_source_is_too_long_but_those_with_a_reason():
    lengths = {path.as_posix(): len(repository.text(path).splitlines()) for path in code_files()}
    assert {path for path, lines in lengths.items() if lines > MOST_LINES} == set(LONGER)


def test_no_file_names_a_registry_host():
    assert [f"{path}: {host}" for path, text in text_files() for host in HOSTS if host in text] == []


def test_no_file_names_a_path_of_one_machine():
    assert [f"{path}: {found}" for path, text in text_files() for found in MACHINE_PATH.findall(text)] == []


def test_no_test_is_skipped_and_nothing_is_left_to_do():
    found = {path.as_posix() for path, text in text_files() if LEFTOVER.search(text)}
    assert found == set(MAY_SKIP)


def test_no_file_has_a_name_that_says_nothing():
    parts = {(path, part.split(".")[0]) for path in repository.files() for part in path.parts}
    assert [str(path) for path, part in sorted(parts) if VAGUE_NAMES & set(re.split(r"[_-]", part))] == []


def test_the_rules_find_what_they_forbid():
    assert lacks_licence("import os\n")
    assert not lacks_licence("#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")
    assert MACHINE_PATH.search("see /ho" + "me/somebody/notes")
    assert not MACHINE_PATH.search("see docs/home/page")
    assert LEFTOVER.search("// TO" + "DO: later")
