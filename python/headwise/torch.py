# SPDX-License-Identifier: Apache-2.0
"""headwise.torch is not served yet: importing it says so."""

from ._later import not_served

raise not_served("torch")
