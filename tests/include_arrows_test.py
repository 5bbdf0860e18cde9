# SPDX-License-Identifier: Apache-2.0
"""Reads every #include and fails on a direction that the table of docs/ARCHITECTURE.md does not allow."""

import re
from pathlib import PurePosixPath

import pytest

import repository

# Room -> rooms it may include, itself apart.
ARROWS = {
    "tensor": set(),
    "runtime": {"tensor"},
    "kernels": {"tensor", "runtime"},
    "layers": {"tensor", "runtime", "kernels"},
    "models": {"tensor", "runtime", "kernels", "layers"},
    "io": {"tensor"},
    "checkpoints": {"tensor", "runtime", "kernels", "layers", "models", "io"},
    "lens": {"tensor", "runtime", "kernels", "layers", "models", "io", "checkpoints"},
}

# What is installed, and so all that the two faces may use. Of runtime: what public signatures name, and isa.h.
PUBLIC_ROOMS = {"tensor", "layers", "models", "io", "checkpoints", "lens"}
PUBLIC_HEADERS = {
    "headwise/headwise.h",
    "headwise/kernels/attention.h",
    "headwise/kernels/linear.h",
    "headwise/runtime/execution.h",
    "headwise/runtime/function_ref.h",
    "headwise/runtime/isa.h",
    "headwise/runtime/random.h",
    "headwise/runtime/threads.h",
}
# Headers of public rooms that stay inside the library say so in their first lines: "Not installed".
PRIVATE_HEADERS = {
    path.as_posix()
    for path in repository.files(".h")
    if "Not installed" in " ".join(re.findall(r"^// (.*)$", repository.text(path)[:800], re.MULTILINE))
}

# Outside library -> places that may include it: rooms, faces, or the tests of any of them.
OUTSIDE = {
    "hwy": {"kernels"},
    "nlohmann": {"models", "io", "checkpoints", "lens", "cli", "tests"},
    "CLI": {"cli"},
    "zlib": {"io"},
    "fmt": {*ARROWS, "cli", "python", "tests"},
    "nanobind": {"python"},
    "gtest": {"tests"},
    "gmock": {"tests"},
}

# Headers of outside libraries that have no folder of their own.
BARE_HEADERS = {"zlib.h": "zlib"}

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"(?P<quoted>[^"]+)"|<(?P<angled>[^>]+)>|(?P<macro>\w+))', re.MULTILINE)


def place_of(path):
    """The room, or the face, or the folder, that a file belongs to."""
    parts = PurePosixPath(path).parts
    if parts[0] == "headwise":
        return parts[1] if len(parts) > 2 else "umbrella"
    return parts[0]


def is_public(header):
    if header in PRIVATE_HEADERS:
        return False
    return header in PUBLIC_HEADERS or (header.startswith("headwise/") and place_of(header) in PUBLIC_ROOMS)


def may_include(path, header):
    """Whether the project's file at `path` may include the project's `header`."""
    place, target = place_of(path), place_of(header)
    if place == "tests" or target == place or (path.endswith("_test.cc") and target == "tests"):
        return True
    if place in ARROWS:
        return target in ARROWS[place]
    if place == "python":
        return is_public(header) or target == "cli"
    return is_public(header)


def faults(path, text):
    """One sentence for each #include of `text` that the tables do not allow."""
    found = []
    is_test = path.endswith("_test.cc")
    for match in INCLUDE.finditer(text):
        quoted, angled, macro = match["quoted"], match["angled"], match["macro"]
        if macro:
            if macro != "HWY_TARGET_INCLUDE":
                found.append(f"{path} includes the macro {macro}, which nobody can check")
        elif quoted and PurePosixPath(quoted).parts[0] in ("headwise", "cli", "python", "tests", "bench", "examples"):
            if not may_include(path, quoted):
                found.append(f"{path} must not include {quoted}")
            if path.endswith(".h") and is_public(path) and not is_public(quoted):
                found.append(f"{path} is installed and includes {quoted}, which is not")
        elif "/" in (name := quoted or angled) or name in BARE_HEADERS:
            library = BARE_HEADERS.get(name, PurePosixPath(name).parts[0])
            if library in OUTSIDE:
                if not OUTSIDE[library] & ({place_of(path)} | ({"tests"} if is_test else set())):
                    found.append(f"{path} must not include {name}: {library} is not for {place_of(path)}/")
                if path.endswith(".h") and is_public(path):
                    found.append(f"{path} is installed and includes {name}, an outside library")
            elif quoted:
                found.append(f"{path} includes {quoted}: paths start at the repository root")
        elif quoted:
            found.append(f"{path} includes {quoted}: paths start at the repository root")
    return found


def test_every_include_goes_the_way_the_table_allows():
    sources = [path.as_posix() for path in repository.files(".h", ".cc")]
    assert len(sources) > 20
    assert [fault for path in sources for fault in faults(path, repository.text(path))] == []


def test_the_umbrella_header_has_every_installed_header():
    installed = {
        path.as_posix()
        for path in repository.files(".h")
        if is_public(path.as_posix()) and path.as_posix() != "headwise/headwise.h"
    }
    included = re.findall(r'^#include "(.*)"$', repository.text("headwise/headwise.h"), re.MULTILINE)
    assert included == sorted(installed)


def test_every_room_is_in_the_table():
    rooms = {
        path.parts[1] for path in repository.files(".h", ".cc") if path.parts[0] == "headwise" and len(path.parts) > 2
    }
    assert rooms <= set(ARROWS)


def test_no_two_rooms_include_each_other():
    for room, below in ARROWS.items():
        for other in below:
            assert room not in ARROWS[other]


@pytest.mark.parametrize(
    ("path", "line", "fault"),
    [
        (
            "headwise/kernels/softmax.cc",
            '#include "headwise/layers/linear.h"',
            "headwise/kernels/softmax.cc must not include headwise/layers/linear.h",
        ),
        (
            "headwise/io/npy.cc",
            '#include "headwise/checkpoints/load.h"',
            "headwise/io/npy.cc must not include headwise/checkpoints/load.h",
        ),
        (
            "cli/run_command.cc",
            '#include "headwise/kernels/reference.h"',
            "cli/run_command.cc must not include headwise/kernels/reference.h",
        ),
        (
            "python/bindings/attention.cc",
            '#include "headwise/runtime/scratch.h"',
            "python/bindings/attention.cc must not include headwise/runtime/scratch.h",
        ),
        (
            "headwise/layers/linear.h",
            '  #  include "headwise/kernels/panels.h"',
            "headwise/layers/linear.h is installed and includes headwise/kernels/panels.h, which is not",
        ),
        (
            "headwise/io/npy.h",
            "#include <nlohmann/json.hpp>",
            "headwise/io/npy.h is installed and includes nlohmann/json.hpp, an outside library",
        ),
        (
            "headwise/layers/linear.cc",
            "#include <hwy/highway.h>",
            "headwise/layers/linear.cc must not include hwy/highway.h: hwy is not for layers/",
        ),
        (
            "headwise/io/npy.cc",
            "#include <gtest/gtest.h>",
            "headwise/io/npy.cc must not include gtest/gtest.h: gtest is not for io/",
        ),
        (
            "headwise/lens/trace_file.cc",
            "#include <zlib.h>",
            "headwise/lens/trace_file.cc must not include zlib.h: zlib is not for lens/",
        ),
        (
            "headwise/io/npy.cc",
            '#include "npy.h"',
            "headwise/io/npy.cc includes npy.h: paths start at the repository root",
        ),
        ("cli/main.cc", "#include SECRET", "cli/main.cc includes the macro SECRET, which nobody can check"),
    ],
)
def test_a_wrong_direction_is_found(path, line, fault):
    assert faults(path, line) == [fault]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("headwise/layers/linear.cc", '#include "headwise/kernels/linear.h"'),
        ("headwise/kernels/softmax.cc", "#include HWY_TARGET_INCLUDE"),
        ("headwise/io/npy_test.cc", "#include <gtest/gtest.h>"),
        ("python/bindings/main.cc", '#include "cli/commands.h"'),
        ("headwise/io/npy_test.cc", '#include "tests/support/file_bytes.h"'),
        ("tests/golden_test.cc", '#include "headwise/kernels/reference.h"'),
        ("headwise/io/npy.cc", "#include <sys/stat.h>"),
    ],
)
def test_a_right_direction_is_not(path, line):
    assert faults(path, line) == []
