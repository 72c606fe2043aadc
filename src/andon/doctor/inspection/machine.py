"""Gathers machine facts for `andon doctor` from small files in /proc, /sys and /etc.

Kernel files are read under the configured root; what this process itself would use (its device
files, its library, its folders) under its own. Nothing here opens a device, wakes a card or loads
a driver's library: only the reader does.
"""

import ctypes
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from andon.doctor.inspection import access as access
from andon.doctor.rules.facts import (
    Clock,
    Containers,
    Kernel,
    MachineFacts,
    PciCard,
    SlurmFacts,
    Specification,
)
from andon.events.kernel_log import KernelLog
from andon.host.cards import card_folders, driver_of
from andon.host.files import BIG_BYTES, names_in, read_bytes, read_text
from andon.host.libraries import find_libraries
from andon.host.own_container import MountOptions, container_kind, own_pids, read_mounts
from andon.jobs.log_out import read_log_out
from andon.model.vendors import VENDORS
from andon.sampling.rules.masks import VARIABLES

# Gathers whether this is a container, and this machine's support for containers.

_TOOLS = (
    "nvidia-ctk", "nvidia-container-runtime-hook", "nvidia-container-runtime",
    "nvidia-container-cli",
)  # fmt: skip
_TOOL_FOLDERS = ("usr/bin", "usr/local/bin", "usr/local/nvidia/toolkit")
_DOCKERS = ("usr/bin/docker", "usr/bin/dockerd", "usr/local/bin/docker", "usr/local/bin/dockerd")
_SPEC_FOLDERS = ("etc/cdi", "run/cdi", "var/run/cdi")
_MAX_SPECS = 16


def read_containers(own: Path, env: Mapping[str, str], mounts: list[MountOptions]) -> Containers:
    return Containers(
        inside=container_kind(own, env, mounts),
        own_pids=own_pids(own),
        tools=tuple(_tools(own)),
        docker_installed=any((own / path).exists() for path in _DOCKERS),
        docker_runtime=_docker_runtime(own),
        docker_socket=_docker_socket(own),
        specifications=_specifications(own),
        char_links=_char_links(own),
        cgroup=cgroup_version(mounts),
    )


def _tools(own: Path) -> list[str]:
    places = (f"{folder}/{name}" for name in _TOOLS for folder in _TOOL_FOLDERS)
    return [f"/{place}" for place in places if (own / place).exists()]


def _docker_runtime(own: Path) -> bool:
    try:
        settings = json.loads(read_text(own / "etc/docker/daemon.json", BIG_BYTES) or "{}")
        return "nvidia" in settings.get("runtimes", {})
    except (ValueError, AttributeError, TypeError, RecursionError):
        return False


def _docker_socket(own: Path) -> str:
    for path in (own / "run/docker.sock", own / "var/run/docker.sock"):
        if path.exists():
            return "usable" if os.access(path, os.R_OK | os.W_OK) else "denied"
    return ""


def _specifications(own: Path) -> tuple[Specification, ...]:
    found: dict[str, Specification] = {}
    for folder in _SPEC_FOLDERS:
        for name in names_in(own / folder, _MAX_SPECS):
            place = own / folder / name
            if "nvidia" in name and place.suffix in (".yaml", ".yml", ".json"):
                versions = parse_specification(read_text(place, BIG_BYTES))
                found.setdefault(str(place.resolve()), Specification(f"/{folder}/{name}", versions))
    return tuple(found.values())


def parse_specification(text: str) -> tuple[str, ...]:
    """Parses the driver versions whose library a CDI file refers to."""
    found = re.findall(r"libnvidia-ml\.so\.(\d{2,4}\.\d+(?:\.\d+)?)", text)
    return tuple(sorted(set(found)))


def _char_links(own: Path) -> bool | None:
    if not (own / "dev/nvidiactl").exists():
        return None
    return any(name.startswith("195:") for name in names_in(own / "dev/char", 65536))


def cgroup_version(mounts: list[MountOptions]) -> str:
    kinds = {mount.kind for mount in mounts if mount.folder.startswith("/sys/fs/cgroup")}
    if kinds >= {"cgroup", "cgroup2"}:
        return "v1 and v2 (hybrid)"
    return "v2" if "cgroup2" in kinds else "v1" if "cgroup" in kinds else ""


_MODULES = tuple(name for vendor in VENDORS for name in vendor.modules)
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_UNSYNCHRONISED = 0x40  # STA_UNSYNC of adjtimex(2)
_STATUS_AT = 40  # offset of its status word, on 64-bit systems


def inspect(root: Path, own: Path = Path("/"), env: Mapping[str, str] = os.environ) -> MachineFacts:
    """Returns what can be seen of the machine without calling a driver."""
    mounts = read_mounts(root)
    return MachineFacts(
        kernel=read_kernel(root, own),
        cards=read_cards(root),
        libraries=find_libraries(own, env),
        nodes=access.read_nodes(own),
        user=replace(access.read_user(own, env), profiles=may_profile()),
        containers=read_containers(own, env, read_mounts(own)),
        proc=access.read_proc(mounts),
        clock=Clock(time.time(), is_synchronised()),
        masks={name: env[name] for name in VARIABLES if name in env},
        log_out=read_log_out(own),
        slurm=read_slurm(own, env),
    )


def read_slurm(own: Path, env: Mapping[str, str]) -> SlurmFacts:
    """Reads what a job of Slurm has in its environment. A /tmp of its own is a bind mount."""
    mounts = [
        line.split() for line in read_text(own / "proc/self/mountinfo", BIG_BYTES).split("\n")
    ]
    bound = any(line[4] == "/tmp" and line[3] != "/" for line in mounts if len(line) > 4)  # noqa: S108
    job, places = env.get("SLURM_JOB_ID", ""), ("etc/slurm/slurm.conf", "run/slurm/conf")
    configured = "SLURM_CONF" in env or any((own / path).exists() for path in places)
    return SlurmFacts(
        job,
        env.get("SLURMD_NODENAME", ""),
        env.get("SLURM_STEP_GPUS") or env.get("SLURM_JOB_GPUS", ""),
        configured and shutil.which("sbatch", path=env.get("PATH")) is not None,
        bool(job) and bound,
    )


# The kernel.


def read_kernel(root: Path, own: Path = Path("/")) -> Kernel:
    release = read_text(root / "proc/sys/kernel/osrelease").strip()
    version, is_open = parse_nvidia_version(read_text(root / "proc/driver/nvidia/version"))
    taint = read_text(root / "proc/sys/kernel/tainted").strip()
    return Kernel(
        release=release,
        machine=platform.machine(),
        taint=int(taint) if taint.isdecimal() else None,
        secure_boot=_secure_boot(root),
        modules=tuple(n for n in _MODULES if (root / "sys/module" / n).is_dir()),
        nvidia_version=version,
        nvidia_open=is_open,
        counters_restricted=counters_restricted(root),
        persistenced=(root / "run/nvidia-persistenced/socket").exists(),
        battery=_has_battery(root),
        wsl="microsoft" in release.lower() or (own / "dev/dxg").exists(),
        distribution=parse_distribution(read_text(own / "etc/os-release")),
        log_closed=_log_closed(root),
    )


def parse_nvidia_version(text: str) -> tuple[str | None, bool]:
    """Parses the version of the loaded module, and whether it is the open one."""
    line = text.partition("\n")[0]
    found = re.search(r"\b(\d{2,4}\.\d+(?:\.\d+)?)\b", line)
    return (found[1] if found else None), "Open Kernel Module" in line


def counters_restricted(root: Path = Path("/")) -> bool | None:
    """Whether only root may use the profiling counters; None if the driver does not say."""
    return parse_counters(read_text(root / "proc/driver/nvidia/params"))


def parse_counters(text: str) -> bool | None:
    """Whether only root may use the profiling counters; None if the driver does not say."""
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", text, re.MULTILINE)
    return None if found is None else found[1] != "0"


def may_profile(root: Path = Path("/")) -> bool:
    """Whether CAP_SYS_ADMIN or, from driver 565 on, CAP_PERFMON lets it use restricted counters."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", read_text(root / "proc/self/status"), re.MULTILINE)
    # The driver does not accept those of a user namespace.
    is_first = read_text(root / "proc/self/uid_map").split() == ["0", "0", "4294967295"]
    return is_first and found is not None and bool(int(found[1], 16) & (1 << 21 | 1 << 38))


def parse_distribution(text: str) -> tuple[str, ...]:
    """Returns ID, then ID_LIKE: closest first."""
    found = dict(re.findall(r'^(ID|ID_LIKE)="?([^"\n]*)"?$', text, re.MULTILINE))
    return tuple(f"{found.get('ID', '')} {found.get('ID_LIKE', '')}".split())


def _secure_boot(root: Path) -> bool | None:
    content = read_bytes(root / _SECURE_BOOT)
    return content[4] == 1 if len(content) == 5 else None


def _has_battery(root: Path) -> bool:
    """Whether the machine itself has a battery; those of a mouse have the scope `Device`."""
    folder = root / "sys/class/power_supply"
    return any(
        read_text(folder / name / "type").strip() == "Battery"
        and read_text(folder / name / "scope").strip() != "Device"
        for name in names_in(folder, 32)
    )


def _log_closed(root: Path) -> str | None:
    log = KernelLog(root)
    log.close()
    return log.reason


# The cards.


def read_cards(root: Path) -> tuple[PciCard, ...]:
    """Display and compute controllers of the known vendors, as the kernel lists them."""
    return tuple(
        PciCard(
            folder.name,
            vendor.name,
            driver_of(folder),
            read_text(folder / "power/runtime_status").strip(),
            read_text(folder / "power/control").strip(),
        )
        for folder, vendor in card_folders(root)
    )


# The clock.


def is_synchronised() -> bool | None:
    """Whether the kernel's clock is synchronised; None if unknown."""
    if platform.system() != "Linux" or platform.architecture()[0] != "64bit":
        return None

    answer = (ctypes.c_char * 512)()
    try:
        if ctypes.CDLL(None).adjtimex(answer) < 0:
            return None
    except (OSError, AttributeError):
        return None
    status = int.from_bytes(bytes(answer)[_STATUS_AT : _STATUS_AT + 4], "little")
    return not status & _UNSYNCHRONISED
