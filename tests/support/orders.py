"""Marks tests of what a later order of work will mend."""

import pytest


def waits_for(order: str) -> pytest.MarkDecorator:
    """A test that must fail, by an assertion of its own, until the order of this name is done."""
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=f"waits for: {order}")
