# SPDX-License-Identifier: Apache-2.0
"""Threads, instruction set and build, and the two environment variables, which only this face and the command read."""

from __future__ import annotations

import os

from . import _headwise


def set_num_threads(n):
    """How many threads every later call uses, the calling one included. Results do not depend on it."""
    _headwise.set_num_threads(n)


def get_num_threads():
    """How many threads a call uses: at first as many as this process may run at once."""
    return _headwise.get_num_threads()


def show_config():
    """Prints version, instruction set, threads and build."""
    print(config_text())


def config_text():
    chosen = _headwise.chosen_isa()
    others = ", ".join(name for name in _headwise.available_isas() if name != chosen)
    return "\n".join(
        [
            f"headwise {_headwise.__version__}",
            f"  instruction set  {chosen}" + (f" (also here: {others})" if others else ""),
            f"  threads          {_headwise.get_num_threads()}",
            f"  build            {_headwise.build()}",
            "  variables        HEADWISE_NUM_THREADS, HEADWISE_ISA",
        ]
    )


def apply_environment():
    """Reads HEADWISE_NUM_THREADS and HEADWISE_ISA; a bad value is a ValueError that names the variable."""
    threads = os.environ.get("HEADWISE_NUM_THREADS")
    if threads is not None:
        if not (threads.isascii() and threads.isdigit() and 1 <= int(threads) <= 1024):
            raise ValueError(f"HEADWISE_NUM_THREADS must be an integer in 1..1024, got {threads!r}")
        _headwise.set_num_threads(int(threads))
    isa = os.environ.get("HEADWISE_ISA")
    if isa is not None:
        try:
            _headwise.force_isa(isa)
        except ValueError as error:
            raise ValueError(f"HEADWISE_ISA: {error}") from None
