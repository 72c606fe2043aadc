"""`andon ps` and `andon devices`: who uses what, and what it is."""

import csv
import io
import json
import os
import subprocess
import sys

import pytest
from msgspec import Struct
from msgspec.structs import replace

from andon.cli.main import run
from andon.cli.show.process_rows import (
    PROCESSES,
    HostUsage,
    ProcessFilter,
    ProcessRow,
    between,
    is_job,
    uses,
)
from andon.cli.show.process_table import (
    Branch,
    elapsed,
    forest,
    render_by_device,
    render_tree,
    render_uses,
)
from andon.cli.show.text import display_width, painted
from andon.host.processes.procfs import ProcessParent
from andon.model.device import COMMANDS_MISSING, NAMES_MISSING, Process, State
from andon.units import GIB
from tests.support import snapshots as golden
from tests.support.fake_node import FakeNode
from tests.support.rows import rows
from tests.support.snapshots import ANCESTORS, FAMILY, HOSTS, launched, office


class Counted(Struct, frozen=True):
    cpu_seconds: float
    memory_bytes: int | None


def test_simulated_processes_say_so() -> None:
    snapshot = replace(
        golden.simulated(),
        devices=(replace(golden.simulated().devices[0], processes=(golden.work(7, "a", "b", 1),)),),
    )
    found = uses(snapshot, {})
    title = painted(render_uses(found, 80, mark="SIMULATED")).splitlines()[0]
    assert title.startswith("GPU ")  # the mark has no line of its own
    assert title.endswith("  SIMULATED")
    assert (
        next(csv.DictReader(io.StringIO(PROCESSES.text((snapshot, one) for one in found))))[
            "vendor"
        ]
        == "sim"
    )


def test_no_row_of_processes_wraps() -> None:
    for width in range(40, 200, 7):
        text = painted(render_uses(uses(office(), HOSTS), width))
        assert all(display_width(line) <= width for line in text.splitlines())


@pytest.mark.parametrize(
    ("sort", "first"), [("memory", 5012), ("gpu", 4101), ("cpu", 4101), ("pid", 901)]
)
def test_the_largest_comes_first(sort: str, first: int) -> None:
    process = uses(office(), HOSTS, sort=sort)[0].process
    assert process is not None
    assert process.pid == first


def test_one_users_processes_leave_out_what_belongs_to_nobody() -> None:
    found = uses(office(), HOSTS, ProcessFilter(user="bob"))
    assert [use.process and use.process.user for use in found] == ["bob", "bob"]


def test_a_device_that_does_not_answer_has_no_processes() -> None:
    lost = golden.silent(0, State.LOST, "gone", None, 5)
    lost = replace(lost, processes=(golden.work(1, "a", "b", 1.0),))
    assert uses(replace(golden.farm(), devices=(lost,)), {}) == []


def test_host_cpu_is_the_difference_of_two_looks() -> None:
    first = {1: Counted(10.0, 5), 2: Counted(3.0, 5)}
    second = {1: Counted(10.5, 6), 3: Counted(9.0, None), 2: Counted(2.0, 7)}
    assert between(first, second, 0.25) == {
        1: HostUsage(200.0, 6),
        3: HostUsage(None, None),  # not there at the first look
        2: HostUsage(None, 7),  # the pid belongs to another process now
    }


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (5.0, "0:00:05"), (12005.0, "3:20:05"), (2 * 86400 + 4 * 3600, "2d04h")],
)
def test_elapsed_time_reads_like_ps(seconds: float | None, words: str) -> None:
    assert elapsed(seconds).plain == words


def in_the_office() -> FakeNode:
    """A node elsewhere: its processes are not looked for here."""
    return FakeNode(office(), url="http://node17:26366")


def test_ps_filters_by_device_and_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ps", "--json", "-d", "0", "--user", "alice"], in_the_office()) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["schema"] == "andon.processes/1"
    assert [process["user"] for process in value["processes"]] == ["alice"]


def test_ps_without_a_gpu_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode(golden.no_gpu())
    assert run(["ps"], node) == 3
    assert "libnvidia-ml.so.1 is not installed" in " ".join(capsys.readouterr().out.split())


def test_processes_that_cannot_be_listed_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    odd = replace(golden.h200(0, 9.0), missing={"processes": "no permission"})
    snapshot = replace(golden.farm(), devices=(odd,))
    node = FakeNode(snapshot)
    assert run(["ps"], node) == 0
    assert capsys.readouterr().out == "no process is using a GPU\n– processes: no permission\n"


def test_devices_exits_with_3_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode(golden.no_gpu())
    assert run(["devices", "--json"], node) == 3
    assert json.loads(capsys.readouterr().out)["faults"][0]["source"] == "nvidia"


def test_on_a_terminal_processes_are_grouped_by_gpu_with_a_sum() -> None:
    lines = painted(render_by_device(uses(office(), HOSTS), 120)).splitlines()
    labels = [line[:4].strip() for line in lines[1:]]
    assert [label for label in labels if label] == ["0", "2", "6:0", "7"], "each once, in order"
    sums = [line for line in lines if "sum:" in line]
    assert "121 GiB" in sums[0] and "sum: 2 processes of 2 users" in sums[0]  # noqa: PT018
    assert len(sums) == 3, "one process needs no sum"
    assert "TYPE" in lines[0]


def test_a_sum_that_misses_a_part_is_unknown() -> None:
    found = uses(office(), HOSTS)
    found[0] = replace(found[0], memory_bytes=None)
    text = painted(render_by_device([found[0], replace(found[0], memory_bytes=5)], 100))
    assert next(line for line in text.splitlines() if "sum:" in line).split()[0] == "–"


def test_no_row_of_the_groups_wraps() -> None:
    for width in range(40, 200, 7):
        text = painted(render_by_device(uses(office(), HOSTS), width))
        assert all(display_width(line) <= width for line in text.splitlines())


def test_an_empty_filter_says_that_others_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ps", "--user", "zed"], in_the_office()) == 0
    said = capsys.readouterr().out
    assert said.startswith("no process of zed is using a GPU; 6 others use one\n")


def test_devices_that_do_not_respond_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    silent = (
        golden.silent(3, State.LOST, "gone", None, 5),
        replace(golden.silent(5, State.STALE, "stuck", None, 5), last_users=("alice", "bob")),
    )
    snapshot = replace(golden.farm(), devices=(golden.h200(0, 9.0), *silent))
    node = FakeNode(snapshot)
    assert run(["ps"], node) == 0
    said = capsys.readouterr().out
    assert said.endswith(
        "GPU 3, 5 do not respond: their processes are not listed\n"
        "GPU 5: last used by alice and bob\n"
    )


def test_command_lines_that_a_server_hides_are_said_to_be_hidden(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Signed out, every row says python3."""
    hidden = replace(golden.work(7, "alice", "python3", 9.0), command=None)
    odd = golden.busy(0, 9, 9.0, hidden)
    odd = replace(odd, missing={COMMANDS_MISSING: "shown to callers with the token"})
    snapshot = replace(golden.farm(), devices=(odd,))
    node = FakeNode(snapshot, url="http://127.0.0.1:9")
    assert run(["ps", "--url", "http://127.0.0.1:9"], node) == 0
    out = capsys.readouterr().out
    assert "python3" in out
    assert out.endswith("– command lines: shown to callers with the token\n")


def pids(found: list[ProcessRow]) -> list[int]:
    return [use.process.pid for use in found if use.process]


@pytest.mark.parametrize(
    ("words", "found"),
    [("jupyter", [4207]), ("DOCKER:", [4207]), ("3f2a", [4207]), ("bob", [4207]), ("9999", [])],
)
def test_a_container_is_meant_by_a_part_of_its_name_or_the_beginning_of_its_id(
    words: str, found: list[int]
) -> None:
    wanted = ProcessFilter(container=words, container_ids={4207: "3f2a9c1b04de", 4101: "3f2a"})
    assert pids(uses(office(), HOSTS, wanted)) == found


@rows(
    ("job", "words", "means"),
    [
        ("slurm:42.0", "42", True),
        ("slurm:42.batch", "slurm:42", True),
        ("slurm:42.0", "42.0", True),
        ("slurm:421.0", "42", False),
        ("slurm:142.0", "42.0", False),
        ("slurm:42.0", "slurm", True),
        ("unit:jupyter.service", "jupyter", True),
        ("unit:vllm@llama-70b.service", "70b", True),
        ("session:3", "session:3", True),
        ("session:33", "session:3", False),
        (None, "3", False),
    ],
)
def test_a_number_means_the_whole_job_and_a_word_a_part_of_its_name(
    job: str | None, words: str, means: bool
) -> None:
    assert is_job(job, words) is means


def test_filters_are_met_together_and_leave_out_what_belongs_to_nobody() -> None:
    found = uses(office(), HOSTS, ProcessFilter(user="alice", job="4711"))
    assert pids(found) == [4101]
    assert len(found) == 1
    assert uses(office(), HOSTS, ProcessFilter(user="bob", job="4711")) == []


def test_a_session_alone_makes_no_column() -> None:
    plain = golden.farm()
    alice = replace(plain.devices[0].processes[0], job="session:3")
    snapshot = replace(plain, devices=(replace(plain.devices[0], processes=(alice,)),))
    assert "CONTAINER/JOB" not in painted(render_uses(uses(snapshot, {}), 200))
    assert "session:3" in PROCESSES.text((snapshot, one) for one in uses(snapshot, {}))


def test_ranks_stand_under_their_launcher_and_logins_are_left_out() -> None:
    links = {
        link.pid: link
        for link in (
            ProcessParent(1, 0, "systemd"), ProcessParent(2, 1, "sshd"),
            ProcessParent(3, 2, "bash"), ProcessParent(4, 3, "torchrun"),
            ProcessParent(5, 4, "python"), ProcessParent(6, 4, "python"),
        )
    }  # fmt: skip
    assert forest(links, [6, 5]) == [Branch(4, 0), Branch(6, 1), Branch(5, 1)]


def test_a_shell_in_the_middle_stays_and_so_does_one_that_holds_a_device() -> None:
    links = {
        1: ProcessParent(1, 0, "init"),
        2: ProcessParent(2, 1, "cron"),
        3: ProcessParent(3, 2, "sh"),
        4: ProcessParent(4, 3, "x"),
    }
    assert [branch.pid for branch in forest(links, [4])] == [2, 3, 4]
    shell = {3: ProcessParent(3, 1, "bash"), 4: ProcessParent(4, 3, "x")}
    assert forest(shell, [4, 3]) == [Branch(3, 0), Branch(4, 1)]


def test_a_process_whose_ancestors_cannot_be_seen_stands_by_itself() -> None:
    assert forest({}, [9, 8, 9]) == [Branch(9, 0), Branch(8, 0)]
    circle = {8: ProcessParent(8, 9, "a"), 9: ProcessParent(9, 8, "b")}
    assert [branch.pid for branch in forest(circle, [8])] == [9, 8]


def test_an_ancestor_has_nothing_in_the_columns_of_a_device() -> None:
    found = uses(launched(), {})
    text = painted(render_tree(found, forest(FAMILY, pids(found)), ANCESTORS, 200))
    (line,) = [line for line in text.splitlines() if "torchrun" in line]
    assert line.split()[:3] == ["alice", "650", "docker:trainer"]
    assert "GiB" not in line


def test_no_row_of_the_tree_wraps() -> None:
    found = uses(launched(), {})
    for width in range(40, 200, 7):
        text = painted(render_tree(found, forest(FAMILY, pids(found)), ANCESTORS, width))
        assert all(display_width(line) <= width for line in text.splitlines())


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ps_draws_the_tree_of_real_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        used = golden.busy(0, 50, 9.0, golden.work(child.pid, "ana", "cat", 9.0))
        snapshot = replace(golden.farm(), devices=(used,))
        node = FakeNode(snapshot)
        monkeypatch.setenv("COLUMNS", "200")
        assert run(["ps", "--tree"], node) == 0
    lines = capsys.readouterr().out.splitlines()
    (held,) = [line for line in lines if f" {child.pid} " in line]
    (mine,) = [line for line in lines if f" {os.getpid()} " in line]
    assert lines.index(mine) < lines.index(held)
    assert "└ cat" in held


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ps_knows_no_ancestors_of_simulated_or_unnamed_processes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine = golden.work(os.getpid(), "ana", "cat", 1.0)
    invented = replace(golden.simulated().devices[0], processes=(mine,))
    foreign = golden.busy(1, 50, 9.0, replace(mine, name=None, command="-", user=None))
    snapshot = replace(golden.farm(), devices=(invented, foreign))
    node = FakeNode(snapshot)
    assert run(["ps", "--tree"], node) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "–" in line or "└" in line]
    assert not any("└" in line for line in lines)


def test_ps_filters_by_container_and_job(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, pid in ((["-j", "4711"], 4101), (["--container", "jupyter"], 4207)):
        assert run(["ps", "--json", *arguments], in_the_office()) == 0
        value = json.loads(capsys.readouterr().out)
        assert [process["pid"] for process in value["processes"]] == [pid]
        assert value["unattributed"] == []


def test_a_tree_is_for_people() -> None:
    assert run(["ps", "--tree", "--json"]) == 2


def test_processes_without_a_name_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    odd = golden.busy(0, 9, 9.0, Process(4242, memory_bytes=9 * GIB))
    odd = replace(odd, missing={NAMES_MISSING: "the host's pids"})
    node = FakeNode(replace(golden.farm(), devices=(odd,)))
    assert run(["ps"], node) == 0
    out = capsys.readouterr().out
    assert "4242" in out
    assert out.endswith("– processes: the host's pids\n")


def test_a_command_in_csv_is_not_turned_into_one_for_a_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    snapshot, typed = office(), "sleep 9; andon status"
    first = snapshot.devices[0]
    odd = replace(first, processes=(replace(first.processes[0], command=typed),))
    node = FakeNode(replace(snapshot, devices=(odd,)), url="http://node17:26366")
    assert run(["ps", "--csv", "--url", "http://node17:26366"], node) == 0
    assert f",{typed}," in capsys.readouterr().out
