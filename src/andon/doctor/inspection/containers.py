"""Gathers whether this is a container, and this machine's support for containers."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from andon.doctor.rules.facts import Containers, Specification
from andon.host.files import BIG_BYTES, names_in, read_text
from andon.host.own_container import MountOptions, container_kind, own_pids

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
    """The driver versions whose library a CDI file refers to."""
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
