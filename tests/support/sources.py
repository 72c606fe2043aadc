"""The source of andon's package, read once for all the tests that look through it."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tests.conftest import REPOSITORY

SOURCE = REPOSITORY / "src" / "andon"


@cache
def sources() -> Mapping[str, str]:
    """The text of each module by its path in the package, such as `sampling/rules/masks.py`."""
    found = sorted(SOURCE.rglob("*.py"))
    return MappingProxyType(
        {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in found}
    )
