"""Checks access: device files, groups, containers and their devices."""

import re
from collections.abc import Iterator

from andon.doctor.rules.facts import DeviceFile, MachineFacts
from andon.doctor.rules.findings import Check, CheckResult, failure, ok, unknown, warning
from andon.units import and_more

_NUMBERED = re.compile(r"/dev/nvidia\d+")
_MAKE = "sudo nvidia-modprobe -u -c=0"
_WIRE = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
_TOOLKIT = "sudo apt install nvidia-container-toolkit && " + _WIRE
_HOOKS = ("nvidia-container-runtime-hook", "nvidia-container-runtime")


def judge(facts: MachineFacts) -> Iterator[CheckResult]:
    yield from _missing(facts)
    denied = [node for node in facts.nodes if not node.usable and _matters(node, facts)]
    usable = [node.path for node in facts.nodes if node.usable]
    for group in sorted({node.group for node in denied}):
        yield _denied([node for node in denied if node.group == group], facts)
    if usable and not denied:
        message = f"{facts.user.name} can open {_listed(usable)}"
        yield ok(Check.NODES_USABLE, message, nodes=len(usable))


def _missing(facts: MachineFacts) -> Iterator[CheckResult]:
    """Checks for missing device files: the driver's tools create them; a container gets its own."""
    if facts.kernel.nvidia_version is None or facts.containers.inside or facts.kernel.wsl:
        return
    paths = {node.path for node in facts.nodes}
    numbered = any(_NUMBERED.fullmatch(path) for path in paths)
    missing = [] if "/dev/nvidiactl" in paths else ["/dev/nvidiactl"]
    missing += [] if numbered else ["/dev/nvidia0"]
    graded = warning if facts.answers("nvidia") else failure
    if missing:
        message = f"the driver is loaded, but {' and '.join(missing)} {_is(missing)} missing"
        yield graded(Check.NODE_MISSING, message, _MAKE)
    if "/dev/nvidia-uvm" not in paths:
        message = "/dev/nvidia-uvm is missing: CUDA cannot start without it"
        yield warning(Check.UVM_MISSING, message, _MAKE)


def _matters(node: DeviceFile, facts: MachineFacts) -> bool:
    """Whether a device file matters: andon does not use NVIDIA's render nodes."""
    if node.path.startswith("/dev/nvidia"):
        return True
    return any(card.vendor != "nvidia" for card in facts.cards)


def _denied(nodes: list[DeviceFile], facts: MachineFacts) -> CheckResult:
    user, group = facts.user, nodes[0].group
    paths = [node.path for node in nodes]
    modes = {"path": paths[0], "mode": f"{nodes[0].mode:04o}", "group": group}
    if group in user.listed_groups and group not in user.groups:
        message = f"{user.name} is in group {group}, but this session began before that"
        return warning(Check.GROUP_PENDING, message, f"newgrp {group}", **modes)
    message = f"{user.name} cannot open {_listed(paths)} ({modes['mode']}, group {group})"
    nvidia = any(path.startswith("/dev/nvidia") for path in paths)
    graded = failure if nvidia and not facts.answers("nvidia") else warning
    return graded(Check.NODE_DENIED, message, _permit(nodes, facts), **modes)


def _permit(nodes: list[DeviceFile], facts: MachineFacts) -> str:
    by_group = nodes[0].mode & 0o060 == 0o060 and nodes[0].group != "root"
    if facts.containers.inside:
        return f"docker run --group-add {nodes[0].group} ..." if by_group else "docker run -u 0 ..."
    if by_group:
        return f"sudo usermod -aG {nodes[0].group} {facts.user.name} # then log in again"
    return f"sudo chmod 0666 {' '.join(node.path for node in nodes[:4])}"


def _listed(paths: list[str]) -> str:
    return ", ".join(paths[:2]) + and_more(len(paths) - 2)


def _is(things: list[str]) -> str:
    return "is" if len(things) == 1 else "are"


# Containers.


def judge_containers(facts: MachineFacts) -> Iterator[CheckResult]:
    if facts.containers.inside:
        yield from _inside(facts)
    else:
        yield ok(Check.NO_CONTAINER, "this is not a container")
        if facts.kernel.nvidia_version is not None or facts.answers("nvidia"):
            yield from _host(facts)
    yield from _docker(facts)
    if facts.containers.cgroup:
        yield ok(
            Check.CGROUPS, f"cgroup {facts.containers.cgroup}", version=facts.containers.cgroup
        )
    else:
        message = "no cgroups: containers, jobs and units cannot be identified"
        fix = "mount | grep cgroup # in a container: -v /sys/fs/cgroup:/sys/fs/cgroup:ro"
        yield warning(Check.NO_CGROUPS, message, fix)


def _inside(facts: MachineFacts) -> Iterator[CheckResult]:
    kind = facts.containers.inside
    yield ok(Check.IN_CONTAINER, f"this is a container ({kind})", kind=kind)
    if facts.containers.docker_installed and facts.answers("nvidia"):
        message = "whether Docker gives its containers GPUs depends on where its engine runs"
        yield unknown(
            Check.TOOLKIT_MISSING, f"{message}: try docker run --gpus all IMAGE nvidia-smi"
        )
    given = any(node.path.startswith("/dev/nvidia") for node in facts.nodes)
    if given or facts.anything_answers:
        return
    visible = facts.masks.get("NVIDIA_VISIBLE_DEVICES")
    message = "the container has no GPU: it has no /dev/nvidia*"
    if visible is not None:
        message += f" (NVIDIA_VISIBLE_DEVICES={visible[:60]})"
    fix = "docker run --gpus all ..."
    if kind == "kubernetes":
        fix = "kubectl explain pod.spec.containers.resources.limits # nvidia.com/gpu: 1"
    yield failure(Check.CONTAINER_NO_GPU, message, fix, kind=kind)


def _host(facts: MachineFacts) -> Iterator[CheckResult]:
    """Checks what a container engine on this host needs to pass GPUs to containers."""
    box = facts.containers
    names = {path.rpartition("/")[2] for path in box.tools}
    wired = bool(names & {_HOOKS[0]}) or box.docker_runtime or bool(box.specifications)
    if not names and (box.docker_installed or box.docker_socket):
        message = "Docker is installed without NVIDIA's container toolkit: --gpus will fail"
        yield warning(Check.TOOLKIT_MISSING, message, _TOOLKIT)
    elif names and not wired:
        message = (
            f"{sorted(names)[0]} is installed, but no container engine is configured to use it"
        )
        yield warning(Check.TOOLKIT_NOT_CONFIGURED, message, _WIRE)
    elif wired:
        yield ok(Check.TOOLKIT_READY, f"containers can use GPUs ({_ways(facts)})")
    yield from _specifications(facts)
    if names and box.char_links is False:
        yield warning(
            Check.CHAR_LINKS_MISSING,
            "/dev/char lacks NVIDIA's nodes: containers lose GPUs on `systemctl daemon-reload`",
            "sudo nvidia-ctk system create-dev-char-symlinks --create-all",
        )


def _ways(facts: MachineFacts) -> str:
    box = facts.containers
    names = {path.rpartition("/")[2] for path in box.tools}
    ways = ["--gpus"] if _HOOKS[0] in names else []
    ways += ["--runtime=nvidia"] if box.docker_runtime else []
    ways += [f"CDI {spec.path}" for spec in box.specifications[:1]]
    return ", ".join(ways)


def _specifications(facts: MachineFacts) -> Iterator[CheckResult]:
    running = facts.kernel.nvidia_version
    for spec in facts.containers.specifications:
        if spec.versions and running is not None and running not in spec.versions:
            message = f"{spec.path} is for driver {spec.versions[0]}, but {running} is running"
            fix = f"sudo nvidia-ctk cdi generate --output={spec.path}"
            yield warning(Check.CDI_OUTDATED, message, fix, path=spec.path)


def _docker(facts: MachineFacts) -> Iterator[CheckResult]:
    socket = facts.containers.docker_socket
    if socket == "usable":
        yield ok(Check.DOCKER_READABLE, "Docker's socket is readable: containers are shown by name")
    elif socket:
        message = f"{facts.user.name} cannot read Docker's socket: containers are shown by id"
        yield ok(Check.DOCKER_UNREADABLE, message)
