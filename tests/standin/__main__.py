"""Builds the stand-in where the tests look for it."""

from tests.conftest import REPOSITORY
from tests.standin import build

build(REPOSITORY / ".build" / "standin")
