"""`andon history`, `gc` and `seed`: what was, as people, scripts and spreadsheets see it."""

import csv
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from pyarrow import parquet

from andon.cli.commands.setup.gc import describe
from andon.cli.main import run
from andon.cli.show.history import (
    BUCKETS,
    HistoryLine,
    UsageReport,
    history_to_json,
    history_to_rows,
    render_history,
    render_uses,
    sparks_at,
)
from andon.cli.show.text import display_width, painted
from andon.cli.terminal import Terminal
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.tiers import Maintenance
from andon.model.codec import document
from andon.model.device import Device
from andon.registry import STORES
from andon.stores.memory import MemoryStore
from andon.stores.sqlite import SqliteStore
from andon.units import GIB, human_bytes
from tests.support.history_parts import AT, tick

Golden = Callable[[str, str], None]
DEVICES = (Device("GPU-1", 0, "nvidia", "H200"), Device("GPU-2", 1, "sim", "L40S (simulated)"))
USES = (
    UsageInterval("GPU-1", 41, 1.0, "ada", "python", AT, AT + 3600, 40 * GIB),
    UsageInterval("GPU-2", 7, None, None, None, AT + 600, AT + 660),
    UsageInterval("GPU-1", 42, 1.0, "bob", "train\x1b[2J", AT + 4000, AT + 7190, 20 * GIB),
)
LATEST = {"GPU-1": AT + 7190.0, "GPU-2": AT + 7190.0}


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@cache
def two_hours() -> MemoryStore:
    """One device that works, rests and is silent; nobody writes to it again."""
    store = MemoryStore()
    busy = [tick(AT + 10 * n, 50 + n % 40, 300.0 + n) for n in range(300)]
    store.write([*busy, *(tick(AT + 4000 + 10 * n, 0, 71.5) for n in range(200))])
    return store


def lines(points: int) -> list[HistoryLine]:
    """Two hours of that device, and of one never heard of."""
    store = two_hours()
    asked = [(d, m) for d in DEVICES for m in ("utilization_percent", "power_watts")]
    return [
        HistoryLine(d, d.uuid, m, store.history(d.uuid, m, AT, AT + 7200, points)) for d, m in asked
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_the_history_looks_as_drawn(golden: Golden, width: int) -> None:
    text = painted(render_history(lines(sparks_at(width)), AT, AT + 7200, width))
    golden(f"history-{width}.txt", text)


def test_nothing_recorded_is_said(golden: Golden) -> None:
    empty = [line for line in lines(8) if line.uuid == "GPU-2"]
    golden("history-empty.txt", painted(render_history(empty, AT, AT + 7200, 80)))


def test_who_was_there_looks_as_drawn(golden: Golden) -> None:
    text = painted(render_uses(USES, DEVICES, LATEST, 100))
    assert "\x1b" not in text
    golden("history-who.txt", text)
    assert painted(render_uses((), DEVICES, {}, 80)) == "no one used a device in this period\n"


def test_a_use_goes_on_only_if_its_process_was_there_at_the_last_reading() -> None:
    use = UsageInterval("GPU-1", 7, 1.0, "ada", "train.py", AT, AT + 44.0)
    for read_at, goes_on in ((AT + 43.5, True), (AT + 46.0, False)):
        text = painted(render_uses([use], DEVICES, {"GPU-1": read_at}, 100))
        assert (" now " in text) is goes_on
    assert " now " not in painted(render_uses([use], DEVICES, {}, 100)), "no server reads it"


def test_no_line_wraps_at_any_width() -> None:
    for width in range(60, 200, 7):
        shown = painted(render_history(lines(sparks_at(width)), AT, AT + 7200, width))
        shown += painted(render_uses(USES, DEVICES, LATEST, width))
        assert all(display_width(line) <= width for line in shown.splitlines())


def test_json_and_csv_hold_the_same(golden: Golden) -> None:
    found = history_to_json(lines(4), AT, AT + 7200)
    golden("history.json", Terminal(80, 24, color=False, live=True).json_text(found))
    rows = list(csv.DictReader(io.StringIO(BUCKETS.text(history_to_rows(lines(4))))))
    whole = [b for series in found["series"] for b in series["buckets"] if b["count"]]
    assert [float(row["max"]) for row in rows] == [bucket["max"] for bucket in whole]
    assert document(UsageReport(USES))["usage"][1]["started"] is None


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "history.db"
    monkeypatch.setenv("ANDON_HISTORY", str(path))
    store, now = SqliteStore(path), time.time()
    ticks = [tick(now - 3000 + n, 40) for n in range(0, 3000, 5)]
    store.write(
        ticks, [UsageInterval("GPU-1", 9, None, "ada", "python", now - 600, now)], DEVICES[:1]
    )
    store.close()
    return path


def test_a_device_is_found_by_index_and_by_the_beginning_of_its_uuid(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("0", "gpu-1"):
        assert run(["history", name, "--since", "1h", "-m", "utilization_percent", "--json"]) == 0
        (series,) = json.loads(capsys.readouterr().out)["series"]
        assert sum(bucket["count"] for bucket in series["buckets"]) == 600
    assert run(["history", "7"]) == 5
    assert "recorded: 0" in capsys.readouterr().err


def test_jsonl_has_one_line_per_part(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "-m", "power_watts", "--since", "2h", "-n", "4", "--jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["metric"] for row in rows} == {"power_watts"}
    assert all(row["count"] for row in rows)


def test_parquet_has_the_same_rows_typed(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "day.parquet"
    until = f"{datetime.now(UTC):%FT%T+00:00}"
    asked = ["history", "-m", "power_watts", "--since", "2020-01-01", "--until", until, "-n", "9"]
    assert run([*asked, "--parquet", str(file)]) == 0
    assert f"{file}: 1 row\n" in capsys.readouterr().err
    assert run([*asked, "--jsonl"]) == 0
    (said,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    table = parquet.read_table(file)
    assert table.schema.metadata[b"schema"] == b"andon.history/1"
    (row,) = table.to_pylist()
    assert row.pop("since").timestamp() == pytest.approx(said.pop("since"), abs=0.001)
    assert row.pop("until").timestamp() == pytest.approx(said.pop("until"), abs=0.001)
    assert row == said
    assert [path.name for path in tmp_path.iterdir() if "parquet" in path.name] == [file.name]


def test_parquet_holds_who_was_there_and_an_empty_time(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "who.parquet"
    assert run(["history", "--who", "--since", "12h", "--parquet", str(file)]) == 0
    (row,) = parquet.read_table(file).to_pylist()
    assert (row["device"], row["pid"], row["started"], row["user"]) == ("GPU-1", 9, None, "ada")
    assert (row["last"] - row["first"]).total_seconds() == pytest.approx(600, abs=0.002)
    long_ago = ["--since", "2020-01-01", "--until", "2020-01-02"]
    assert run(["history", *long_ago, "--parquet", str(file)]) == 0
    assert parquet.read_table(file).num_rows == 0


def test_parquet_that_cannot_be_written_is_told(
    recorded: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(["history", "--parquet", str(tmp_path / "no" / "folder.parquet")]) == 3
    assert "cannot be written" in capsys.readouterr().err
    assert run(["history", "--csv", "--parquet", "x"]) == 2
    assert "cannot be combined" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run(["history", "--parquet", str(tmp_path / "x")]) == 3
    assert "pip install 'andon[parquet]'" in capsys.readouterr().err


def test_who_answers_for_a_device(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "--who", "0", "--since", "12h"]) == 0
    assert "ada" in capsys.readouterr().out
    assert run(["history", "--who", "--since", "12h", "--csv"]) == 0
    assert "GPU-1,9,,ada,python" in capsys.readouterr().out


def test_without_a_recording_it_says_what_to_do(
    state_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("history", "gc"):
        assert run([command]) == 3
        assert "andon serve records" in capsys.readouterr().err
    assert not state_folder.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--since", "soon"],
        ["--since", "1h", "--until", "2h"],
        ["-m", "utilisation"],
        ["-n", "1000000"],
    ],
)
def test_a_mistake_is_named(
    recorded: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["history", *arguments]) == 2
    assert capsys.readouterr().err


def test_gc_says_what_it_did(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gc"]) == 0
    assert "samples packed" in capsys.readouterr().out
    assert run(["history", "0", "--since", "1h", "-m", "utilization_percent", "--json"]) == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert sum(bucket["count"] for bucket in series["buckets"]) == 600
    assert describe(Maintenance(), 2048, 1024) == "compacted, 2.0 KiB before, 1.0 KiB now"
    assert describe(Maintenance(), 2048, 2048) == "nothing to do, 2.0 KiB"
    assert describe(Maintenance(), 2048, 3072) == "nothing to do, 2.0 KiB before, 3.0 KiB now"


@pytest.mark.parametrize("command", [["history"], ["gc"], ["seed"], ["config", "check"]])
def test_a_store_that_does_not_exist_is_refused_with_those_that_do(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_HISTORY", "mydb://ada:secret@host/db")
    assert run(command) == 2
    told = capsys.readouterr().err
    assert "no such store: mydb://ada:***@host/db" in told
    assert ", ".join(sorted(STORES)) in told


@pytest.mark.parametrize("url", ["memory:", ":memory:"])
def test_a_history_in_memory_is_its_servers_alone(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_HISTORY", url)
    for command, code in (("history", 3), ("gc", 3), ("seed", 2)):
        assert run([command]) == code
        assert "in memory" in capsys.readouterr().err


def test_one_file_has_many_names(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(recorded.parent)
    for name in (f"sqlite://{recorded}", f"sqlite:{recorded}", "sqlite:history.db", "history.db"):
        monkeypatch.setenv("ANDON_HISTORY", name)
        assert run(["history", "--who", "--since", "12h", "--csv"]) == 0
        assert "ada" in capsys.readouterr().out


def files_of(path: Path) -> int:
    """The database with its journals, as `ls` shows them."""
    return sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))


@pytest.mark.slow
def test_gc_reports_the_true_size_while_a_server_has_the_history_open(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, now = SqliteStore(recorded), time.time()
    server.write([tick(now - 90_000 + n, n % 100) for n in range(3000)])
    server.usage(None, 0, now)  # its reading connection stays open, too
    before = files_of(recorded)
    assert run(["gc"]) == 0
    said = capsys.readouterr().out
    assert f"{human_bytes(before)} before, {human_bytes(files_of(recorded))} now" in said
    assert files_of(recorded) < before, "the journal is emptied, too"
    server.close()
