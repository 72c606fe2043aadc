"""Processes as the operating system knows them, from a made-up /proc."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.host.files import parse_uid
from andon.host.processes.facts import FOREIGN, HIDDEN, ProcessTable, sees_host_pids
from andon.host.processes.procfs import (
    ProcessCounters,
    ProcessParent,
    job_variables,
    parse_boot_time,
    parse_hidepid,
    parse_passwd,
    process_name,
    split_command,
    whole_arguments,
)
from andon.host.rules.attribution import Container, ProcessMembership, SlurmStep
from andon.host.rules.proc_stat import parse_stamp, parse_stat
from andon.model.device import Process, ProcessKind
from tests.support.counting import system_calls
from tests.support.rows import rows

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
BOOT = 1_700_000_000
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


DOCKER = "3f2a9c1b04de7c5a8f6e1d2b3c4a5968778695a4b3c2d1e0f9e8d7c6b5a49382"


def stat_line(pid: int, comm: str = "python", ticks: int = 500, parent: int = 1) -> str:
    middle = f"{parent} 1 1 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 1 0"
    return f"{pid} ({comm}) S {middle} {ticks} 1000000 25 18446744073709551615 0 0\n"


class Tree:
    """A root folder with a /proc and users of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc").mkdir()
        (root / "etc").mkdir()
        (root / "proc" / "stat").write_text(f"cpu 1 2 3\nbtime {BOOT}\nprocesses 9\n")
        (root / "etc" / "passwd").write_text(
            "root:x:0:0::/root:/bin/sh\nana:x:1000:1000::/:/bin/sh\n"
        )
        self.write("2/comm", "kthreadd\n")  # these are the host's own pids

    def add(
        self,
        pid: int,
        *arguments: str,
        comm: str = "python",
        ticks: int = 500,
        uid: int = 1000,
        parent: int = 1,
    ) -> None:
        folder = self.root / "proc" / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(stat_line(pid, comm, ticks, parent))
        (folder / "status").write_text(f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (folder / "cmdline").write_bytes(b"".join(os.fsencode(a) + b"\0" for a in arguments))

    def write(self, name: str, text: str) -> None:
        path = self.root / "proc" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def become_a_container(self) -> None:
        self.write("2/comm", "bash\n")

    def open_file(self, pid: int, target: str) -> None:
        (self.root / "proc" / str(pid) / "fd").mkdir(exist_ok=True)
        (self.root / "proc" / str(pid) / "fd" / "5").symlink_to(target)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def attribute(tree: Tree, *asked: Process) -> tuple[Process, ...]:
    return ProcessTable(tree.root).attribute(asked)


@linux
def test_a_process_gets_its_start_name_user_and_redacted_command(tree: Tree) -> None:
    tree.add(7, "/opt/venv/bin/python3", "train.py", "--token", "abc")
    (found,) = attribute(
        tree, Process(7, ProcessKind.GRAPHICS, memory_bytes=5, utilization_percent=9)
    )
    assert found == Process(
        7, ProcessKind.GRAPHICS, BOOT + 500 / TICKS, "python3", "ana",
        "/opt/venv/bin/python3 train.py --token ***", 5, 9,
    )  # fmt: skip


@linux
def test_what_is_already_filled_in_stays(tree: Tree) -> None:
    tree.add(7, "python")
    full = Process(7, started=1.0, name="sim", user="sim", command="sim")
    partly = Process(7, name="given")
    assert attribute(tree, full)[0] is full
    assert attribute(tree, partly)[0].name == "given"
    assert attribute(tree, partly)[0].user == "ana"


@linux
def test_a_start_that_does_not_match_is_another_process_and_gets_nothing(tree: Tree) -> None:
    tree.add(7, "python")
    stranger = Process(7, started=12.0)
    assert attribute(tree, stranger) == (stranger,)


@linux
def test_a_process_that_is_not_there_keeps_its_none(tree: Tree) -> None:
    asked = (Process(8), Process(-1), Process(0), Process(10**20))
    assert attribute(tree, *asked) == asked


@linux
def test_the_order_is_kept_and_one_process_may_use_several_devices(tree: Tree) -> None:
    tree.add(7, "a")
    tree.add(9, "b")
    found = attribute(tree, Process(9), Process(7), Process(9))
    assert [process.name for process in found] == ["b", "a", "b"]


@linux
def test_a_reused_pid_gets_new_facts(tree: Tree) -> None:
    table = ProcessTable(tree.root)
    tree.add(7, "old", ticks=500)
    first = table.attribute([Process(7)])[0]
    tree.add(7, "new", ticks=900, uid=0)
    second = table.attribute([Process(7)])[0]
    assert (first.name, first.user) == ("old", "ana")
    assert (second.name, second.user) == ("new", "root")
    assert second.started == BOOT + 900 / TICKS


@linux
def test_a_process_that_became_another_program_gets_new_facts(tree: Tree) -> None:
    table = ProcessTable(tree.root)
    tree.add(7, "sh", "-c", "x", comm="sh")
    assert table.attribute([Process(7)])[0].name == "sh"
    tree.add(7, "python", "x.py", comm="python")
    assert table.attribute([Process(7)])[0].command == "python x.py"


@linux
def test_a_known_process_costs_one_read_and_opens_nothing(tree: Tree) -> None:
    tree.add(7, "python")
    table = ProcessTable(tree.root)
    table.attribute([Process(7)])
    calls = system_calls(lambda: table.attribute([Process(7), Process(7)]))
    assert (calls["open"], calls["pread"]) == (0, 1)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@linux
def test_files_are_kept_open_only_for_what_is_asked_for_and_not_for_too_many(tree: Tree) -> None:
    before = open_files()
    for pid in range(100, 300):
        tree.add(pid, "python")
    table = ProcessTable(tree.root)
    everyone = [Process(pid) for pid in range(100, 300)]
    named = table.attribute(everyone)
    assert {process.name for process in named} == {"python"}
    assert table.attribute(everyone) == named
    assert open_files() - before <= 64
    table.attribute([Process(100)])
    assert open_files() - before == 1
    del table
    assert open_files() == before


@linux
def test_a_process_that_was_not_asked_for_is_forgotten(tree: Tree) -> None:
    table = ProcessTable(tree.root)
    tree.add(7, "first")
    table.attribute([Process(7)])
    table.attribute([])
    tree.add(7, "second")  # the same start: only a cache could still say "first"
    assert table.attribute([Process(7)])[0].name == "second"


@linux
def test_the_clock_being_set_does_not_move_a_start(tree: Tree) -> None:
    table = ProcessTable(tree.root)
    tree.add(7, "a")
    started = table.attribute([Process(7)])[0].started
    (tree.root / "proc" / "stat").write_text(f"btime {BOOT + 3600}\n")
    tree.add(8, "b")
    assert table.attribute([Process(7), Process(8)])[1].started == started


@linux
def test_a_process_without_arguments_is_shown_in_brackets(tree: Tree) -> None:
    tree.add(7, comm="kworker/0:1")
    (found,) = attribute(tree, Process(7))
    assert (found.name, found.command) == ("kworker/0:1", "[kworker/0:1]")


@linux
def test_a_process_caught_on_its_way_into_its_program_is_looked_at_again(tree: Tree) -> None:
    table = ProcessTable(tree.root)
    tree.add(7)
    assert table.attribute([Process(7)])[0].command == "[python]"
    tree.add(7, "python", "train.py")
    assert table.attribute([Process(7)])[0].command == "python train.py"


@linux
def test_an_unknown_user_is_shown_by_number(tree: Tree) -> None:
    tree.add(7, "a", uid=4242)
    assert attribute(tree, Process(7))[0].user == "4242"


@linux
def test_a_command_line_that_may_not_be_read_stays_none(tree: Tree) -> None:
    tree.add(7, "secret")
    (tree.root / "proc" / "7" / "cmdline").unlink()
    (tree.root / "proc" / "7" / "status").unlink()
    (found,) = attribute(tree, Process(7))
    assert (found.name, found.user, found.command) == ("python", None, None)


@linux
def test_a_very_long_command_line_is_bounded(tree: Tree) -> None:
    tree.add(7, *["x" * 50] * 2000)
    assert len(attribute(tree, Process(7))[0].command or "") == 4096


@pytest.mark.slow
@linux
def test_a_secret_at_the_end_of_what_is_read_is_not_shown_in_part(tree: Tree) -> None:
    """Much of a line is hidden, so that its end would still be shown."""
    for more in range(40):
        tree.add(7, "x", "--token", "€" * 5440 + "s" * more, "postgres://u:hunter2hunter2@h/db")
        command = attribute(tree, Process(7))[0].command or ""
        assert "hunter" not in command


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b"python\0train", b"python\0train"),
        (b"python\0train.py", "python\0…".encode()),
        (b"sh\0-c\0a b://u:secr", "sh\0-c\0a\0…".encode()),
        (b"x" * 20, "\0…".encode()),
    ],
)
def test_the_word_that_a_limit_cuts_through_is_left_out(content: bytes, kept: bytes) -> None:
    assert whole_arguments(content, 14) == kept


@linux
def test_a_damaged_stat_is_a_process_that_cannot_be_read(tree: Tree) -> None:
    for damage in ("", "7 (a", "7 (a) S 1 2", "7 (a) S " + "x " * 30):
        tree.add(7, "a")
        (tree.root / "proc" / "7" / "stat").write_text(damage)
        assert attribute(tree, Process(7)) == (Process(7),)


@linux
def test_usage_is_cumulative_cpu_time_and_resident_bytes(tree: Tree) -> None:
    tree.add(7, "a")
    assert ProcessTable(tree.root).usage([7, 8]) == {7: ProcessCounters(200 / TICKS, 25 * PAGE)}


@rows("comm", ["python", "a b", "a) S 1 (b", "((", "))", ") ", "", "ü"])
def test_a_short_name_may_hold_spaces_and_parentheses(comm: str) -> None:
    content = stat_line(7, comm).encode()
    stat = parse_stat(content)
    assert stat is not None
    assert (stat.comm, stat.state, stat.parent) == (comm.encode(), b"S", 1)
    assert (stat.user_ticks, stat.system_ticks) == (150, 50)
    assert (stat.start_ticks, stat.resident_pages) == (500, 25)
    assert parse_stamp(content, 3) == (500, comm.encode(), 3)


@given(st.binary())
def test_parsing_never_raises(content: bytes) -> None:
    parse_stat(content)
    parse_stamp(content)
    parse_passwd(content)
    parse_hidepid(content, "/proc")
    job_variables(content)
    process_name(os.fsdecode(content), split_command(content), None)


def test_the_boot_time_and_the_user_are_found_in_their_files() -> None:
    assert parse_boot_time(b"cpu 1\nbtime 1700\n") == 1700
    assert parse_boot_time(b"cpu 1\n") == 0
    assert parse_uid(b"Name:\tx\nUid:\t1000\t0\t0\t0\n") == 1000
    assert parse_uid(b"Name:\tx\n") is None


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (b"", ()),
        (b"\0\0", ()),
        (b"a\0b c\0", ("a", "b c")),
        (b"a\0\0b\0", ("a", "", "b")),
        (b"nginx: worker\0\0\0\0", ("nginx: worker",)),
        (b"a\0\xff", ("a", "\udcff")),
    ],
)
def test_a_command_line_is_split_at_its_nulls(content: bytes, arguments: tuple[str, ...]) -> None:
    assert split_command(content) == arguments


@rows(
    ("comm", "first", "exe", "name"),
    [
        ("pt_main_thread", "python", "python3.11", "python"),
        ("a-very-long-pro", "/opt/a-very-long-program", None, "a-very-long-program"),
        ("bash", "-bash", "bash", "bash"),
        ("nginx", "nginx: worker process", "nginx", "nginx"),
        ("postgres", "postgres: ana db 127.0.0.1(5) idle", None, "postgres"),
        ("VLLM::EngineCor", "VLLM::EngineCore", "python3.12", "VLLM::EngineCore"),
        ("sshd", "x y", "sshd", "sshd"),
        ("train", "", None, "train"),
        ("\x1b[2J", "", None, r"\x1b[2J"),
        ("x", "/usr/bin/", "real", "real"),
    ],
)
def test_the_name_is_the_programs_own(comm: str, first: str, exe: str | None, name: str) -> None:
    assert process_name(comm, (first,) if first else (), exe) == name


def test_the_hosts_own_pids_are_known_by_the_kernels_second_process(tree: Tree) -> None:
    assert sees_host_pids(tree.root)
    tree.become_a_container()
    assert not sees_host_pids(tree.root)


@linux
def test_a_container_that_cannot_see_the_hosts_processes_says_so(tree: Tree) -> None:
    tree.become_a_container()
    table = ProcessTable(tree.root)
    assert table.attribute([Process(4242)]) == (Process(4242),)
    assert table.note == FOREIGN
    assert table.attribute([]) == ()
    assert table.note is None


@linux
def test_in_a_container_a_process_with_the_hosts_number_is_not_mistaken_for_it(tree: Tree) -> None:
    tree.become_a_container()
    tree.add(7, "nginx")
    table = ProcessTable(tree.root)
    assert table.attribute([Process(7)]) == (Process(7),)
    assert table.note == FOREIGN


@linux
@pytest.mark.parametrize("device", ["/dev/nvidia0", "/dev/nvidiactl", "/dev/dri/renderD128"])
def test_in_a_container_its_own_process_is_known_by_the_device_it_holds(
    tree: Tree, device: str
) -> None:
    tree.become_a_container()
    tree.add(7, "python")
    tree.open_file(7, device)
    table = ProcessTable(tree.root)
    assert table.attribute([Process(7)])[0].name == "python"
    assert table.note is None


@linux
def test_a_proc_that_hides_processes_is_told(tree: Tree) -> None:
    table = ProcessTable(tree.root)
    proc = f"{tree.root}/proc"
    tree.write("mounts", f"proc {proc} proc rw,nosuid,hidepid=invisible,gid=27 0 0\n")
    table.attribute([Process(9)])
    assert table.note == HIDDEN


@linux
def test_a_process_that_ended_needs_no_explanation(tree: Tree) -> None:
    table = ProcessTable(tree.root)
    table.attribute([Process(9)])
    assert table.note is None


@rows(
    ("mounts", "hides"),
    [
        ("proc /proc proc rw,hidepid=2 0 0\n", True),
        ("proc /proc proc rw,hidepid=noaccess 0 0\n", True),
        ("proc /proc proc rw,hidepid=off 0 0\n", False),
        ("proc /proc proc rw,hidepid=0 0 0\n", False),
        ("proc /proc proc rw,relatime 0 0\n", False),
        ("proc /other proc rw,hidepid=2 0 0\n", False),
        ("proc /proc proc rw,hidepid=2 0 0\nproc /proc proc rw 0 0\n", False),
        ("nonsense\n\n", False),
    ],
)
def test_hidepid_is_found_among_the_mounts(mounts: str, hides: bool) -> None:
    assert parse_hidepid(mounts.encode(), "/proc") is hides


@linux
def test_a_process_gets_its_container_and_its_job(tree: Tree) -> None:
    tree.add(7, "python")
    tree.write("7/cgroup", f"6:freezer:/slurm/uid_0/job_4/step_1\n0::/docker/{DOCKER}\n")
    (found,) = attribute(tree, Process(7))
    assert (found.container, found.job) == ("docker:3f2a9c1b04de", "slurm:4.1")
    (kept,) = attribute(tree, Process(7, container="given", job="given"))
    assert (kept.container, kept.job) == ("given", "given")


@linux
def test_the_cgroups_are_read_once_and_anew_for_another_process(tree: Tree) -> None:
    table = ProcessTable(tree.root)
    tree.add(7, "python")
    tree.write("7/cgroup", "0::/system.slice/jupyter.service\n")
    assert table.attribute([Process(7)])[0].job == "unit:jupyter.service"
    tree.write("7/cgroup", "0::/system.slice/other.service\n")
    assert table.attribute([Process(7)])[0].job == "unit:jupyter.service"
    tree.add(7, "python", ticks=900)
    assert table.attribute([Process(7)])[0].job == "unit:other.service"


@linux
def test_slurm_without_cgroups_is_known_by_what_it_told_the_process(tree: Tree) -> None:
    tree.add(7, "python")
    tree.write("7/cgroup", f"0::/docker/{DOCKER}\n")
    tree.write("7/environ", "A=1\0SLURM_JOB_ID=8\0SLURM_STEP_ID=0\0SLURMD_NODENAME=n\0")
    (found,) = attribute(tree, Process(7))
    assert (found.container, found.job) == ("docker:3f2a9c1b04de", "slurm:8.0")
    whole = ProcessMembership(Container("docker", DOCKER), None, SlurmStep("8", "0"))
    assert ProcessTable(tree.root).belongings([7]) == {7: whole}


def test_nothing_of_an_environment_is_kept_but_the_job() -> None:
    content = b"TOKEN=secret\0SLURM_JOB_ID=8\0XSLURM_JOB_ID=9\0SLURM_JOB_IDS=7\0\0=\0\xff"
    assert job_variables(content) == {"SLURM_JOB_ID": "8"}


@linux
def test_a_worker_of_ray_is_known_by_its_title_and_the_command_of_a_job_by_its_id(
    tree: Tree,
) -> None:
    tree.add(7, "ray::Model.predict", comm="ray::Model.pred")
    tree.write("7/environ", "RAY_JOB_ID=02000000\0")
    tree.add(8, "python train.py")
    told = '{"metadata": {"job_submission_id": "andon-k3fh2m"}}'
    tree.write("8/environ", f"RAY_JOB_CONFIG_JSON_ENV_VAR={told}\0RAY_JOB_ID=03000000\0")
    found = [one.job for one in attribute(tree, Process(7), Process(8))]
    assert found == ["ray:02000000.Model.predict", "ray:andon-k3fh2m"]


@linux
def test_the_ancestors_of_a_process_are_found(tree: Tree) -> None:
    tree.add(1, "init", comm="systemd", parent=0)
    tree.add(20, "torchrun", comm="torchrun", parent=1)
    tree.add(21, "python", parent=20)
    tree.add(22, "python", parent=20)
    tree.add(30, "python", parent=29)  # its parent cannot be read
    found = ProcessTable(tree.root).lineage([21, 22, 30, 99])
    assert found == {
        21: ProcessParent(21, 20, "python"),
        20: ProcessParent(20, 1, "torchrun"),
        1: ProcessParent(1, 0, "systemd"),
        22: ProcessParent(22, 20, "python"),
        30: ProcessParent(30, 29, "python"),
    }


@linux
def test_ancestors_that_go_round_in_a_circle_end(tree: Tree) -> None:
    tree.add(20, "a", parent=21)
    tree.add(21, "b", parent=20)
    assert set(ProcessTable(tree.root).lineage([20])) == {20, 21}
