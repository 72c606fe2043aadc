"""Whatever a live client sends costs that client and no other, and shows no secret."""

from importlib import import_module
from pathlib import Path

import pytest

from tests.fuzz.chance import PARTS, SECONDS, SEED
from tests.fuzz.target import target

SHARE = SECONDS / PARTS


@pytest.mark.timeout(SHARE + 120)
def test_no_packet_breaks_the_server_or_shows_a_secret(tmp_path: Path) -> None:
    with target(tmp_path / "packets", "--no-history") as fuzzed:
        import_module("tests.fuzz.packets").play(fuzzed.served.port, SEED, SHARE)
        fuzzed.check()
