"""What every role gets of every route and live event of real servers: one of root with users, a
hub and its node, where alice is another person than on the hub's machine, and a demo."""

import json
import re
from collections.abc import Callable

import pytest

from tests.conftest import REPOSITORY
from tests.integration.machine import on_a_machine, told
from tests.support.role_servers import USERS
from tests.support.server_matrix import LIVE


@pytest.mark.parametrize("kind", LIVE)
def test_every_role_gets_what_it_may(kind: str, golden: Callable[[str, str], None]) -> None:
    script = f'{USERS}\n"$PYTHON" -P -m tests.support.server_matrix {kind}\n'
    found = told(on_a_machine(script, network=True))["matrix"]
    assert found.pop("live") == LIVE[kind]
    golden(f"roles-{kind}.json", json.dumps(found, indent=1) + "\n")


def test_every_live_event_is_listened_for() -> None:
    sources = (REPOSITORY / "src/andon/web/live").glob("*.py")
    emitted = {name for one in sources for name in re.findall(r'emit\("(\w+)"', one.read_text())}
    assert emitted == {name for rows in LIVE.values() for name in rows}, "a live event has no row"
