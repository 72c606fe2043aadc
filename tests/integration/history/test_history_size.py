"""A year of two devices: how much room it takes, and that all of it can be asked for."""

import time
from pathlib import Path

import pytest

from andon.stores.sqlite import SqliteStore
from tests.integration.conftest import andon

DEVICES = 2  # each has its own series and chunks, so eight take at most four times as much
BUDGET_BYTES = 250_000_000 * DEVICES / 8
TREMBLE = 2.0  # simulated ticks come on the second; late ones double what the raw tier takes
DAY_SECONDS = 86_400.0


@pytest.mark.timeout(300)
def test_a_year_of_devices_stays_within_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "year.db"
    monkeypatch.setenv("ANDON_HISTORY", str(path))
    now = time.time()  # before: what is written ends here, however long the writing takes
    done = andon("seed", "--days", "365", "--devices", str(DEVICES), timeout_seconds=200)
    assert done.code == 0, done.err
    assert TREMBLE * path.stat().st_size < BUDGET_BYTES
    done = andon("gc", timeout_seconds=120)
    assert done.code == 0, done.err
    store = SqliteStore(path, readonly=True)
    for device in store.devices():
        # The oldest block is a whole one, and those of hours are ten days long.
        for days, points in ((1, 1000), (30, 500), (354, 354)):
            span = (now - days * DAY_SECONDS, now - 60.0, points)
            found = store.history(device.uuid, "utilization_percent", *span)
            assert all(bucket.count for bucket in found), (device.index, days)
    assert store.usage(None, now - 80 * DAY_SECONDS, now - 79 * DAY_SECONDS)
    store.close()
