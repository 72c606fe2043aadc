"""Whatever stands in the settings is taken or refused in a sentence."""

from pathlib import Path

import pytest

from tests.fuzz import settings
from tests.fuzz.chance import PARTS, SECONDS, SEED

SHARE = SECONDS / PARTS


@pytest.mark.timeout(SHARE + 120)
def test_no_setting_ends_in_a_traceback_or_takes_for_ever(tmp_path: Path) -> None:
    assert settings.play(tmp_path / "settings", SEED, SHARE) >= 3
