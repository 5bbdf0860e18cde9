# SPDX-License-Identifier: Apache-2.0
"""The files of this repository, as the tests that read its text see them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files(*endings):
    """Paths relative to the root of every file that git tracks or would track, by the end of their names."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = sorted(set(listed.split("\0")) - {""})
    return [Path(name) for name in names if (not endings or name.endswith(endings)) and (ROOT / name).is_file()]


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")
