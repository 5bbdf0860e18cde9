# SPDX-License-Identifier: Apache-2.0
"""Lets the tests import their own helper modules, wherever pytest is started."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
