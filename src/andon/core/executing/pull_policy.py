"""When an image is fetched; apart from orders, because commands list it among their options."""

from enum import StrEnum


class PullPolicy(StrEnum):
    """When an image is fetched from its registry."""

    NEVER = "never"
    MISSING = "missing"
