"""Whatever is asked over HTTP is answered, in time, and without a secret."""

from pathlib import Path

import pytest

from tests.fuzz import bodies
from tests.fuzz.chance import PARTS, SECONDS, SEED
from tests.fuzz.routes import describe
from tests.fuzz.target import target

SHARE = SECONDS / PARTS


@pytest.mark.timeout(SHARE + 120)
def test_no_request_breaks_the_server_or_shows_a_secret(tmp_path: Path) -> None:
    with target(tmp_path / "bodies") as fuzzed:
        routes = describe(fuzzed)
        assert len(routes) > 30, "the description names the routes"
        assert sum(route.body is not None for route in routes) > 5
        played = bodies.play(fuzzed, SEED, SHARE)
        fuzzed.check()
    assert played >= 5
