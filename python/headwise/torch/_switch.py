# SPDX-License-Identifier: Apache-2.0
"""Whether headwise stands aside in a thread."""

from __future__ import annotations

import threading

thread = threading.local()


def is_off():
    return getattr(thread, "off", False)
