"""`andon doctor` and `andon selftest` as a person runs them: here, on a stand-in, under a root."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need
from tests.integration.conftest import Outcome, andon
from tests.standin import StandIn, StandInProcess, hung, init_fails, lost
from tests.standin.build import LIBRARY

PROC_FILES = ("stat", "meminfo", "loadavg")


def findings(done: Outcome) -> dict[str, dict[str, Any]]:
    """By id; nothing may look like a crash."""
    assert "Traceback" not in done.out + done.err
    value = done.json()
    assert value["schema"] == "andon.doctor/1"
    assert value["exit_code"] == done.code
    return {finding["id"]: finding for finding in value["findings"]}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of our own making under ANDON_ROOT."""
    root = tmp_path / "machine"
    for name in PROC_FILES:
        (root / "proc").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(f"/proc/{name}", root / "proc" / name)
    monkeypatch.setenv("ANDON_ROOT", str(root))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return root


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def card(root: Path, pci: str, driver: str | None, status: str = "active") -> None:
    folder = root / "sys/bus/pci/devices" / pci
    for name, value in (
        ("vendor", "0x10de"), ("class", "0x030200"), ("power/runtime_status", status),
        ("power/control", "auto"),
    ):  # fmt: skip
        write(folder / name, f"{value}\n")
    if driver:
        (root / "sys/module" / driver).mkdir(parents=True, exist_ok=True)
        bound = root / "sys/bus/pci/drivers" / driver
        bound.mkdir(parents=True, exist_ok=True)
        (bound / pci).symlink_to(folder)
        (folder / "driver").symlink_to(bound)


def test_a_machine_without_a_gpu_is_examined_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    done = andon("doctor", "--json")
    found = findings(done)
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a GPU")
    assert done.code == 3
    assert found["no_device"]["grade"] == "failure"
    assert {"kernel", "settings", "versions", "terminal"} & set(found)
    assert all(
        f["fix"] or f["hint"] for f in found.values() if f["grade"] in ("failure", "warning")
    )


def test_for_a_person_it_fits_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = andon("doctor")
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.err == ""
    assert "fine" in done.out.splitlines()[-1]


def test_eight_devices_answer(node: StandIn) -> None:
    found = findings(andon("doctor", "--json"))
    assert found["devices_respond"]["evidence"]["count"] == 8
    assert found["devices_respond"]["evidence"]["first_answer_seconds"] > 0
    assert found["library_found"]["message"].endswith("(in LD_LIBRARY_PATH)")
    assert "no_device" not in found
    assert "driver" not in {f["area"] for f in found.values() if f["grade"] == "failure"}


def test_a_library_off_the_loaders_path_is_found(library: Path, root: Path) -> None:
    """In a mount namespace of its own, where a driver container left its files."""
    need("unshare", "mount")
    if os.geteuid() != 0:
        pytest.skip("this needs root")
    card(root, "0000:01:00.0", "nvidia")
    folder = "/run/nvidia/driver/usr/lib64"
    script = f"mount -t tmpfs none /run && mkdir -p {folder} && cp $1 {folder}/ && shift && exec $@"
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(library / LIBRARY)]
    command += [sys.executable, "-m", "andon.cli", "doctor", "--json"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120)
    done = Outcome(made.returncode, made.stdout, made.stderr)
    found = findings(done)["library_off_path"]
    assert done.code == 3
    assert folder in found["message"]
    assert "ldconfig" in found["fix"]


@pytest.mark.parametrize(
    ("code", "words"), [(18, "versions differ"), (4, "no permission"), (9, "not loaded")]
)
def test_a_driver_that_refuses_is_told_with_its_reason(
    node: StandIn, code: int, words: str
) -> None:
    with node.broken(init_fails(code)):
        done = andon("doctor", "--json")
    found = findings(done)
    assert done.code == 3
    assert words in found["reader_fault"]["message"]
    assert found["reader_fault"]["hint"]


def test_an_upgraded_driver_is_told_with_both_versions(
    node: StandIn, library: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card(root, "0000:01:00.0", "nvidia")
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu\n"
    write(root / "proc/driver/nvidia/version", version)
    place = tmp_path / "lib"
    place.mkdir()
    shutil.copyfile(library / LIBRARY, place / "libnvidia-ml.so.580.95.05")
    (place / LIBRARY).symlink_to("libnvidia-ml.so.580.95.05")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(place))
    with node.broken(init_fails(18)):
        done = andon("doctor", "--json")
    found = findings(done)
    assert done.code == 3
    assert found["version_mismatch"]["evidence"] == {"kernel": "550.54.14", "library": "580.95.05"}
    assert found["version_mismatch"]["fix"]


def test_a_lost_and_a_hung_device_are_told_and_the_others_counted(node: StandIn) -> None:
    with node.broken(lost(2), hung(device=5)):
        done = andon("doctor", "--json")
    found = findings(done)
    assert done.code == 1
    assert found["devices_respond"]["evidence"]["count"] == 6
    assert found["device_lost"]["message"].startswith("GPU 2 is lost")
    assert found["device_stale"]["message"].startswith("GPU 5 is not responding")


def test_nouveau_hidepid_and_a_sleeping_card_are_found_under_a_root(root: Path) -> None:
    card(root, "0000:01:00.0", "nouveau", "suspended")
    write(root / "proc/1/mounts", "proc /proc proc rw,nosuid,hidepid=2 0 0\n")
    write(root / "proc/sys/kernel/osrelease", "6.8.0-made-up\n")
    done = andon("doctor", "--json")
    found = findings(done)
    assert done.code == 3
    assert "0000:01:00.0" in found["nouveau"]["message"]
    assert found["suspended"]["grade"] == "ok"
    assert "6.8.0-made-up" in found["kernel"]["message"]
    if os.geteuid() == 0:
        assert found["proc_visible"]["grade"] == "ok", "root sees everyone's processes"
    else:
        assert found["proc_hidden"]["grade"] == "warning"


def test_hidepid_is_told_to_a_user(root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("this needs root, to become somebody else")
    write(root / "proc/1/mounts", "proc /proc proc rw,nosuid,hidepid=2 0 0\n")
    code = (
        "import os; from pathlib import Path;"
        "from andon.doctor.inspection.access import read_proc;"
        "from andon.host.own_container import read_mounts;"
        f"mounts = read_mounts(Path({str(root)!r})); os.setgroups([]);"
        "os.setgid(65534); os.setuid(65534); print(read_proc(mounts))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "ProcVisibility(hidepid='2', group=None, let_off=False)\n"


def test_a_suspended_card_of_the_driver_stays_asleep(node: StandIn, kernel: Path) -> None:
    for status in kernel.glob("sys/bus/pci/drivers/nvidia/*/power/runtime_status"):
        status.write_text("suspended\n")
        (status.parent / "control").write_text("auto\n")
    node.reset_calls()
    done = andon("doctor", "--json")
    assert findings(done)["devices_asleep"]["evidence"]["count"] == 8
    assert done.code in (0, 1)
    assert node.calls() == {}, "the driver was not called at all"


def test_mistakes_in_the_settings_do_not_end_the_examination(node: StandIn, tmp_path: Path) -> None:
    path = tmp_path / "andon.toml"
    path.write_text("[sampling]\ninterval = 'soon'\n")
    done = andon("doctor", "--json", "--config", str(path))
    found = findings(done)
    assert done.code == 1
    assert "soon" in found["settings_wrong"]["message"]
    assert "devices_respond" in found


# The self-test.


def test_the_stand_in_is_plausible(node: StandIn) -> None:
    done = andon("selftest", "--seconds", "1", "--json")
    value = done.json()
    assert value["schema"] == "andon.selftest/1"
    assert (done.code, value["grade"]) == (0, "ok"), value
    assert "Traceback" not in done.err


def test_a_reading_that_cannot_be_true_fails_the_test(node: StandIn) -> None:
    node.change(3, temperature=255, processes=(StandInProcess(os.getpid(), memory=1 << 40),))
    done = andon("selftest", "--seconds", "1", "--json")
    assert done.code == 1
    wrong = {f["id"]: f for f in done.json()["findings"] if f["grade"] == "failure"}
    assert set(wrong) == {"temperature", "processes"}
    assert "GPU 3" in wrong["temperature"]["message"]


def test_without_a_device_the_self_test_ends_with_3(node: StandIn) -> None:
    with node.broken(init_fails(9)):
        done = andon("selftest", "--seconds", "1")
    assert done.code == 3
    assert "not loaded" in done.out


def test_a_load_without_a_framework_says_so(node: StandIn) -> None:
    done = andon("selftest", "--seconds", "1", "--load", "--json")
    (load,) = [f for f in done.json()["findings"] if f["id"] == "load"]
    if load["grade"] == "ok":
        pytest.skip("a CUDA framework is installed here")
    assert load["grade"] == "unknown"
    assert done.code == 0
