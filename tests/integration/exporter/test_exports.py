"""What a server sends to others, read back from a real Prometheus, VictoriaMetrics and OTLP."""

import gzip
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from msgspec import Struct
from msgspec.structs import replace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from andon.exporter.catalogue import ALL, COSTS, ITSELF, SERVER
from andon.exporter.exports import Export, packer
from andon.exporter.receiver import Receiver as Address
from andon.exporter.rules.answers import SendVerdict
from andon.exporter.rules.otlp import otlp_metric
from andon.sampling.bus import Subscription
from andon.settings.exports import ExportSettings
from tests.conftest import need
from tests.integration.parts import free_port, wait_until
from tests.integration.prometheus import Prometheus, victoria_metrics, written_to
from tests.integration.serving import Served, serving
from tests.support.disks import disk as disk
from tests.support.exposition import parse
from tests.support.full_snapshot import FULL
from tests.support.receiving import Receiver, receiving

WHEN_ASKED = {row.name for row in (*COSTS, *SERVER, *ITSELF)}
"""What is read when someone asks, and not with the devices: a moment later it differs."""
STAMP = "andon_snapshot_timestamp_seconds"
Series = dict[frozenset[tuple[str, str]], float]


class Sent(Struct, frozen=True):
    """A server, and those it sends to."""

    server: Served
    prometheus: Prometheus
    victoria: Prometheus
    otlp: Receiver


def table(kind: str, url: str, name: str) -> str:
    lines = (f'kind = "{kind}"', f'url = "{url}"', f'name = "{name}"', "interval = 1")
    return "\n".join(("[[export]]", *lines, ""))


def write_url(to: Prometheus) -> str:
    return f"http://127.0.0.1:{to.port}/api/v1/write"


@contextmanager
def sending(folder: Path, *tables: str) -> Iterator[Served]:
    config = folder / "andon.toml"
    config.write_text("\n".join(('[node]\nname = "n1"', *tables)))
    config.chmod(0o600)
    with serving(folder, "--no-history", "--config", str(config)) as server:
        yield server


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sent]:
    need("prometheus", "victoria-metrics")
    folder = tmp_path_factory.mktemp("sent")
    with (
        written_to(folder) as prometheus,
        victoria_metrics(folder) as victoria,
        receiving() as otlp,
        sending(
            folder,
            table("remote-write", write_url(prometheus), "prom"),
            table("remote-write", write_url(victoria), "vm"),
            table("otlp", f"http://127.0.0.1:{otlp.port}/v1/metrics", "otlp"),
        ) as server,
    ):
        wait_until(lambda: all(one["sent"] >= 2 for one in exports(server)), "two of each")
        yield Sent(server, prometheus, victoria, otlp)


def exports(server: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.ask("/api/health", **server.bearer).json()["exports"][
        "exports"
    ]
    return found


def row(server: Served, name: str) -> dict[str, Any]:
    return next(one for one in exports(server) if one["name"] == name)


def waits(server: Served, at_least: int) -> bool:
    count: int = row(server, "away")["waiting"]
    return count >= at_least


def scraped(server: Served) -> Series:
    """What a scrape gets now, by name and labels."""
    text = server.ask("/metrics", **server.bearer).body
    return {
        labels | {("__name__", name)}: value
        for name, family in parse(text).items()
        for labels, value in family.series.items()
    }


def stamp_of(series: Series) -> float:
    return series[frozenset({("__name__", STAMP)})]


def read_back(database: Prometheus, at: float) -> Series:
    """What a database holds of this very moment."""
    rows = database.get("query", query='{job="andon",instance="n1"}', time=f"{at:.3f}")["result"]
    own = {("job", "andon"), ("instance", "n1")}
    return {frozenset(row["metric"].items() - own): float(row["value"][1]) for row in rows}


def of_the_devices(series: Series) -> Series:
    late = {f"andon_{name}" for name in WHEN_ASKED}
    return {key: value for key, value in series.items() if dict(key)["__name__"] not in late}


def same_moment(server: Served, read: Callable[[float], Any]) -> tuple[Series, Any]:
    """A scrape, and what was read back of the same snapshot. A database shows it later, and the
    first snapshots of a server are not the same for all that read them."""
    scrapes: dict[float, Series] = {}
    found: list[tuple[Series, Any]] = []

    def look() -> bool:
        scrape = scraped(server)
        scrapes[stamp_of(scrape)] = scrape
        found.extend((one, there) for at, one in scrapes.items() if (there := read(at)))
        return bool(found)

    wait_until(look, "the same snapshot")
    return found[0]


@pytest.mark.parametrize(("database", "share"), [("prometheus", 0.0), ("victoria", 1e-14)])
def test_what_is_read_back_equals_a_scrape(sent: Sent, database: str, share: float) -> None:
    """VictoriaMetrics keeps about 15 digits of a value, Prometheus all of them."""
    to, stamp = getattr(sent, database), frozenset({("__name__", STAMP)})

    def read(at: float) -> Series | None:
        there = read_back(to, at)
        # The first snapshots are sent while the last of the exports is still being opened.
        is_whole = any(("export", "otlp") in series for series in there)
        is_same = there.get(stamp) == pytest.approx(at, rel=share, abs=0)
        return there if is_whole and is_same else None

    scrape, found = same_moment(sent.server, read)
    assert found.keys() == scrape.keys()
    wanted = of_the_devices(scrape)
    assert len(wanted) > 100
    wrong = {
        key: (found[key], value)
        for key, value in wanted.items()
        if found[key] != pytest.approx(value, rel=share, abs=0)
    }
    assert wrong == {}


def points(body: bytes) -> list[tuple[str, float, int]]:
    """The points of an OTLP request: name, value and time."""
    message = ExportMetricsServiceRequest()
    json_format.Parse(gzip.decompress(body), message)
    return [
        (metric.name, point.as_double, point.time_unix_nano)
        for resource in message.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in (metric.gauge.data_points or metric.sum.data_points)
    ]


def test_an_otlp_receiver_gets_the_values_of_a_scrape(sent: Sent) -> None:
    names = {f"andon_{row.name}": otlp_metric(row, "andon") for row in ALL}

    def read(at: float) -> list[tuple[str, float, int]]:
        read = (points(body) for body in sent.otlp.bodies)
        return next((one for one in read if one[0][2] == round(at * 1000) * 1_000_000), [])

    scrape, found = same_moment(sent.server, read)
    metrics = [
        (names[dict(key)["__name__"]], value) for key, value in of_the_devices(scrape).items()
    ]
    wanted = sorted((one.name, value * one.factor) for one, value in metrics)
    late = {names[f"andon_{name}"].name for name in WHEN_ASKED}
    assert sorted((n, v) for n, v, _ in found if n not in late) == wanted
    assert {got.headers["content-type"] for got in sent.otlp.got} == {"application/json"}


@pytest.mark.parametrize(
    ("database", "again"),
    [("prometheus", SendVerdict.REFUSED), ("victoria", SendVerdict.ACCEPTED)],
)
def test_what_is_repeated_old_or_nonsense_is_answered_for_good(
    sent: Sent, database: str, again: SendVerdict
) -> None:
    """So docs/exports.md says; what is refused is never tried again."""
    url = write_url(getattr(sent, database))
    pack, headers = packer(ExportSettings("x", "remote-write", url), "andon", "other")
    to = Address(ExportSettings("x", "remote-write", url), headers)
    now = time.time()
    first, second, old = (pack("andon_devices 1\n", at) for at in (now - 1, now, now - 7200))
    verdicts = [to.send(body).verdict for body in (first, first, second, first, old, b"nonsense")]
    to.rest()
    accepted = SendVerdict.ACCEPTED
    assert verdicts == [accepted, accepted, accepted, again, again, SendVerdict.REFUSED]


def test_the_server_shows_what_it_sent(sent: Sent) -> None:
    assert {one["name"]: one["ok"] for one in exports(sent.server)} == {
        "prom": True, "vm": True, "otlp": True,
    }  # fmt: skip
    series = scraped(sent.server)
    for name in ("prom", "vm", "otlp"):
        labels = {("export", name)}
        assert series[frozenset({("__name__", "andon_export_sent_total"), *labels})] >= 2
        assert series[frozenset({("__name__", "andon_export_refused_total"), *labels})] == 0
        assert series[frozenset({("__name__", "andon_export_dropped_total"), *labels})] == 0
    # A counter that a database holds lags behind by what was sent since.
    (held,) = sent.prometheus.query('andon_export_sent_total{export="prom"}')
    assert float(held["value"][1]) >= 1


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.timeout(900)
def test_killed_in_the_middle_nothing_is_lost_and_nothing_acknowledged_sent_again(
    tmp_path: Path, kills: int
) -> None:
    """A receiver is away; the server is killed; then both come."""
    need("prometheus")
    port, waiting = free_port(), 0
    with receiving() as otlp:
        tables = (
            table("remote-write", f"http://127.0.0.1:{port}/api/v1/write", "away"),
            table("otlp", f"http://127.0.0.1:{otlp.port}/v1/metrics", "here"),
        )
        for _ in range(kills):
            with sending(tmp_path, *tables) as server:
                otlp.wait(len(otlp.got) + 2)
                wait_until(partial(waits, server, waiting + 1), "some that wait")
                waiting = row(server, "away")["waiting"]
                os.kill(server.process.pid, signal.SIGKILL)
                server.process.wait(60)
        with written_to(tmp_path, port) as prometheus, sending(tmp_path, *tables) as server:
            wait_until(lambda: row(server, "away")["sent"] > waiting, "all that waited")
            away = row(server, "away")
            assert (away["refused"], away["dropped"]) == (0, 0), "in order"
            (held,) = prometheus.query(f"count_over_time({STAMP}[1h])")
            assert away["sent"] <= float(held["value"][1]) <= row(server, "away")["sent"] + 1
        times = [points(body)[0][2] for body in otlp.bodies]
        # A kill may have come after the answer and before it was noted.
        assert len(times) - len(set(times)) <= kills
        assert sorted(times) == times


def test_on_a_disk_that_is_full_the_metrics_are_sent_all_the_same(disk: Path) -> None:
    session = Subscription(1.0, False, 64, leave=lambda: None)
    with receiving() as otlp:
        given = ExportSettings("lab", "otlp", f"http://127.0.0.1:{otlp.port}/")
        export = Export(
            given, session, lambda _: "", lambda _, at: b"%d" % at, Address(given, {}), disk / "q"
        )
        try:
            with suppress(OSError), (disk / "rest").open("wb", buffering=0) as file:
                while file.write(bytes(1 << 12)):
                    pass
            for at in (1, 2, 3):
                session.put(replace(FULL, at=float(at)), float(at))
                otlp.wait(at)
            wait_until(lambda: export.counts().sent == 3, "their answers")
            assert "No space left on device" in str(export.health()["reason"])
            (disk / "rest").unlink()
            session.put(replace(FULL, at=4.0), 4.0)
            wait_until(lambda: export.counts().sent == 4, "the next")
            assert export.health()["ok"] is True
        finally:
            export.end()
            export.join(10)
    assert otlp.bodies == [b"1", b"2", b"3", b"4"]


def test_a_setting_that_cannot_be_right_is_named_before_anything_starts(tmp_path: Path) -> None:
    from tests.integration.serving import andon

    config = tmp_path / "andon.toml"
    config.write_text(table("remote-write", "http://u:hunter2@h/", "x"))
    done = andon(tmp_path, "serve", "--simulate", "1", "--port", "0", "--config", str(config))
    assert done.code == 2
    assert re.search(r"export 1 \(x\)\.url: the value is not a URL", done.err)
    assert "hunter2" not in done.err
