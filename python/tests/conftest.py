# SPDX-License-Identifier: Apache-2.0
"""Lets the tests import their own helper modules and be interrupted, wherever pytest is started."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# A process started in the background of a shell ignores SIGINT; the tests of Ctrl-C send it to themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)
