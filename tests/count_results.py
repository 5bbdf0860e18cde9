# SPDX-License-Identifier: Apache-2.0
"""Adds up JUnit files and prints what ran as one line: "N passed, N failed", skipped named when there are any."""

import sys
import xml.etree.ElementTree
from pathlib import Path


def count(path):
    """(passed, failed, skipped) of one file; ctest writes one testsuite, pytest one inside testsuites."""
    passed = failed = skipped = 0
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main(paths):
    passed, failed, skipped = (sum(column) for column in zip(*map(count, paths), strict=True))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main([Path(argument) for argument in sys.argv[1:]]))
