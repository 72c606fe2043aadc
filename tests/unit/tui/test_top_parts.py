"""The small parts of top: what is remembered, environments, users, commands that a server hid."""

import json
from pathlib import Path

from msgspec.structs import replace

from andon.cli.sources import node_of
from andon.cli.terminal import Choices
from andon.history.rules.series import tick_of
from andon.host.processes.environment import parse_environment, shown_environment
from andon.host.state.user_folder import HISTORY, node_path
from andon.model.device import Process, Snapshot
from andon.node.latest_snapshot import CommandLines
from andon.node.local.playing import PlayedSession
from andon.stores.sqlite import SqliteStore
from andon.tui.histories import METRICS
from andon.tui.remembered import (
    NAME,
    choices_of,
    remember,
    remembered,
    with_choices,
    without_options,
)
from andon.tui.sources.feed import Tick
from andon.tui.sources.past import HistoryOnDisk, PastPoints
from andon.tui.state import ProcessChoice, TopState
from andon.tui.users import user_lines
from andon.tui.views.processes import age
from tests.support.snapshots import office
from tests.support.top_scenes import leases_of, scene_of

CHOSEN = TopState(
    processes=ProcessChoice(sort="pid", reverse=True, tree=True, hidden=frozenset(("cpu",))),
    graphs=False,
    span_seconds=1800.0,
    interval_seconds=2.0,
)


def test_what_was_chosen_is_there_the_next_time(state_folder: Path) -> None:
    assert remembered(TopState()) == TopState(), "nothing yet"
    remember(CHOSEN)
    assert remembered(TopState()) == CHOSEN
    file = state_folder / "andon" / NAME
    assert file.stat().st_mode & 0o077 == 0
    assert [one.name for one in file.parent.iterdir()] == [NAME], "no draft is left"


def test_an_option_applies_once() -> None:
    begun = replace(CHOSEN, processes=replace(CHOSEN.processes, sort="user", reverse=False))
    begun = replace(begun, interval_seconds=0.5)
    assert without_options(begun, begun, CHOSEN) == CHOSEN
    resorted = replace(begun, graphs=True, processes=replace(begun.processes, sort="cpu"))
    found = without_options(resorted, begun, CHOSEN)
    assert (found.processes.sort, found.interval_seconds, found.graphs) == ("cpu", 2.0, True)


def test_a_file_of_another_version_or_none_at_all_changes_nothing(state_folder: Path) -> None:
    (state_folder / "andon").mkdir(mode=0o700, parents=True)
    wrong = []
    texts = ("", "[", "[]", "null", '{"schema": "andon.top/2", "sort": "pid"}', "9" * 10_000)
    for text in texts:
        (state_folder / "andon" / NAME).write_text(text)
        if remembered(TopState()) != TopState():
            wrong.append(text)
    assert not wrong
    odd = {**choices_of(CHOSEN), "sort": "size", "span_seconds": 7, "hidden": [["a"]], "tree": 1}
    found = with_choices(TopState(), odd)
    assert (found.processes.sort, found.span_seconds) == ("memory", 300.0)
    assert not found.processes.tree


def test_only_names_on_the_list_are_shown_with_values() -> None:
    variables = {
        "CUDA_VISIBLE_DEVICES": "0,1", "NCCL_DEBUG": "INFO", "SLURM_JOB_ID": "7",
        "AWS_SECRET_ACCESS_KEY": "x", "MY_NOTES": "y", "CUDA_API_TOKEN": "z",
        "NCCL_URL": "http://me:hush@host/", "TORCH_A": "a\x1b[31m",
    }  # fmt: skip
    shown, names = shown_environment(variables)
    values = dict(shown)
    assert values["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert set(names) == {"AWS_SECRET_ACCESS_KEY", "MY_NOTES", "CUDA_API_TOKEN"}
    assert "hush" not in values["NCCL_URL"]
    assert "\x1b" not in values["TORCH_A"]


def test_an_environment_is_parsed_as_the_kernel_writes_it() -> None:
    assert parse_environment(b"A=1\0B=x=y\0\0junk\0C=\xff\0") == {"A": "1", "B": "x=y", "C": "�"}


def test_users_are_listed_with_what_they_hold_but_do_not_use() -> None:
    snapshot = office()
    first = snapshot.devices[0]
    assert first.sample is not None
    idle = replace(first, sample=replace(first.sample, utilization_percent=0))
    snapshot = replace(snapshot, devices=(idle, *snapshot.devices[1:]))
    rows = {row.user: row for row in user_lines(scene_of(snapshot, leases=leases_of(snapshot)))}
    assert rows["alice"].held == rows["alice"].idle == "GPU 0"
    assert rows["bob"].idle == ""
    assert next(iter(rows)) == "bob", "the most memory first"


def test_memory_of_a_user_that_is_not_known_is_not_0() -> None:
    snapshot = office()
    first = snapshot.devices[0]
    hidden = tuple(replace(one, user="eve", memory_bytes=None) for one in first.processes)
    (eve,) = user_lines(scene_of(replace(snapshot, devices=(replace(first, processes=hidden),))))
    assert (eve.memory_bytes, eve.share) == (None, None)


class Table:
    """/proc as one user sees it."""

    def __init__(self, *processes: Process) -> None:
        self._known = {process.pid: process for process in processes}

    def attribute(self, asked: object) -> tuple[Process, ...]:
        return tuple(self._known.values())


def test_what_a_server_withholds_is_filled_in_for_the_same_process_only() -> None:
    hidden = Process(7, started=100.0, name="python", user="alice")
    status = replace(office().devices[0], processes=(hidden, replace(hidden, pid=8)))
    snapshot = Snapshot("n", 1.0, devices=(status,))
    table = Table(
        Process(7, started=100.5, command="python train.py"),
        Process(8, started=900.0, command="another that got the pid"),
    )
    found = CommandLines(Path("/"), table)(snapshot)  # type: ignore[arg-type]
    assert [p.command for p in found.devices[0].processes] == ["python train.py", None]


def test_an_age_is_short_and_changes_seldom() -> None:
    table = {None: "–", 3.0: "<10s", 45.0: "40s", 725.0: "12m", 11640.0: "3h14m", 187200.0: "2d04h"}
    assert {seconds: age(seconds) for seconds in table} == table


def test_a_recording_is_paused_and_stepped_both_ways(tmp_path: Path) -> None:
    from andon.app.settings import load_settings
    from andon.model import wire

    path = tmp_path / "r.jsonl"
    shots = [replace(office(), at=office().at + second) for second in range(4)]
    path.write_text("".join(wire.dumps(wire.snapshot_to_json(one)) + "\n" for one in shots))
    player = PlayedSession(load_settings({"replay": str(path)}).settings)
    first = player.get(0.0)
    assert first is not None
    assert first.at == shots[0].at
    assert "replay" in first.versions
    player.pause(True)
    player.step(1)
    second = player.get(0.0)
    assert second is not None
    assert second.at == shots[1].at
    player.step(1)
    player.step(1)
    assert (found := player.get(0.0)) is not None
    player.step(-1)
    before = player.get(0.0)
    assert before is not None
    assert before.at < found.at
    assert player.get(0.0) is None, "paused"
    assert "r.jsonl" in player.place()
    assert json.loads(path.read_text().splitlines()[0])["node"] == first.node
    player.close()


class OneTick:
    """A feed with one snapshot, of this node or of a server."""

    def __init__(self, snapshot: Snapshot, is_server: bool = False) -> None:
        self.snapshot, self.is_server = snapshot, is_server

    def first(self, seconds: float) -> Tick:
        return Tick(self.snapshot)


def test_the_first_picture_has_the_graphs_of_the_history_on_disk() -> None:
    now = office()
    uuids = [status.device.uuid for status in now.devices]

    def early(choices: Choices | None = None, is_server: bool = False) -> PastPoints:
        node, feed = node_of(choices or Choices()), OneTick(now, is_server)
        return HistoryOnDisk(node, "", feed, 300.0).points(60.0)  # type: ignore[arg-type]

    assert early() == {}, "nothing has been recorded"
    node_path().mkdir(parents=True, mode=0o700)
    store = SqliteStore(node_path() / HISTORY)
    ticks = [tick_of(replace(now, at=now.at - back)) for back in range(300, 0, -5)]
    store.write(ticks, (), [status.device for status in now.devices])
    store.close()
    found = early()
    assert set(found) == {(uuids[0], metric) for metric in METRICS} | {
        (uuid, METRICS[0]) for uuid in uuids
    }
    busy = [point for point in found[uuids[0], METRICS[0]] if point.value is not None]
    assert {point.value for point in busy} == {87.0}
    assert max(p.at for p in busy) - min(p.at for p in busy) > 280
    assert (early(Choices(simulate=2)), early(is_server=True)) == ({}, {})
