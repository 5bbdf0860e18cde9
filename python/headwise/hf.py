# SPDX-License-Identifier: Apache-2.0
"""headwise.hf is not served yet: importing it says so."""

from ._later import not_served

raise not_served("hf")
