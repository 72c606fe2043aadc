"""Who uses a card: found by links, counted once, told between two looks, and honest about gaps."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.drivers.shared import drm
from andon.drivers.shared.drm import CardClients, CardUse, Descriptors, DrmSearch, is_kernel_thread
from andon.drivers.shared.sysfs import Tree
from andon.model.device import ProcessKind
from tests.constructed import Machine, host, stat
from tests.constructed.amd import fdinfo
from tests.constructed.opened import DENIED, Openings

CARD = "0000:03:00.0"
OTHER = "0000:04:00.0"
NODES = ["card0", "renderD128"]


@dataclass
class Scene:
    """A machine that changes between looks."""

    root: Path
    openings: Openings
    most_descriptors: int = drm.MOST_DESCRIPTORS
    most_clients: int = drm.MOST_CLIENTS

    def __post_init__(self) -> None:
        self.tree = Tree(self.root, self.openings, self.openings.listing)
        self.descriptors = Descriptors(self.tree, self.most_descriptors)
        self.usage = CardClients(
            self.tree,
            CARD,
            self.descriptors,
            lambda region: region == "vram",
            self.most_clients,
        )

    def says(self, pid: int, number: int, text: str) -> None:
        (self.root / f"proc/{pid}/fdinfo/{number}").write_text(text)

    def look(self, now: float) -> CardUse:
        return self.usage.read(NODES, now)


def scene(root: Path, machine: Machine, **refusals: int) -> Scene:
    return Scene(
        machine.build(root), Openings({k.replace("_", "/"): v for k, v in refusals.items()})
    )


def with_clients(*descriptors: tuple[int, int, str, str]) -> Machine:
    """A machine whose processes (pid, number, node, fdinfo) have devices open."""
    machine = host()
    by_pid: dict[int, dict[int, tuple[str, str]]] = {}
    for pid, number, node, text in descriptors:
        by_pid.setdefault(pid, {})[number] = (node, text)
    for pid, files in by_pid.items():
        machine.process(pid, "app", files)
    return machine


def test_a_client_on_several_descriptors_counts_once(tmp_path: Path) -> None:
    text = fdinfo(CARD, 1, 1024, 0, gfx=10)
    use = scene(
        tmp_path,
        with_clients(
            (50, 3, "/dev/dri/renderD128", text),
            (50, 4, "/dev/dri/renderD128", text),
            (50, 5, "/dev/dri/card0", fdinfo(CARD, 2, 1024, 0)),
        ),
    ).look(0.0)
    assert [(user.pid, user.memory_bytes) for user in use.users] == [(50, 2 * 1024**2)]


def test_a_client_that_two_processes_share_counts_for_the_older_one(tmp_path: Path) -> None:
    text = fdinfo(CARD, 1, 1024, 0)
    machine = with_clients((70, 3, "/dev/dri/renderD128", text), (60, 9, "/dev/dri/card0", text))
    use = scene(tmp_path, machine).look(0.0)
    assert [user.pid for user in use.users] == [60]


def test_another_card_s_clients_are_not_read_at_all(tmp_path: Path) -> None:
    machine = with_clients(
        (50, 3, "/dev/dri/renderD128", fdinfo(CARD, 1, 1024, 0)),
        (51, 3, "/dev/dri/renderD129", fdinfo(OTHER, 1, 4096, 0)),
        (52, 3, "/dev/null", ""),
    )
    there = scene(tmp_path, machine)
    assert [user.pid for user in there.look(0.0).users] == [50]
    read = [path for path in there.openings.paths if "/fdinfo/" in path]
    assert read == [str(tmp_path / "proc/50/fdinfo/3")]


def test_a_node_that_now_belongs_to_another_device_is_not_ours(tmp_path: Path) -> None:
    machine = with_clients((50, 3, "/dev/dri/renderD128", fdinfo(OTHER, 1, 1024, 0)))
    assert scene(tmp_path, machine).look(0.0).users == ()


def test_the_first_look_knows_no_shares_and_the_second_does(tmp_path: Path) -> None:
    there = scene(
        tmp_path,
        with_clients(
            (50, 3, "/dev/dri/renderD128", fdinfo(CARD, 1, 0, 0, gfx=0, dec=0)),
            (51, 3, "/dev/dri/renderD128", fdinfo(CARD, 2, 0, 0, compute=5, gfx=0)),
        ),
    )
    first = there.look(100.0)
    assert first.engines is None
    assert first.busy is None
    assert first.moved  # nobody knows, so the card is not taken for idle
    assert {process.utilization_percent for process in first.processes} == {None}
    there.says(50, 3, fdinfo(CARD, 1, 0, 0, gfx=500_000_000, dec=1_000_000_000))
    there.says(51, 3, fdinfo(CARD, 2, 0, 0, compute=400_000_005, gfx=0))
    second = there.look(102.0)
    assert second.engines == pytest.approx({"gfx": 0.25, "dec": 0.5, "compute": 0.2})
    assert second.busy == pytest.approx(0.5)
    assert [(p.pid, p.kind, p.utilization_percent) for p in second.processes] == [
        (50, ProcessKind.GRAPHICS, 50),
        (51, ProcessKind.COMPUTE, 20),
    ]


def test_counters_that_step_back_make_no_work_up(tmp_path: Path) -> None:
    there = scene(
        tmp_path, with_clients((50, 3, "/dev/dri/card0", fdinfo(CARD, 1, 0, 0, gfx=9_000_000_000)))
    )
    there.look(1.0)
    there.says(50, 3, fdinfo(CARD, 1, 0, 0, gfx=8_000_000_000))
    assert there.look(2.0).busy == 0.0
    there.says(50, 3, fdinfo(CARD, 1, 0, 0, gfx=9_100_000_000))
    assert there.look(3.0).busy == pytest.approx(0.1)


def test_a_client_that_came_meanwhile_has_no_share_yet(tmp_path: Path) -> None:
    there = scene(tmp_path, with_clients((50, 3, "/dev/dri/card0", fdinfo(CARD, 1, 0, 0))))
    there.look(1.0)
    newcomer = Machine()
    newcomer.process(51, "new", {3: ("/dev/dri/card0", fdinfo(CARD, 2, 0, 0, gfx=10**12))})
    newcomer.build(tmp_path)
    use = there.look(2.0)
    assert {user.pid: user.busy for user in use.users} == {50: 0.0, 51: None}
    assert use.busy == 0.0


def test_a_process_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    import shutil

    there = scene(tmp_path, with_clients((50, 3, "/dev/dri/card0", fdinfo(CARD, 1, 8, 0))))
    assert len(there.look(1.0).users) == 1
    shutil.rmtree(tmp_path / "proc/50")
    assert there.look(2.0).users == ()


def test_a_process_that_opens_a_device_late_is_found_within_a_round(tmp_path: Path) -> None:
    machine = host()
    for pid in range(100, 140):
        machine.process(pid, "app", {3: ("/dev/null", "")})
    there = scene(tmp_path, machine)
    assert there.look(0.0).users == ()
    (tmp_path / "proc/120/fd/4").symlink_to("/dev/dri/renderD128")
    (tmp_path / "proc/120/fdinfo/4").write_text(fdinfo(CARD, 1, 8, 0))
    found = [bool(there.look(float(second)).users) for second in range(1, 12)]
    assert found[-1]
    assert not found[0]  # the others take turns, so that a tick stays cheap


def test_cards_of_one_tick_share_one_search(tmp_path: Path) -> None:
    there = scene(tmp_path, with_clients((50, 3, "/dev/dri/card0", fdinfo(CARD, 1, 8, 0))))
    assert there.descriptors.read(5.0) is there.descriptors.read(5.1)
    assert there.descriptors.read(6.0) is not there.descriptors.read(7.0)


def test_processes_that_may_not_be_seen_are_counted_and_told(tmp_path: Path) -> None:
    machine = with_clients(
        (50, 3, "/dev/dri/card0", fdinfo(CARD, 1, 8, 0)),
        (60, 3, "/dev/dri/card0", fdinfo(CARD, 2, 8, 0)),
    )
    machine.files["proc/61/stat"] = stat(61, "kworker/0:1", flags=0x04208060)
    machine.links["proc/61/fd/0"] = "/dev/null"
    there = scene(tmp_path, machine, proc_60_fd=DENIED, proc_61_fd=DENIED)
    use = there.look(0.0)
    assert [user.pid for user in use.users] == [50]
    assert use.blind_spot == (
        "1 process of other users is not visible: "
        "run andon as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
    )


def test_a_container_with_its_own_pids_says_so(tmp_path: Path) -> None:
    machine = with_clients((50, 3, "/dev/dri/card0", fdinfo(CARD, 1, 8, 0)))
    machine.files["proc/2/comm"] = "bash\n"
    use = scene(tmp_path, machine).look(0.0)
    assert "container or hidepid" in (use.blind_spot or "")


def test_a_kernel_that_tells_nothing_is_not_taken_for_an_idle_device(tmp_path: Path) -> None:
    machine = with_clients((50, 3, "/dev/dri/card0", "pos:\t0\nflags:\t02\n"))
    there = scene(tmp_path, machine)
    there.look(0.0)
    assert there.look(1.0).blind_spot == drm.OLD_FDINFO


def test_what_is_past_the_bounds_is_told(tmp_path: Path) -> None:
    files = dict.fromkeys(range(5), ("/dev/null", ""))
    machine = host()
    machine.process(50, "app", files)
    there = Scene(machine.build(tmp_path), Openings({}), most_descriptors=2)
    assert "beyond andon's limits" in (there.look(0.0).blind_spot or "")


def test_more_openings_than_are_read_are_told(tmp_path: Path) -> None:
    openings = [(50, n, "/dev/dri/card0", fdinfo(CARD, n, 8, 0)) for n in range(3, 8)]
    machine = with_clients(*openings)
    use = Scene(machine.build(tmp_path), Openings({}), most_clients=2).look(0.0)
    assert use.blind_spot == "3 open files of this device beyond andon's limits"


def test_nothing_hidden_is_no_blind_spot() -> None:
    assert DrmSearch().blind_spot is None


@given(st.binary())
def test_no_stat_makes_it_raise(content: bytes) -> None:
    is_kernel_thread(content)


def test_kernel_threads_are_known_by_their_flag() -> None:
    assert is_kernel_thread(stat(61, "kworker) x", flags=0x04208060).encode())
    assert not is_kernel_thread(stat(62, "bash").encode())
