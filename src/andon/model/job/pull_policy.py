"""When an image is fetched; separate from orders, because commands list it among their options."""

from enum import StrEnum


class PullPolicy(StrEnum):
    """When an image is fetched from its registry."""

    NEVER = "never"
    MISSING = "missing"
