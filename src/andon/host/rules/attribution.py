"""Finds the container, pod, Slurm step and systemd unit of a process from its cgroups.

The text is that of /proc/<pid>/cgroup: one line per hierarchy in version 1, a single line in
version 2, both in hybrid mode. Hierarchies may disagree (Slurm may appear only in `freezer`), so
every line is read, and the most complete answer is used. Of nested containers the innermost counts.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from andon.units import printable

UNKNOWN = "container"  # the runtime of a container whose path does not say
LONGEST_NAME = 255  # the kernel's limit for a cgroup; users may name those below their own
SHORT_ID = 12  # how docker, podman and crictl print an id


class Container(Struct, frozen=True):
    """A container by its runtime's id: 64 hex digits, or a name (LXC, nspawn)."""

    runtime: str
    id: str

    @property
    def short(self) -> str:
        return self.id[:SHORT_ID] if re.fullmatch(_HEX, self.id) else self.id


class Pod(Struct, frozen=True):
    """A Kubernetes pod; its name is not in the path."""

    uid: str
    qos: str = "guaranteed"


class SlurmStep(Struct, frozen=True):
    """A Slurm job, with its step and task where known."""

    job: str
    step: str | None = None
    task: str | None = None

    def __str__(self) -> str:
        return self.job if self.step is None else f"{self.job}.{self.step}"


class ProcessMembership(Struct, frozen=True):
    """Everything that a process belongs to; a container inside a Slurm job has both."""

    container: Container | None = None
    pod: Pod | None = None
    slurm: SlurmStep | None = None
    unit: str | None = None  # a systemd unit that is neither a container nor a session
    session: str | None = None  # a login, or the terminal it was started in
    ray: str | None = None  # a job of Ray, and the task or actor of a worker: `02000000.embed`

    @property
    def job(self) -> str | None:
        """`slurm:42.0`, else `ray:02000000.embed`, else `unit:jupyter.service`, else `session:3`:
        what can stop a process."""
        if self.slurm is not None:
            return f"slurm:{self.slurm}"
        if self.ray is not None:
            return f"ray:{self.ray}"
        if self.unit is not None:
            return f"unit:{self.unit}"
        return None if self.session is None else f"session:{self.session}"


class RuntimeNames(Struct, frozen=True):
    """The names that a container's runtime gives it."""

    name: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None  # within its pod


def describe(belonging: ProcessMembership, names: RuntimeNames | None = None) -> str | None:
    """`docker:trainer`, or `docker:3f2a9c1b04de`; `k8s:ml/trainer-0/main`, or by uid and id."""
    container, pod, known = belonging.container, belonging.pod, names or RuntimeNames()
    if pod is not None:
        where = f"{known.namespace or 'default'}/{known.pod}" if known.pod else pod.uid
        inside = known.container or (container.short if container else None)
        return f"k8s:{where}/{inside}" if inside else f"k8s:{where}"
    if container is None:
        return None
    return f"{container.runtime}:{known.name or container.short}"


def is_session(job: str | None) -> bool:
    """Whether it is only a login or a terminal session, and not a job."""
    return job is not None and job.startswith("session:")


@lru_cache(maxsize=512)
def belongs(cgroup_text: str) -> ProcessMembership:
    """Returns the membership of a process with these cgroups; empty if nothing is
    known. Processes of one
    service or container have the same."""
    found = ProcessMembership()
    for path in _paths(cgroup_text):
        found = _merged(found, _from_path(path))
    return found


def slurm_from_environment(variables: Mapping[str, str]) -> SlurmStep | None:
    """Returns the job from slurmd's variables, for nodes where Slurm does not use cgroups.

    Only processes started by slurmd have SLURMD_NODENAME: a `salloc` shell on a login node has the
    job's id too, but does not run in it.
    """
    job, step = variables.get("SLURM_JOB_ID", ""), variables.get("SLURM_STEP_ID")
    if not job.isdecimal() or "SLURMD_NODENAME" not in variables:
        return None
    if step is None:  # a batch script has no step id
        return SlurmStep(job, "batch")
    return SlurmStep(job, _SLURM_STEPS.get(step, step) if step.isdecimal() else None)


def ray_job(title: str, variables: Mapping[str, str]) -> str | None:
    """Returns the job and task of a Ray worker by its title: `ray::embed`, `ray::Model.predict`. A
    worker that was started before its job has no job id; a job's command has the id under which it
    was submitted."""
    number = variables.get(RAY_JOB, _NO_RAY_JOB)
    known = number if re.fullmatch(_RAY_NUMBER, number) and number != _NO_RAY_JOB else ""
    if title.startswith(RAY_TITLE):
        does = title.removeprefix(RAY_TITLE)
        return printable(f"{known}.{does}" if known else does)[:LONGEST_NAME] or None
    found = re.search(_SUBMISSION, variables.get(RAY_CONFIG, ""))
    return None if found is None else printable(found[1])[:LONGEST_NAME]


# Patterns are compiled when they are used: most machines need few of them.

RAY_TITLE, RAY_JOB, RAY_CONFIG = "ray::", "RAY_JOB_ID", "RAY_JOB_CONFIG_JSON_ENV_VAR"
_NO_RAY_JOB = "ffffffff"
_RAY_NUMBER = r"[0-9a-f]{8}"
_SUBMISSION = r'"job_submission_id": ?"([^"\\]+)"'
_HEX = r"[0-9a-f]{64}"
_RUNTIMES = {
    "docker": "docker",
    "cri-containerd": "containerd",
    "containerd": "containerd",
    "nerdctl": "nerdctl",
    "crio": "cri-o",
    "libpod": "podman",
    "libpod-payload": "podman",
}
_PARENTS = {
    "docker": "docker",
    "libpod_parent": "podman",
    "ecs": "ecs",
    "default": "containerd",  # containerd's namespaces
    "k8s.io": "containerd",
    "moby": "docker",
}
_SCOPED_ID = rf"(?:(?P<prefix>{'|'.join(_RUNTIMES)})-)?(?P<id>{_HEX})(?:\.scope)?"
_ECS_ID = r"[0-9a-f]{32}-[0-9]+"
_POD = (
    r"(?:.*-)?pod(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
    r"(?:\.slice)?"
)
_COLONS = r"(?P<slice>.+\.slice):(?P<prefix>[a-z-]+):(?P<id>[0-9a-f]+)"
_LAUNCHED = r"(?P<runtime>apptainer|singularity)-(?P<id>\d+)\.scope"
_MACHINE = r"machine-(?P<name>.+)\.scope|systemd-nspawn@(?P<instance>.+)\.service"
_LXC = r"lxc\.payload\.(?P<name>.+)"
_VIRTUAL = r"qemu-\d+-(?P<name>.+)"
_SLURM_ROOT = r"slurm|slurm_.+|(?:.+_)?slurmstepd\.scope"
_SLURM_PART = r"(?P<part>job(?=_[0-9]+$)|step|task)_(?P<value>[\w+]+)"
_SLURM_STEPS = {  # step ids reserved by Slurm, now and before 20.11
    "4294967290": "interactive",
    "4294967291": "batch",
    "4294967292": "extern",
    "4294967294": "batch",
    "4294967295": "extern",
}
_UNIT = r"[^/]+\.(?:service|scope)"
_SESSION = r"session-(?P<id>.+)\.scope"
_TERMINAL = r"(?P<id>(?:vte|ptyxis|tmux)-spawn-.+)\.scope"
_MANAGERS = (  # units that start jobs and are not jobs themselves
    r"init\.scope|user@\d+\.service|(?:.+_)?slurmstepd\.scope|slurmd\.service|.*-?conmon-.*\.scope"
    r"|(?:docker|containerd|crio|cri-docker|podman|kubelet|k3s|k3s-agent|rke2-server|rke2-agent"
    r"|lxc|lxd|incus)\.service|snap\.(?:docker|lxd)\..*\.service"
)
_ESCAPE = r"\\x([0-9a-f]{2})"
_DELETED = " (deleted)"


def _paths(text: str) -> list[str]:
    """Returns the path of each hierarchy, systemd's first: the others may stop at a slice."""
    rows = [line.strip().split(":", 2) for line in text.splitlines()]
    known = [row for row in rows if len(row) == 3 and row[2].startswith("/")]
    known.sort(key=lambda row: row[1] not in ("name=systemd", ""))
    return list(dict.fromkeys(row[2].removesuffix(_DELETED) for row in known))


def _from_path(path: str) -> ProcessMembership:
    segments = list(_segments(path))
    unit, session = _systemd(segments)
    return ProcessMembership(
        container=_container(segments),
        pod=_pod(segments),
        slurm=_slurm(segments),
        unit=unit,
        session=session,
    )


def _segments(path: str) -> Iterable[str]:
    """Returns the names in the path; containerd joins two of them as `a.slice:runtime:id`."""
    for name in path.split("/"):
        if len(name) > LONGEST_NAME:
            continue
        if merged := re.fullmatch(_COLONS, name):
            yield merged["slice"]
            yield f"{merged['prefix']}-{merged['id']}.scope"
        elif name not in ("", ".", ".."):
            yield name


def _container(segments: list[str]) -> Container | None:
    """Returns the innermost container; a process of LXC's monitor or of conmon is outside."""
    for place in reversed(range(len(segments))):
        if found := _one_container(segments, place):
            return found
    return None


def _one_container(segments: list[str], place: int) -> Container | None:
    name, above = segments[place], segments[place - 1] if place else ""
    if scoped := re.fullmatch(_SCOPED_ID, name):
        runtime = _RUNTIMES.get(scoped["prefix"] or "") or _by_parents(segments[:place])
        return Container(runtime, scoped["id"])
    if above == "ecs" and re.fullmatch(_ECS_ID, name):
        return Container("ecs", name)
    if launched := re.fullmatch(_LAUNCHED, name):
        return Container(launched["runtime"], launched["id"])
    if machine := re.fullmatch(_MACHINE, name):
        return _machine(unescape(machine["name"] or machine["instance"]))
    if above in ("lxc", "lxc.payload"):
        return Container("lxc", printable(name))
    boxed = re.fullmatch(_LXC, name)
    return Container("lxc", printable(boxed["name"])) if boxed else None


def _by_parents(path: list[str]) -> str:
    """The runtime of a bare id from a folder above: /docker/<id>, /ecs/<cluster>/<task>/<id>."""
    for name in reversed(path):
        if name in _PARENTS:
            return _PARENTS[name]
        if re.fullmatch(_SCOPED_ID, name):
            break  # above is the container that this one runs in
    return UNKNOWN


def _machine(name: str) -> Container:
    """Returns a machine of systemd-machined; libvirt's names begin with a driver and a number."""
    if virtual := re.fullmatch(_VIRTUAL, name):
        return Container("qemu", virtual["name"])
    return Container("nspawn", name)


def _pod(segments: list[str]) -> Pod | None:
    for name in reversed(segments):
        if pod := re.fullmatch(_POD, name):
            above = "/".join(segments)
            qos = next((q for q in ("burstable", "besteffort") if q in above), "guaranteed")
            return Pod(pod["uid"].replace("_", "-"), qos)
    return None


def _slurm(segments: list[str]) -> SlurmStep | None:
    inside = False
    parts: dict[str, str] = {}
    for name in segments:
        inside = inside or re.fullmatch(_SLURM_ROOT, name) is not None
        part = re.fullmatch(_SLURM_PART, name) if inside else None
        if part and (part["part"] == "job" or "job" in parts):
            parts[part["part"]] = part["value"]
    return SlurmStep(parts["job"], parts.get("step"), parts.get("task")) if "job" in parts else None


def _systemd(segments: list[str]) -> tuple[str | None, str | None]:
    """Returns unit and session: the innermost that is not a manager; folders below belong to it."""
    for name in reversed(segments):
        if session := re.fullmatch(_SESSION, name) or re.fullmatch(_TERMINAL, name):
            return None, unescape(session["id"])
        if re.fullmatch(_UNIT, name) and not _is_container_or_manager(name):
            return unescape(name), None
    return None, None


def _is_container_or_manager(name: str) -> bool:
    """Whether a unit is a container, or manages containers or users."""
    forms = (_MANAGERS, _SCOPED_ID, _LAUNCHED, _MACHINE)
    return any(re.fullmatch(form, name) for form in forms)


def unescape(name: str) -> str:
    r"""A unit's readable name: systemd writes `my-box` as `my\x2dbox`."""
    octets = re.sub(_ESCAPE, lambda m: chr(int(m[1], 16)), name)
    try:
        return printable(octets.encode("latin-1").decode())
    except (UnicodeEncodeError, UnicodeDecodeError):
        return printable(octets)


def _merged(one: ProcessMembership, other: ProcessMembership) -> ProcessMembership:
    """Combines both; of two Slurm steps the more complete one counts."""
    slurm = max((one.slurm, other.slurm), key=_known_parts)
    unit, session = one.unit, one.session
    if unit is None and session is None:
        unit, session = other.unit, other.session
    return ProcessMembership(
        container=one.container or other.container,
        pod=one.pod or other.pod,
        slurm=slurm,
        unit=unit,
        session=session,
    )


def _known_parts(step: SlurmStep | None) -> int:
    return 0 if step is None else 1 + (step.step is not None) + (step.task is not None)
