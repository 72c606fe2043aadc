"""Whatever a replay file or another server says ends in a sentence and not in a traceback."""

from importlib import import_module

import pytest

from tests.fuzz.chance import PARTS, SECONDS, SEED

SHARE = SECONDS / PARTS


@pytest.mark.timeout(SHARE + 120)
def test_no_document_ends_in_a_traceback_or_takes_for_ever() -> None:
    import_module("tests.fuzz.documents").play(SEED, SHARE)
