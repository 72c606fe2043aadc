"""Activity and traffic where people look: `status` and `watch` when wide, `why`, `history`."""

import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from msgspec.structs import replace

from andon import app
from andon.cli.main import run
from andon.cli.show.history import HistoryLine, render_history
from andon.cli.show.render import render_status
from andon.cli.show.text import painted
from andon.cli.show.watch import LiveTable, Stream
from andon.cli.show.why import answer, render_why
from andon.history.rules.series import Bucket
from andon.model.device import Host, Snapshot, State
from andon.node.local import LocalNode
from andon.node.local.context import LocalContext
from andon.node.port import LocalParts
from andon.settings.resolution import Settings
from andon.units import human_rate
from tests.support.snapshots import AT, HOST, FakeSampler, h200

BUSY = h200(
    0,
    utilization_percent=98,
    sm_active_percent=85.3,
    tensor_active_percent=51.0,
    pcie_received_bytes_per_second=2_610_000_000,
    pcie_sent_bytes_per_second=578_000_000,
    nvlink_received_bytes_per_second=160_000_000_000,
    nvlink_sent_bytes_per_second=0,
)
QUIET = h200(1)  # reports none of it
RATED = replace(
    HOST,
    disk_read_bytes_per_second=1_200_000,
    disk_written_bytes_per_second=0,
    network_received_bytes_per_second=99_960,
    network_sent_bytes_per_second=None,
)


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def node(host: Host = RATED) -> Snapshot:
    return Snapshot("node17", AT, host=host, devices=(BUSY, QUIET))


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (0, "0 B/s"), (7, "7 B/s"), (999, "999 B/s"), (1000, "1.0 kB/s"), (99_960, "100 kB/s"),
        (999_600, "1.0 MB/s"), (2_610_000_000, "2.6 GB/s"), (1.8e12, "1800 GB/s"),
    ],
)  # fmt: skip
def test_rates_are_decimal_as_links_are_rated(rate: float, text: str) -> None:
    assert human_rate(rate) == text


def test_a_wide_status_has_activity_and_traffic() -> None:
    heading, first, second = painted(render_status(node(), 230, AT)).splitlines()[1:4]
    assert "SM ACT     PCIe B/s   NVLink B/s" in heading
    assert "85 %  2.6G↓ 578M↑  160G↓    0↑" in first
    assert "–            –            –" in second, "unknown is not 0"


def test_a_column_that_no_device_knows_is_left_out() -> None:
    text = painted(render_status(replace(node(), devices=(QUIET,)), 230, AT))
    assert not {"SM ACT", "PCIe B/s", "NVLink B/s"} & set(text.replace("  ", "\n").splitlines())


def test_the_hosts_line_has_its_traffic_when_it_is_wide() -> None:
    wide, narrow = (painted(render_status(node(), width, AT)) for width in (160, 120))
    line = "disk 1.2 MB/s read, 0 B/s written · network 100 kB/s received"
    assert line in wide
    assert "disk" not in narrow
    assert "disk" not in painted(render_status(node(HOST), 160, AT)), "unknown is not 0"


def test_a_wide_watch_has_them_too() -> None:
    lines = Stream(200, 40, color=False).tick(node())
    assert "SM ACT" in lines
    assert "85 %  2.6G↓ 578M↑" in lines
    assert "SM ACT" not in Stream(120, 40, color=False).tick(node())
    frame = "\n".join(LiveTable(color=False).frame(node(), 230, 40))
    assert "160G↓    0↑" in frame
    assert "disk 1.2 MB/s read" in frame


def test_why_lists_them_above_the_reasons() -> None:
    text = painted(render_why(answer([node()], BUSY.device.uuid), 200))
    assert (
        "  readings    SM active 85 % · tensor cores active 51 % · PCIe received 2.6 GB/s · "
        "PCIe sent 578 MB/s · NVLink received 160 GB/s · NVLink sent 0 B/s\n" in text
    )
    lost = replace(BUSY, state=State.LOST, reason="it has fallen off the bus")
    for other in (QUIET, lost):
        seen = replace(node(), devices=(other,))
        assert "readings" not in painted(render_why(answer([seen], other.device.uuid), 200))


def test_history_has_rates_in_a_unit_that_people_read() -> None:
    buckets = [Bucket(0.0, 60.0, 6, 1e6, 2.5e9, 13e9)]
    line = HistoryLine(BUSY.device, BUSY.device.uuid, "pcie_sent_bytes_per_second", buckets)
    row = painted(render_history([line], 0.0, 60.0, 100)).splitlines()[2].split()
    assert row[1:3] == ["PCIe", "sent"]
    assert row[-4:] == ["1", "2500", "13000", "MB/s"]


class Looks(FakeSampler):
    """The first reading has no rates; what was asked for is kept."""

    def __init__(self) -> None:
        super().__init__(replace(node(), devices=(QUIET,)), node())
        self.asked: list[tuple[bool, bool]] = []

    def once(self, expensive_fields: bool = False, with_host: bool = True) -> Snapshot:
        self.asked.append((expensive_fields, with_host))
        return super().once(expensive_fields, with_host)


class PartsWith:
    """The parts of this machine with another sampler."""

    def __init__(self, sampler: FakeSampler) -> None:
        self.open_sampler = lambda settings: sampler

    def __getattr__(self, name: str) -> Any:
        return getattr(app, name)


@pytest.mark.parametrize(
    ("width", "options", "asked"),
    [
        ("230", (), [(True, True), (True, False)]),
        ("120", (), [(False, True)]),
        ("230", ("--json",), [(False, True)]),
        ("230", ("--csv",), [(False, True)]),
    ],
)
def test_only_a_wide_table_is_read_twice(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    width: str,
    options: tuple[str, ...],
    asked: list[tuple[bool, bool]],
) -> None:
    sampler = Looks()
    parts = cast("LocalParts", PartsWith(sampler))
    node = LocalNode(LocalContext(Settings(), parts, print))
    monkeypatch.setenv("COLUMNS", width)
    assert run(["status", *options], node) == 0
    assert sampler.asked == asked
    if len(asked) == 2:
        out = capsys.readouterr().out
        assert "85 %  2.6G↓ 578M↑" in out
        assert "CPU 12 %" in out, "of the first reading: between the two is too little time"
