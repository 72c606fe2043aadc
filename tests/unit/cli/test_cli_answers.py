"""Small answers of the commands: each says what it knows, and why it does not know more."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.cli.commands.explain import alerts_trial
from andon.cli.commands.setup.config import render_settings
from andon.cli.commands.setup.cost import Cost, render_cost
from andon.cli.commands.share.leases import on_devices
from andon.cli.main import run
from andon.cli.show.facts import render_devices
from andon.cli.show.history import (
    BUCKETS,
    HistoryLine,
    history_to_rows,
    render_history,
    throttle_lines,
    top_of,
)
from andon.cli.show.render import Mask, render_status
from andon.cli.show.text import painted
from andon.errors import Gone
from andon.history.rules import seeding
from andon.history.rules.series import Bucket
from andon.host.machine_id import node_name
from andon.leases.rules.choice import obstacle
from andon.leases.rules.eligibility import ObstacleKind
from andon.leases.rules.verdict import need_of_any
from andon.model.alert import Notice
from andon.model.device import Device, Process
from andon.model.lease_list import LeaseList
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.settings.resolution import resolve
from andon.units import GIB
from tests.support import snapshots as golden
from tests.support.fake_node import FakeNode
from tests.support.sharing_parts import capacities_of, gpu
from tests.support.snapshots import COSTS

DEVICE = Device("GPU-1", 3, "nvidia", "NVIDIA H100")


def line(metric: str, values: Sequence[float], top: float | None = None) -> HistoryLine:
    buckets = [Bucket(float(n), n + 1.0, 1, v, v, v) for n, v in enumerate(values)]
    return HistoryLine(DEVICE, DEVICE.uuid, metric, buckets, top)


@pytest.mark.parametrize(
    ("metric", "top", "wanted"),
    [
        ("utilization_percent", None, 100.0),
        ("temperature_celsius", None, 100.0),
        ("memory_used_bytes", 24 * GIB, 24 * GIB),
        ("power_watts", 450.0, 450.0),
        ("sm_clock_mhz", None, None),
    ],
)
def test_a_chart_has_a_known_top(metric: str, top: float | None, wanted: float | None) -> None:
    assert top_of(line(metric, [1.0], top)) == wanted


def test_half_of_the_memory_is_half_of_a_block_and_warmth_is_no_storm() -> None:
    rows = [line("memory_used_bytes", [12 * GIB] * 20, 24 * GIB)]
    rows.append(line("temperature_celsius", [55.0, 64.0] * 10))
    text = painted(render_history(rows, 0.0, 7200.0, 120))
    drawn = [one for one in text.splitlines() if one.startswith("3 ")]
    assert "▅" * 20 in drawn[0] and "24.0 GiB" in drawn[0]  # noqa: PT018
    assert set(drawn[1]) & set("▁▂▃▄▅▆▇█") == {"▅", "▆"}


def test_throttling_is_reasons_with_shares() -> None:
    shares: Mapping[str, Sequence[float | None]] = {"hw_slowdown": [0.5, 1.0, None]}
    [found] = throttle_lines(DEVICE, DEVICE.uuid, ([10, 10, 0], shares), 0.0, 30.0, 3)
    assert found.metric == "throttle_hw_slowdown_percent"
    assert [bucket.mean for bucket in found.buckets] == [50.0, 100.0, None]
    text = painted(render_history([found], 0.0, 30.0, 120))
    assert "throttle: hw slowdown" in text
    assert " 75 " in text, "the mean of two equal spans"
    rows = list(csv.DictReader(io.StringIO(BUCKETS.text(history_to_rows([found])))))
    assert [(row["metric"], row["mean"]) for row in rows] == [
        ("throttle_hw_slowdown_percent", share) for share in ("50.0", "100.0")
    ]
    [none] = throttle_lines(DEVICE, DEVICE.uuid, ([10, 0], {}), 0.0, 30.0, 2)
    assert [bucket.mean for bucket in none.buckets] == [0.0, None]


def test_a_seeded_card_has_no_reading_that_its_model_lacks() -> None:
    [first] = seeding.specimens(1)
    [device] = seeding.tick([first], 1_790_000_000.0).readings
    assert "fan_percent" in first.model.lacks
    assert "fan_percent" not in device[1]


def test_what_takes_no_cpu_that_a_clock_sees_has_no_ratio() -> None:
    report = replace(COSTS, nvidia_smi=Cost("nvidia-smi", 0.0, 0.02, 1.0))
    assert "andon takes more CPU time and" in painted(render_cost(report, 80))


class Heard:
    """A notifier that keeps what it is sent."""

    name = "heard"

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def send(self, notices: Sequence[Notice], active: object) -> None:
        self.notices += notices

    def close(self) -> None: ...


def test_a_test_message_names_the_node_without_a_server() -> None:
    heard = Heard()
    assert alerts_trial.sent(heard)["ok"]
    assert [notice.node for notice in heard.notices] == [node_name()]


def test_a_setting_is_shown_as_it_is_written() -> None:
    text = painted(render_settings(resolve(None, {}, {}), 200))
    assert "False" not in text
    assert " false " in text


def test_an_amd_card_has_no_cuda_number_and_no_sm_clock() -> None:
    card = golden.h200(0)
    limits = replace(card.device.limits, sm_clock_mhz=2100)
    amd = replace(card.device, vendor="amd", name="AMD Instinct MI300X", limits=limits)
    node = replace(golden.farm(), devices=(replace(card, device=amd, cuda_index=1),))
    text = painted(render_devices(node, 120))
    assert "cuda" not in text
    assert "hip 1" in text
    assert "max core clock 2100 MHz" in text


def test_devices_names_the_masks_and_what_is_none() -> None:
    mask = Mask("CUDA_VISIBLE_DEVICES=1", container="NVIDIA_VISIBLE_DEVICES=0,1")
    text = painted(render_devices(golden.masked(), 120, mask=mask))
    assert "mask: CUDA_VISIBLE_DEVICES=1\n" in text
    assert "NVIDIA_VISIBLE_DEVICES=0,1 is for the container runtime" in text
    status = painted(render_status(golden.masked(), 120, golden.AT, verbose=True, mask=mask))
    assert "NVIDIA_VISIBLE_DEVICES=0,1 is for the container runtime" in status


def test_people_come_before_memory_that_no_process_explains() -> None:
    someone = Process(77, user="bob", name="python", memory_bytes=4 * GIB)
    busy = gpu(0, used_gib=20.0, processes=(someone,))
    [capacity] = capacities_of((busy,))
    found = obstacle(capacity, need_of_any([capacity]))
    assert found is not None
    assert (found.kind, found.by) == (ObstacleKind.UNLEASED_PROCESS, "bob")


def test_leases_are_listed_by_device() -> None:
    found = LeaseList(
        1.0, devices=(DeviceVerdict("GPU-aa", 0, "0", VerdictKind.FREE),), note="none"
    )
    assert on_devices(found, ["0"]).leases == ()
    with pytest.raises(Gone, match="there is no device '9'"):
        on_devices(found, ["9"])


def test_status_shows_the_named_devices(
    capsys: pytest.CaptureFixture[str], book_folder: Path
) -> None:
    node = FakeNode(golden.farm())
    for words in (["status", "0", "--csv"], ["-d", "0", "--csv"], ["0", "--csv"]):
        assert run(words, node) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2
    assert run(["status", "99"], node) == 5
