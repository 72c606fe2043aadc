"""Xids in the kernel's log: told apart from everything else, and never from before the start."""

import os
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.events.kernel_log import MOST_RECORDS, RECORD_BYTES, KernelLog
from andon.events.rules.kernel_log import LONGEST_DETAIL, parse_line, parse_record
from andon.model.event import Event, EventKind, Party
from tests.support.rows import rows

LINES = [
    (
        "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, "
        "GPU has fallen off the bus.",
        (79, "0000:1b:00", (), None, "GPU has fallen off the bus."),
    ),
    (
        "NVRM: Xid (PCI:0000:9d:00): 31, pid=38498, name=python, "
        "Ch 00000008, intr 00000000. MMU Fault",
        (31, "0000:9d:00", (38498,), "python", "Ch 00000008, intr 00000000. MMU Fault"),
    ),
    ("NVRM: Xid (0000:01:00): 13, 0005 00000000", (13, "0000:01:00", (), None, "0005 00000000")),
    (
        "NVRM: Xid (PCI:0001:00:00 GPU-I:02): 43, pid=7, name=a b, Ch 0000000c",
        (43, "0001:00:00", (7,), "a b", "GPU-I:02: Ch 0000000c"),
    ),
    (
        "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping",
        (63, "0000:10:1c", (1896,), None, "Row Remapper: New row marked for remapping"),
    ),
    (
        "NVRM: Xid (PCI:00000000:C1:00): 119, Timeout after 6s of waiting for RPC response",
        (119, "00000000:c1:00", (), None, "Timeout after 6s of waiting for RPC response"),
    ),
    ("NVRM: Xid (PCI:0000:1b:00): 45", (45, "0000:1b:00", (), None, "")),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_an_xid_is_read_with_all_that_it_says(
    line: str, expected: tuple[int, str, tuple[int, ...], str | None, str]
) -> None:
    code, pci, pids, name, detail = expected
    who = tuple(Party(pid, name=name) for pid in pids)
    assert parse_line(line, 5.0) == Event(
        EventKind.XID, None, 5.0, code, detail, "kernel log", pids, who, pci
    )


def test_a_card_that_fell_off_the_bus_is_an_xid_even_without_its_number() -> None:
    words = "GPU has fallen off the bus."
    assert parse_line(f"NVRM: GPU 0000:b3:00.0: {words}", 5.0) == Event(
        EventKind.XID, None, 5.0, 79, words, "kernel log", pci="0000:b3:00.0"
    )


@pytest.mark.parametrize(
    ("line", "code", "detail"),
    [
        ("amdgpu 0000:07:00.0: amdgpu: GPU reset begin!", None, "GPU reset begin!"),
        (
            "amdgpu 0000:07:00.0: amdgpu: GPU reset begin!. Source:  1",
            None,
            "GPU reset begin!. Source: 1",
        ),
        (
            "amdgpu 0000:07:00.0: amdgpu: GPU reset end with ret = -22",
            22,
            "GPU reset end with ret = -22",
        ),
    ],
)
def test_a_reset_of_an_amd_device_is_read(line: str, code: int | None, detail: str) -> None:
    assert parse_line(line, 5.0) == Event(
        EventKind.RESET, None, 5.0, code, detail, "kernel log", pci="0000:07:00.0"
    )


@rows(
    "line",
    [
        "",
        "amdgpu 0000:07:00.0: amdgpu: GPU reset succeeded, trying to resume",
        "amdgpu 0000:07:00.0: amdgpu: GPU reset end with ret = 0",
        "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_low timeout, signaled seq=287925",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01",
        "NVRM: Xid (PCI:0000:1b:00): ,",
        "NVRM: Xid (PCI:zz:1b:00): 79, pid=1",
        "usb 1-1: new high-speed USB device number 79",
    ],
)
def test_everything_else_is_passed_over(line: str) -> None:
    assert parse_line(line, 0.0) is None


def test_what_a_user_writes_into_the_log_is_not_believed() -> None:
    text = "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus"
    assert parse_record(f"3,100,5000000,-;{text}\n", 0.0) is not None
    assert parse_record(f"12,100,5000000,-;{text}\n", 0.0) is None, "facility 1: any user's"
    assert parse_record(text, 0.0) is None, "not a record of /dev/kmsg"


def test_a_record_with_a_device_and_a_second_line_is_read() -> None:
    text = "NVRM: Xid (PCI:0000:1b:00): 48, pid=1, DBE\\x1b[31m"
    record = f"4,1,2,-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:1b:00.0\n"
    event = parse_record(record, 0.0)
    assert event is not None
    assert event.detail == "DBE [31m", "nothing that would move a terminal's cursor"


FORGED = "NVRM: Xid (PCI:0000:f0:00): 79"
RESET = "amdgpu 0000:07:00.0: amdgpu: GPU reset begin!"


@rows("words", [FORGED, RESET, "NVRM: GPU 0000:f0:00.0: GPU has fallen off the bus."])
@rows(
    "before",
    [
        "tmpfs: Unknown parameter '",
        "tmpfs: Unknown parameter 'a\\x0a",
        "x[7]: ",
        " ",
        "\\x0a",
        "[1.0] ",
    ],
)
def test_only_what_a_driver_begins_counts(before: str, words: str) -> None:
    """Any user can have the kernel quote him: `mount -o 'NVRM: …'` in a namespace of his own."""
    assert parse_line(before + words, 0.0) is None
    assert parse_record(f"3,1,2,-;{before}{words}\n DEVICE=+pci:0000:07:00.0\n", 0.0) is None


@pytest.mark.parametrize("flag", ["c", "+"])
def test_a_fragment_of_a_line_is_not_the_drivers_word(flag: str) -> None:
    """What continues another's line begins with whatever that one quotes."""
    assert parse_record(f"4,1,2,-;{FORGED}\n", 0.0) is not None
    assert parse_record(f"4,1,2,{flag};{FORGED}\n", 0.0) is None


@pytest.mark.parametrize(
    ("device", "counts"),
    [
        ("", False),
        (" SUBSYSTEM=pci\n DEVICE=+pci:0000:07:00.0\n", True),
        (" SUBSYSTEM=pci\n DEVICE=+pci:0000:08:00.0\n", False),
        (" SUBSYSTEM=usb\n DEVICE=c189:1\n", False),
    ],
)
def test_a_reset_counts_where_the_log_says_that_this_device_reported_it(
    device: str, counts: bool
) -> None:
    assert (parse_record(f"3,1,2,-;{RESET}\n{device}", 0.0) is not None) is counts


def test_an_xid_that_another_device_reported_does_not_count() -> None:
    """NVIDIA's driver names no device beside its lines; who does is not NVIDIA's driver."""
    assert parse_record(f"3,1,2,-;{FORGED}\n SUBSYSTEM=usb\n DEVICE=c189:1\n", 0.0) is None
    same = f"3,1,2,-;{FORGED}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:f0:00.0\n"
    assert parse_record(same, 0.0) is not None


def test_a_long_number_is_no_priority() -> None:
    assert parse_record(f"{'9' * 5000},1,2,-;{FORGED}\n", 0.0) is None
    assert parse_record(f"3,{'9' * 5000},2,-;{FORGED}\n", 0.0) is None


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_line(text, 0.0)
    parse_record(text, 0.0)
    event = parse_record(f"4,1,2,-;NVRM: Xid (PCI:0000:1b:00): 79, {text}", 0.0)
    assert event is not None
    assert event.detail.isprintable()
    assert len(event.detail) <= LONGEST_DETAIL
    assert all(pid > 0 for pid in event.pids)


@given(
    st.integers(1, 999),
    st.integers(1, 4_194_304),
    st.text(string.ascii_letters + "._-", min_size=1, max_size=15),
)
def test_number_process_and_name_come_back(code: int, pid: int, name: str) -> None:
    event = parse_line(f"NVRM: Xid (PCI:0000:c1:00): {code}, pid={pid}, name={name}, Ch 1", 0.0)
    assert event is not None
    assert (event.code, event.pids, event.who) == (code, (pid,), (Party(pid, name=name),))


# Following it.


@pytest.fixture
def kmsg(tmp_path: Path) -> Path:
    """In place of the kernel's: a file that grows, one record for each write."""
    path = tmp_path / "dev/kmsg"
    path.parent.mkdir()
    path.write_text("4,1,1,-;NVRM: Xid (PCI:0000:1b:00): 13, before the start\n")
    return path


def add(path: Path, code: int) -> None:
    with path.open("a") as file:
        file.write(f"4,2,2,-;NVRM: Xid (PCI:0000:1b:00): {code}, x\n")


def test_what_happened_before_the_start_is_not_told(kmsg: Path, tmp_path: Path) -> None:
    log = KernelLog(tmp_path, clock=lambda: 77.0)
    assert log.read() == ()
    add(kmsg, 79)
    assert [(event.code, event.at) for event in log.read()] == [(79, 77.0)]
    assert log.read() == (), "told once"
    log.close()
    log.close()
    assert log.read() == ()


def test_nothing_new_does_not_wait(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev/kmsg")
    writer = os.open(tmp_path / "dev/kmsg", os.O_RDWR)
    log = KernelLog(tmp_path)
    assert log.reason == "Illegal seek", "a pipe is no log"
    assert log.read() == ()
    os.close(writer)


def test_where_there_is_none_it_says_so(tmp_path: Path) -> None:
    log = KernelLog(tmp_path)
    assert log.reason == "No such file or directory"
    assert log.read() == ()


def test_a_flood_does_not_hold_up_the_tick(kmsg: Path, tmp_path: Path) -> None:
    log = KernelLog(tmp_path)
    with kmsg.open("a") as file:
        record = "6,1,1,-;".ljust(RECORD_BYTES - 1, "x") + "\n"
        file.writelines(record for _ in range(MOST_RECORDS))
    add(kmsg, 62)
    looks = 0
    while not (found := log.read()):
        looks += 1
        assert looks < 10
    assert looks >= 1, "it took more than one look"
    assert [event.code for event in found] == [62]
    log.close()


def test_a_record_is_read_with_the_lines_that_belong_to_it(kmsg: Path, tmp_path: Path) -> None:
    log = KernelLog(tmp_path)
    with kmsg.open("a") as file:
        file.write(f"3,2,2,-;{RESET}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:07:00.0\n")
        file.write(f"3,3,3,-;usb: \x0b3,1,1,-;{FORGED}\x85\u2028{FORGED}\n")
    assert [event.kind for event in log.read()] == [EventKind.RESET]
    log.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="writing to the kernel's log needs root")
def test_this_machines_own_log_can_be_followed_and_users_cannot_forge_it() -> None:
    log = KernelLog(Path("/"))
    assert log.reason is None
    Path("/dev/kmsg").write_text("<4>NVRM: Xid (PCI:0000:1b:00): 79, not the kernel's word\n")
    assert log.read() == [], "what comes through /dev/kmsg has facility user, whatever it claims"
    log.close()
