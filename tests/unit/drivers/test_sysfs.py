"""Small files: a value or a reason, in words that help; nothing raises."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.drivers.shared import pci
from andon.drivers.shared.sysfs import SysfsValue, Tree, failure, hwmon, labels, parse_meminfo
from tests.constructed import Machine
from tests.constructed.opened import DENIED, Openings


def tree(root: Path, **files: str) -> Tree:
    for name, content in files.items():
        (root / name).write_text(content)
    return Tree(root)


def test_a_number_is_read_with_its_line_end(tmp_path: Path) -> None:
    files = tree(tmp_path, decimal="42\n", hexadecimal="0x744c\n", negative="-5000\n")
    assert files.integer("decimal") == SysfsValue(42)
    assert files.integer("hexadecimal") == SysfsValue(0x744C)
    assert files.integer("negative") == SysfsValue(-5000)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    answer = Tree(tmp_path).integer("device/gpu_busy_percent")
    assert answer == SysfsValue(
        None, "not reported by this kernel (no gpu_busy_percent)", absent=True
    )


def test_a_file_that_holds_no_number_says_what_it_holds(tmp_path: Path) -> None:
    answer = tree(tmp_path, temp1_input="N/A\n").integer("temp1_input")
    assert answer == SysfsValue(None, "temp1_input is not a number: 'N/A'")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EPERM, "does not allow reading power1_cap now"),
        (errno.EBUSY, "reset or suspend"),
        (errno.EOPNOTSUPP, "not supported by this device"),
        (errno.ENODATA, "not supported by this device"),
        (errno.ENODEV, "the device was removed"),
        (errno.EIO, "did not respond when reading power1_cap"),
        (errno.ETIMEDOUT, "did not respond"),
        (errno.EINVAL, "returned EINVAL for power1_cap"),
        (99999, "returned an error for power1_cap"),
    ],
)
def test_every_answer_of_the_kernel_has_its_words(tmp_path: Path, code: int, words: str) -> None:
    files = Tree(tmp_path, Openings({"power1_cap": code}))
    answer = files.integer("hwmon/power1_cap")
    assert answer.value is None
    assert words in answer.reason
    assert not answer.absent


def test_a_denied_file_names_itself_and_what_is_needed(tmp_path: Path) -> None:
    (tmp_path / "energy1_input").write_text("1\n")
    (tmp_path / "energy1_input").chmod(0o400)
    files = Tree(tmp_path, Openings({"energy1_input": DENIED}))
    assert files.integer("energy1_input").reason == (
        "no permission to read energy1_input: run andon as root, or with CAP_DAC_READ_SEARCH"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_denied_file_names_the_group_that_may_read_it(tmp_path: Path) -> None:
    import grp

    (tmp_path / "energy1_input").write_text("1\n")
    os.chown(tmp_path / "energy1_input", 0, grp.getgrnam("video").gr_gid)
    (tmp_path / "energy1_input").chmod(0o440)
    files = Tree(tmp_path, Openings({"energy1_input": DENIED}))
    assert files.integer("energy1_input").reason.endswith("join the group video")


@given(st.text(), st.one_of(st.none(), st.integers()))
def test_every_failure_has_words(path: str, code: int | None) -> None:
    assert failure(path, code).strip()


@given(st.text())
def test_no_path_makes_a_read_raise(path: str) -> None:
    files = Tree("/nonexistent-root")
    assert files.integer(path).value is None
    assert files.names(path) == []


@given(st.binary())
def test_no_content_makes_a_read_raise(content: bytes) -> None:
    files = Tree("/", lambda path: content)
    files.integer("any")
    assert files.text("any").value is not None


def test_of_several_files_the_first_that_exists_counts(tmp_path: Path) -> None:
    files = tree(tmp_path, second="2\n", third="3\n")
    assert files.first(["first", "second", "third"], files.integer) == SysfsValue(2)
    assert "no first" in files.first(["first", "other"], files.integer).reason


def test_a_denied_file_is_not_passed_over(tmp_path: Path) -> None:
    files = Tree(tree(tmp_path, first="1\n", second="2\n").root, Openings({"first": DENIED}))
    assert files.first(["first", "second"], files.integer).value is None


def test_a_long_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * 200_000)
    assert len(Tree(tmp_path).raw("long").value or b"") == 200_000


def test_sensors_are_found_by_their_driver_and_labels_and_not_by_number(tmp_path: Path) -> None:
    machine = Machine()
    machine.add("hwmon/hwmon1", {"name": "nvme\n", "temp1_input": 1})
    machine.add("hwmon/hwmon7", {"name": "amdgpu\n", "temp2_label": "edge\n", "temp1_input": 1})
    files = Tree(machine.build(tmp_path))
    assert hwmon(files, ["amdgpu"]) == "hwmon/hwmon7"
    assert labels(files, "hwmon/hwmon7", "temp") == {"edge": "temp2"}
    assert hwmon(files, ["xe"]) is None


@given(st.text())
def test_any_meminfo_is_survived(text: str) -> None:
    parse_meminfo(text)


def test_memory_is_read_in_bytes() -> None:
    assert parse_meminfo("MemTotal: 4 kB\nMemAvailable: 2 kB\nOther: x\n") == (4096, 2048)
    assert parse_meminfo("") == (None, None)


# PCI.


@pytest.mark.parametrize(
    ("text", "generation"),
    [("2.5 GT/s PCIe", 1), ("8.0 GT/s PCIe", 3), ("16.0 GT/s", 4), ("32.0 GT/s PCIe", 5)],
)
def test_a_generation_follows_from_the_speed(text: str, generation: int) -> None:
    assert pci.parse_speed(SysfsValue(text)) == SysfsValue(generation)


def test_a_link_that_is_down_has_no_generation_and_no_width() -> None:
    assert pci.parse_speed(SysfsValue("Unknown")).reason == "the link's speed is 'Unknown'"
    assert pci.parse_width(SysfsValue(0)).reason == "the link is down"
    assert pci.parse_width(SysfsValue(255)).value is None
    assert pci.parse_width(SysfsValue(16)) == SysfsValue(16)


@given(st.text(), st.text(), st.text())
def test_no_list_of_names_makes_a_lookup_raise(text: str, vendor: str, device: str) -> None:
    pci.parse_speed(SysfsValue(text))
    pci.parse_database(text, vendor, device)


def test_a_name_is_looked_up_in_the_system_s_list(tmp_path: Path) -> None:
    listed = "1002  AMD\n\t56a0  Wrong\n8086  Intel\n\t56a0  DG2 [Arc A770]\n\t\t1 2  Board\n"
    machine = Machine({"usr/share/misc/pci.ids": listed})
    files = Tree(machine.build(tmp_path))
    assert pci.name(files, "8086", 0x56A0, {}, "Intel GPU") == "Arc A770"
    assert pci.name(files, "8086", 0x56A0, {0x56A0: "Intel Arc A770"}, "x") == "Intel Arc A770"
    assert pci.name(files, "8086", 0x1234, {}, "Intel GPU") == "Intel GPU 0x1234"
    assert pci.name(files, "8086", None, {}, "Intel GPU") == "Intel GPU"
