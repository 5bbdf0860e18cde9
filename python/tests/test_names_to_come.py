# SPDX-License-Identifier: Apache-2.0
"""Names that are promised and not yet served are refused by name; unknown ones as Python does."""

import pytest

import headwise


@pytest.mark.parametrize("name", ["attention_varlen", "view"])
def test_a_name_whose_time_has_not_come_refuses_the_call(name):
    arguments = [None] * (5 if name == "attention_varlen" else 1)
    with pytest.raises(NotImplementedError, match=f"^headwise.{name} is not served yet$"):
        getattr(headwise, name)(*arguments)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'headwise' has no attribute 'attentoin'$"):
        headwise.attentoin  # noqa: B018
