"""Which kind of container this process runs in, by its mounts and the traces that each leaves."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from andon.host.files import BIG_BYTES, read_text

_INITIAL_PIDS = "pid:[4026531836]"  # the kernel's own number for the first namespace
_KINDS = (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc"),
          ("containerd", "containerd"), ("garden", "garden"))  # fmt: skip


class MountOptions(NamedTuple):
    """One line of the mount table, with its options."""

    folder: str
    kind: str
    options: tuple[str, ...]


def read_mounts(root: Path) -> list[MountOptions]:
    """This process's mounts; those of pid 1 if another system's /proc is mounted."""
    own = ("self",) if root == Path("/") else ("1", "self")
    texts = [read_text(root / f"proc/{pid}/mounts", BIG_BYTES) for pid in own]
    text = next(filter(None, texts), "") or read_text(root / "proc/mounts", BIG_BYTES)
    return parse_mounts(text)


def parse_mounts(text: str) -> list[MountOptions]:
    rows = (line.split(" ") for line in text.splitlines())
    return [MountOptions(row[1], row[2], tuple(row[3].split(","))) for row in rows if len(row) > 3]


def container_kind(own: Path, env: Mapping[str, str], mounts: list[MountOptions]) -> str:
    """Returns what kind of container this is, by the traces each leaves; empty for none."""
    if env.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if env.get("APPTAINER_CONTAINER") or env.get("SINGULARITY_CONTAINER"):
        return "apptainer"
    if _is_the_host(own, mounts):
        return ""
    if (own / ".dockerenv").exists():
        return "docker"
    if (own / "run/.containerenv").exists():
        return "podman"
    runtime = read_text(own / "run/systemd/container").strip()
    if runtime and runtime != "wsl":
        return runtime
    groups = read_text(own / "proc/self/cgroup")
    return next((kind for mark, kind in _KINDS if f"/{mark}" in groups), "")


def _is_the_host(own: Path, mounts: list[MountOptions]) -> bool:
    """Whether this is the host, where traces left in an image mean nothing."""
    roots = [mount.kind for mount in mounts if mount.folder == "/"]
    return own_pids(own) is False and bool(roots) and "overlay" not in roots[-1]


def own_pids(own: Path) -> bool | None:
    """Whether this is a separate pid namespace; None if /proc does not say."""
    try:
        return str((own / "proc/self/ns/pid").readlink()) != _INITIAL_PIDS
    except OSError:
        return None
