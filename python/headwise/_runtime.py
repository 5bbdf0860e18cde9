# SPDX-License-Identifier: Apache-2.0
"""Threads, instruction set and build, and the environment variables, which only this face and the command read."""

from __future__ import annotations

import sys

from . import _headwise


def set_num_threads(n):
    """How many threads every later call uses, the calling one included. Results do not depend on it."""
    _headwise.set_num_threads(n)


def get_num_threads():
    """How many threads a call uses: at first as many as this process may run at once."""
    return _headwise.get_num_threads()


def show_config():
    """Prints version, instruction set, threads and build."""
    chosen = _headwise.chosen_isa()
    others = ", ".join(name for name in _headwise.available_isas() if name != chosen)
    print(f"headwise {_headwise.__version__}")
    print(f"  instruction set  {chosen}" + (f" (also here: {others})" if others else ""))
    print(f"  threads          {_headwise.get_num_threads()}")
    print(f"  build            {_headwise.build()}")
    print("  variables        HEADWISE_NUM_THREADS, HEADWISE_ISA")


def apply_environment():
    """Reads HEADWISE_NUM_THREADS and HEADWISE_ISA. A bad value is a ValueError that names the variable; while the
    package is imported to run as a command, it is the command's error instead."""
    try:
        _headwise.apply_environment()
    except ValueError as error:
        program = sys.argv[0] if sys.argv else ""
        if program != "-m" and not program.endswith("/headwise"):
            raise
        print(f"headwise: {error}", file=sys.stderr)
        raise SystemExit(2) from None
