"""Facts are gathered from small files under a root; what cannot be read is empty, not an error."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.doctor.inspection import machine
from andon.doctor.inspection.access import (
    judge_proc,
    parse_groups,
    parse_membership,
    read_books,
    read_folder,
    read_nodes,
)
from andon.doctor.inspection.machine import (
    cgroup_version,
    inspect,
    parse_specification,
    read_cards,
    read_containers,
    read_kernel,
)
from andon.doctor.rules.facts import Folder, PciCard
from andon.host import libraries
from andon.host.file_systems import kind_of
from andon.host.files import names_in, read_bytes, read_text
from andon.host.libraries import cached, find_libraries, fits
from andon.host.own_container import MountOptions, container_kind, parse_mounts, read_mounts

CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Wed May  7 20:14:03 UTC 2025\n"
    "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
    "GCC version:\n"
)
ELF = b"\x7fELF\x02\x01\x01" + bytes(11) + b"\x3e\x00"


def put(root: Path, **files: str | bytes) -> Path:
    """Files by their path, with `__` for a slash."""
    for name, content in files.items():
        write(root / name.replace("__", "/"), content)
    return root


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def card(root: Path, pci: str, vendor: str, kind: str, driver: str | None, **power: str) -> None:
    folder = root / "sys/bus/pci/devices" / pci
    write(folder / "vendor", f"{vendor}\n")
    write(folder / "class", f"{kind}\n")
    for name, value in power.items():
        write(folder / "power" / name, f"{value}\n")
    if driver:
        (folder / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")


@pytest.mark.process
def test_an_empty_root_gives_empty_facts(tmp_path: Path) -> None:
    facts = inspect(tmp_path, tmp_path, {})
    assert facts.kernel.nvidia_version is None
    assert (facts.cards, facts.libraries, facts.nodes) == ((), (), ())
    assert facts.containers.cgroup == ""
    assert not facts.expects_nvidia


def test_the_kernel_tells_the_driver_and_its_flavour(tmp_path: Path) -> None:
    put(tmp_path, proc__driver__nvidia__version=OPEN, proc__sys__kernel__tainted="12288\n",
        proc__driver__nvidia__params="ModifyDeviceFiles: 1\nRmProfilingAdminOnly: 1\n",
        proc__sys__kernel__osrelease="6.8.0-60-generic\n", sys__module__nvidia__version="570.86.15",
        etc__os_release="x", run__x="")  # fmt: skip
    write(tmp_path / "etc/os-release", 'NAME="Rocky"\nID="rocky"\nID_LIKE="rhel centos fedora"\n')
    write(tmp_path / "run/nvidia-persistenced/socket", "")
    kernel = read_kernel(tmp_path, tmp_path)
    assert (kernel.nvidia_version, kernel.nvidia_open) == ("570.86.15", True)
    assert (kernel.taint, kernel.counters_restricted, kernel.persistenced) == (12288, True, True)
    assert kernel.modules == ("nvidia",)
    assert kernel.distribution == ("rocky", "rhel", "centos", "fedora")


@pytest.mark.parametrize(
    ("text", "version", "is_open"),
    [
        (CLOSED, "580.159.04", False),
        (OPEN, "570.86.15", True),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157\n", "390.157", False),
        ("", None, False),
        ("NVRM version: \n", None, False),
    ],
)
def test_the_drivers_version_is_read(text: str, version: str | None, is_open: bool) -> None:
    assert machine.parse_nvidia_version(text) == (version, is_open)


@pytest.mark.parametrize(
    ("text", "restricted"),
    [("RmProfilingAdminOnly: 1\n", True), ("A: 1\nRmProfilingAdminOnly: 0\n", False), ("", None)],
)
def test_the_counters_are_root_s_or_not(text: str, restricted: bool | None) -> None:
    assert machine.parse_counters(text) is restricted


@pytest.mark.parametrize(
    ("content", "found"), [(b"\6\0\0\0\1", True), (b"\6\0\0\0\0", False), (b"", None), (b"1", None)]
)
def test_secure_boot_is_the_fifth_byte(tmp_path: Path, content: bytes, found: bool | None) -> None:
    write(tmp_path / machine._SECURE_BOOT, content)
    assert read_kernel(tmp_path, tmp_path).secure_boot is found


def test_a_mouse_s_battery_makes_no_laptop(tmp_path: Path) -> None:
    supply = "sys__class__power_supply__"
    put(tmp_path, **{f"{supply}hidpp__type": "Battery\n", f"{supply}hidpp__scope": "Device\n"})
    assert not read_kernel(tmp_path, tmp_path).battery
    put(tmp_path, **{f"{supply}BAT0__type": "Battery\n"})
    assert read_kernel(tmp_path, tmp_path).battery


def test_wsl_is_known_by_its_kernel_or_its_device(tmp_path: Path) -> None:
    assert not read_kernel(tmp_path, tmp_path).wsl
    write(tmp_path / "dev/dxg", "")
    assert read_kernel(tmp_path, tmp_path).wsl
    other = put(tmp_path / "b", proc__sys__kernel__osrelease="5.15.1-microsoft-standard-WSL2\n")
    assert read_kernel(other, other).wsl


def test_cards_are_listed_with_their_driver_and_their_sleep(tmp_path: Path) -> None:
    card(tmp_path, "0000:00:02.0", "0x8086", "0x030000", "i915")
    card(tmp_path, "0000:00:0b.0", "0x8086", "0x120000", "intel_vpu")  # no GPU
    card(tmp_path, "0000:00:1f.3", "0x8086", "0x040380", "snd_hda_intel")
    card(tmp_path, "0000:01:00.0", "0x10de", "0x030200", "nouveau",
         runtime_status="suspended", control="auto")  # fmt: skip
    card(tmp_path, "0000:01:00.1", "0x10de", "0x040300", "snd_hda_intel")  # its sound
    card(tmp_path, "0000:02:00.0", "0x1a03", "0x030000", "ast")  # a server's screen
    card(tmp_path, "0000:03:00.0", "0x1002", "0x120000", None)
    card(tmp_path, "0000:04:00.4", "0x10de", "0x030200", None)
    (tmp_path / "sys/bus/pci/devices/0000:04:00.4/physfn").symlink_to("../0000:04:00.0")
    assert read_cards(tmp_path) == (
        PciCard("0000:00:02.0", "intel", "i915"),
        PciCard("0000:01:00.0", "nvidia", "nouveau", "suspended", "auto"),
        PciCard("0000:03:00.0", "amd", None),
    )


# The library.


def libraries_of(root: Path, variable: str = "") -> list[tuple[str, str]]:
    found = find_libraries(root, {"LD_LIBRARY_PATH": variable} if variable else {})
    return [(library.path, library.source) for library in found]


def test_the_loaders_order_is_kept_and_each_file_comes_once(tmp_path: Path) -> None:
    name = libraries.NAME
    for folder in ("opt/a", "usr/lib64", "usr/lib/wsl/lib"):
        write(tmp_path / folder / "libnvidia-ml.so.580.1.1", ELF + folder.encode())
        (tmp_path / folder / name).symlink_to("libnvidia-ml.so.580.1.1")
    write(tmp_path / "etc/ld.so.cache", b"\0/usr/lib64/libnvidia-ml.so.1\0libnvidia-ml.so.1\0")
    assert libraries_of(tmp_path) == [
        (f"/usr/lib64/{name}", "the loader's cache"),
        (f"/usr/lib/wsl/lib/{name}", ""),
    ]
    assert libraries_of(tmp_path, "/opt/a:relative:") == [
        (f"/opt/a/{name}", "LD_LIBRARY_PATH"),
        (f"/usr/lib64/{name}", "the loader's cache"),
        (f"/usr/lib/wsl/lib/{name}", ""),
    ]
    (first, *_) = find_libraries(tmp_path, {})
    assert first.target == "/usr/lib64/libnvidia-ml.so.580.1.1"


def test_a_link_that_leads_nowhere_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.550.1")
    assert find_libraries(tmp_path, {}) == ()


def test_an_empty_library_is_found_as_empty(tmp_path: Path) -> None:
    write(tmp_path / "usr/lib64/libnvidia-ml.so.1", b"")
    (library,) = find_libraries(tmp_path, {})
    assert (library.size_bytes, library.fits) == (0, None)


def test_the_processor_is_compared() -> None:
    other_machine = ELF[:18] + b"\xb7\x00"
    other_size = ELF[:4] + b"\x01" + ELF[5:]
    assert fits(ELF, ELF) is True
    assert fits(other_machine, ELF) is False
    assert fits(other_size, ELF) is False
    assert fits(b"!<arch>", ELF) is None
    own = read_bytes(Path(sys.executable), 20)
    assert fits(own, own) is True


def test_the_cache_is_searched_for_whole_paths() -> None:
    content = (
        b"ld.so-1.7.0\0\1\2/lib/libnvidia-ml.so.1\0/lib/libnvidia-ml.so.11\0/b/libnvidia-ml.so.1\0"
    )
    assert cached(content) == ["/lib/libnvidia-ml.so.1", "/b/libnvidia-ml.so.1"]


@given(st.binary(max_size=300))
def test_no_cache_is_too_strange(content: bytes) -> None:
    assert all(path.endswith("libnvidia-ml.so.1") for path in cached(content))


# Files, mounts, users.


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_text(tmp_path / "pipe") == ""
    assert read_text(tmp_path) == ""
    assert read_text(tmp_path / "none") == ""
    write(tmp_path / "long", "x" * 100)
    assert read_text(tmp_path / "long", 10) == "x" * 10
    assert names_in(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("options", "uid", "groups", "hidepid", "let_off"),
    [
        ("rw,relatime", 1000, {1000}, "", False),
        ("rw,hidepid=2", 1000, {1000}, "2", False),
        ("rw,hidepid=invisible", 1000, {1000}, "invisible", False),
        ("rw,gid=10,hidepid=2", 1000, {10, 1000}, "2", True),
        ("rw,hidepid=2", 0, {0}, "2", True),
    ],
)
def test_hidepid_is_read_from_the_mounts(
    options: str, uid: int, groups: set[int], hidepid: str, let_off: bool
) -> None:
    mounts = parse_mounts(f"proc /proc proc {options} 0 0\n")
    found = judge_proc(mounts, uid, groups)
    assert (found.hidepid, found.let_off) == (hidepid, let_off)


def test_mounts_are_pid_1_s_under_another_root(tmp_path: Path) -> None:
    put(tmp_path, proc__1__mounts="proc /proc proc rw,hidepid=2 0 0\n")
    assert read_mounts(tmp_path) == [MountOptions("/proc", "proc", ("rw", "hidepid=2"))]
    other = put(tmp_path / "b", proc__mounts="proc /proc proc rw 0 0\n")
    assert read_mounts(other)[0].options == ("rw",)


@pytest.mark.parametrize(
    ("kinds", "version"),
    [
        (("cgroup2",), "v2"),
        (("cgroup",), "v1"),
        (("cgroup", "cgroup2"), "v1 and v2 (hybrid)"),
        ((), ""),
    ],
)
def test_the_cgroup_version_follows_from_the_mounts(kinds: tuple[str, ...], version: str) -> None:
    mounts = [MountOptions(f"/sys/fs/cgroup/{kind}", kind, ()) for kind in kinds]
    assert cgroup_version([*mounts, MountOptions("/", "ext4", ())]) == version


def test_device_files_are_listed_and_not_opened(tmp_path: Path) -> None:
    for name in ("nvidiactl", "nvidia0", "nvidia-uvm", "nvidia-caps", "null", "kfd", "nvidia0x"):
        write(tmp_path / "dev" / name, "")
    os.mkfifo(tmp_path / "dev/nvidia1")  # opening it would block
    write(tmp_path / "dev/dri/renderD128", "")
    write(tmp_path / "dev/dri/card0", "")
    write(tmp_path / "etc/group", f"render:x:{os.getgid()}:alice\n")
    (tmp_path / "dev/kfd").chmod(0o660)
    found = {node.path: node for node in read_nodes(tmp_path, lambda path: path.name != "kfd")}
    assert set(found) == {
        "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia-uvm", "/dev/kfd",
        "/dev/dri/renderD128",
    }  # fmt: skip
    kfd = found["/dev/kfd"]
    assert (kfd.mode, kfd.group, kfd.usable) == (0o660, "render", False)
    assert found["/dev/nvidia0"].usable


def test_groups_are_read_by_number_and_by_member() -> None:
    content = b"root:x:0:\nvideo:x:44:alice,bob\nrender:x:110:bob\nbroken\nbad:x:y:alice\n"
    assert parse_groups(content) == {0: "root", 44: "video", 110: "render"}
    assert parse_membership(content, "alice") == ("bad", "video")
    assert parse_membership(content, "carol") == ()


# Containers.


def test_a_container_is_known_by_its_marks(tmp_path: Path) -> None:
    assert container_kind(tmp_path, {}, []) == ""
    assert container_kind(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, []) == "kubernetes"
    assert container_kind(tmp_path, {"APPTAINER_CONTAINER": "/x.sif"}, []) == "apptainer"
    cgroup = put(tmp_path / "a", proc__self__cgroup="0::/system.slice/docker-12.scope\n")
    assert container_kind(cgroup, {}, []) == "docker"
    lxc = put(tmp_path / "b", run__systemd__container="lxc\n")
    assert container_kind(lxc, {}, []) == "lxc"
    windows = put(tmp_path / "c", run__systemd__container="wsl\n")
    assert container_kind(windows, {}, []) == ""
    podman = put(tmp_path / "d", **{"run__.containerenv": ""})
    assert container_kind(podman, {}, []) == "podman"


def test_a_mark_that_an_image_left_on_a_host_means_nothing(tmp_path: Path) -> None:
    write(tmp_path / ".dockerenv", "")
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
    assert container_kind(tmp_path, {}, [MountOptions("/", "ext4", ())]) == ""
    assert container_kind(tmp_path, {}, [MountOptions("/", "overlay", ())]) == "docker"


def test_what_a_host_can_do_for_containers(tmp_path: Path) -> None:
    put(tmp_path, usr__bin__docker="", etc__docker__daemon="", dev__nvidiactl="")
    write(tmp_path / "usr/bin/nvidia-ctk", "")
    write(tmp_path / "etc/docker/daemon.json", '{"runtimes": {"nvidia": {"path": "x"}}}')
    write(tmp_path / "etc/cdi/nvidia.yaml", "path: /usr/lib/libnvidia-ml.so.550.54.14\n")
    found = read_containers(tmp_path, {}, [])
    assert found.tools == ("/usr/bin/nvidia-ctk",)
    assert found.docker_installed
    assert found.docker_runtime
    assert [spec.versions for spec in found.specifications] == [("550.54.14",)]
    assert found.char_links is False
    write(tmp_path / "dev/char/195:255", "")
    assert read_containers(tmp_path, {}, []).char_links is True


@pytest.mark.parametrize("text", ["", "{", "[]", '{"runtimes": []}', '{"runtimes": null}', '"x"'])
def test_a_strange_daemon_json_has_no_runtime(tmp_path: Path, text: str) -> None:
    write(tmp_path / "etc/docker/daemon.json", text)
    assert not read_containers(tmp_path, {}, []).docker_runtime


def test_a_specification_names_each_version_once() -> None:
    names = ("580.1", "550.54.14", "550.54.14", "1")
    text = "\n".join(f"libnvidia-ml.so.{name}" for name in names)
    assert parse_specification(text) == ("550.54.14", "580.1")


# andon's folders.


def test_a_folder_that_is_yet_to_be_made_is_judged_by_the_one_above_it(tmp_path: Path) -> None:
    found = read_folder(tmp_path / "state/andon", [MountOptions("/", "ext4", ())])
    assert (found.exists, found.writable, found.kind, found.remote) == (False, True, "ext4", False)
    assert found.free_bytes is not None
    assert read_folder(tmp_path, []).exists


def test_a_file_in_place_of_the_folder_cannot_be_written_into(tmp_path: Path) -> None:
    write(tmp_path / "state", "")
    assert not read_folder(tmp_path / "state/andon", []).writable


def test_a_network_file_system_is_not_touched(tmp_path: Path) -> None:
    mounts = [MountOptions("/", "ext4", ()), MountOptions(str(tmp_path), "nfs4", ())]
    assert read_folder(tmp_path, mounts) == Folder(str(tmp_path), kind="nfs4", remote=True)
    seen = read_folder(tmp_path, mounts[:1])
    assert (seen.exists, seen.remote) == (True, False)
    assert seen.free_bytes is not None


def test_the_longest_mount_decides() -> None:
    mounts = [("/", "ext4"), ("/home", "xfs"), ("/home/a", "nfs")]
    assert kind_of(Path("/home/a/x"), mounts) == "nfs"
    assert kind_of(Path("/home/ab"), mounts) == "xfs"
    assert kind_of(Path("/homes"), mounts) == "ext4"
    assert kind_of(Path("/home"), mounts) == "xfs"


def test_the_book_tells_its_owner_and_its_mode(tmp_path: Path) -> None:
    (tmp_path / "andon/leases").mkdir(parents=True)
    (tmp_path / "andon").chmod(0o755)
    (tmp_path / "andon/leases").chmod(0o1777)
    (tmp_path / "link").symlink_to(tmp_path / "andon")
    write(tmp_path / "etc/passwd", f"keeper:x:{os.getuid()}:0::/:/bin/sh\n")
    places = [tmp_path / "andon", tmp_path / "none", tmp_path / "link", tmp_path / "andon"]
    book, link = read_books(tmp_path, places)
    assert (book.owner, book.mode, book.leases_mode, book.link) == ("keeper", 0o755, 0o1777, False)
    assert link.link


@pytest.mark.process
def test_the_clock_is_asked_of_the_kernel() -> None:
    assert machine.is_synchronised() in (True, False, None)


def test_restricted_counters_are_used_by_capability_and_not_by_a_root_without_it(
    tmp_path: Path,
) -> None:
    everyone, mapped = "0 0 4294967295", "0 100000 65536"
    for capabilities, users, may in (
        ("000001ffffffffff", everyone, True),
        ("0000000000200000", everyone, True),  # CAP_SYS_ADMIN
        ("0000004000000000", everyone, True),  # CAP_PERFMON
        ("00000000a80425fb", everyone, False),  # root in a container of Docker
        ("0000000000000000", everyone, False),
        ("000001ffffffffff", mapped, False),  # of a user namespace
    ):
        write(tmp_path / "proc/self/status", f"Uid:\t0\nCapEff:\t{capabilities}\nCapBnd:\t0\n")
        write(tmp_path / "proc/self/uid_map", f"         {users}\n")
        assert machine.may_profile(tmp_path) is may, (capabilities, users)
    assert machine.may_profile(tmp_path / "none") is False
