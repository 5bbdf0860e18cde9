# SPDX-License-Identifier: Apache-2.0
"""The command `headwise`: text becomes token ids here, everything else is the C++ command."""

from __future__ import annotations

import os
import sys

from . import _headwise


def main(arguments=None):
    """Runs the command with these arguments, those of the process unless given. Returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] in (["help"], ["--help"], ["-h"]) and arguments[1:2] == ["attend"]:
        arguments = ["attend", "--help"]
    try:
        if arguments[:1] == ["attend"]:
            from ._attend import HELP, AttendError, asks_for_help, with_token_ids

            if asks_for_help(arguments):
                return show(HELP)
            try:
                arguments = with_token_ids(arguments)
            except AttendError as error:
                print(f"headwise attend: {error}", file=sys.stderr)
                return 2
        return run(arguments)
    except KeyboardInterrupt:
        print("headwise: interrupted", file=sys.stderr)
        return 130


def show(text):
    """Prints a text; a reader that has closed its end has seen enough."""
    try:
        print(text, end="", flush=True)
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the exit tries to write it once more
        if isinstance(error, BrokenPipeError):
            return 0
        print(f"headwise: the results cannot be written: {error.strerror}", file=sys.stderr)
        return 2


def run(arguments):
    sys.stdout.flush()
    try:
        return _headwise.run_command([os.fsencode(argument) for argument in arguments])
    except KeyboardInterrupt:
        return 130  # the command has said so


if __name__ == "__main__":
    sys.exit(main())
