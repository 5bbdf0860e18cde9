# SPDX-License-Identifier: Apache-2.0
"""headwise under Hugging Face transformers: one line gives a model headwise's attention, and a look at its heads."""

from ._enable import Enabled, enable

__all__ = ["Enabled", "enable"]
