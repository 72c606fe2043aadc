"""A watcher that is killed at any moment: nothing that was to be told is lost, none told twice."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from andon.alerts.rules.past import Query
from andon.model.alert import Phase
from andon.stores.sqlite_alerts import SqliteAlertStore
from tests.conftest import REPOSITORY

KILLS = 25
COMMAND = (sys.executable, "-m", "tests.integration.watching")


def told_ids(told: Path) -> list[list[str]]:
    """The notices of each message, in the order in which they came."""
    lines = told.read_text().splitlines() if told.exists() else []
    return [[notice["id"] for notice in json.loads(line)["notices"]] for line in lines]


@pytest.mark.timeout(300)
def test_a_killed_watcher_loses_nothing_and_repeats_only_what_was_under_way(
    tmp_path: Path,
) -> None:
    luck = random.Random(5)
    database, told = tmp_path / "history.db", tmp_path / "told"
    arguments = (*COMMAND, str(database), str(told), str(KILLS))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        for _ in range(KILLS):
            words = next(found for line in process.stdout if (found := line.split())[0] == "pid")
            for _ in range(luck.randrange(1, 120)):
                assert process.stdout.readline(), "it ended by itself"
            os.kill(int(words[1]), signal.SIGKILL)
        process.stdout.read()
    assert process.returncode == 0
    messages = told_ids(told)
    counts = Counter(number for message in messages for number in message)

    ledger = SqliteAlertStore(database)
    episodes = ledger.episodes(Query(rule="device_lost", limit=100_000))
    saved = ledger.load()
    ledger.close()
    assert saved is not None
    assert saved.deliveries == ()
    assert len(episodes) >= KILLS, "there was hardly anything to tell"
    expected = set()
    for episode in episodes:
        assert episode.state is Phase.RESOLVED
        expected |= {f"{episode.id}/1-firing", f"{episode.id}/2-resolved"}
    assert expected - counts.keys() == set(), "lost"
    assert counts.keys() - expected == set(), "told of what never was"

    seen: set[str] = set()
    repeated = 0
    for message in messages:
        repeated += any(number in seen for number in message)
        seen |= set(message)
    acknowledged = Counter(told.with_suffix(".acknowledged").read_text().split())
    twice = sum(count > 1 for count in acknowledged.values())
    print(
        f"{len(episodes)} episodes, {len(messages)} messages, {KILLS} kills: {repeated} messages "
        f"came again, {twice} notices although they were acknowledged"
    )
    assert repeated <= KILLS
