"""The doctor on containers, the system, the devices that answer, and masks."""

from collections.abc import Iterator
from itertools import product

from msgspec.structs import replace

from andon.doctor.rules.facts import (
    Clock,
    Folder,
    ProcVisibility,
    SampleTrial,
    SlurmFacts,
    Specification,
)
from andon.model.device import DeviceStatus, Fault, LastCheck, Setup, State
from tests.support.doctor.case import FAIL, NOTHING, WARN, C, Case, box, case, kernel, own, seen
from tests.support.doctor.machines import VERSION, amd, broken, container, no_gpu, server, snapshot
from tests.support.snapshots import AT, h200, mig_board

# Containers.


def containers() -> Iterator[Case]:
    yield case(
        "in a container with two", container(), (C.OWN_PID_NAMESPACE, WARN), says="--pid=host"
    )
    yield case("in a container with the host's pids", box(container(), own_pids=False))
    empty = replace(broken(container()), nodes=(), libraries=(), cards=())
    empty = kernel(empty, nvidia_version=None, modules=())
    for kind, fix in (
        ("docker", "--gpus all"),
        ("podman", "--gpus all"),
        ("kubernetes", "nvidia.com/gpu"),
    ):
        yield case(
            f"{kind} without a GPU",
            box(empty, inside=kind),
            *NOTHING,
            (C.CONTAINER_NO_GPU, FAIL),
            (C.NO_CARD, WARN),
            says=fix,
        )
    void = replace(empty, masks={"NVIDIA_VISIBLE_DEVICES": "void"})
    yield case(
        "given nothing",
        void,
        *NOTHING,
        (C.CONTAINER_NO_GPU, FAIL),
        (C.NO_CARD, WARN),
        says="NVIDIA_VISIBLE_DEVICES=void",
    )
    yield case(
        "no toolkit",
        box(server(), tools=(), docker_runtime=False),
        (C.TOOLKIT_MISSING, WARN),
        says="apt install nvidia-container-toolkit",
    )
    yield case(
        "no Docker, no toolkit",
        box(server(), tools=(), docker_installed=False, docker_runtime=False, docker_socket=""),
    )
    yield case(
        "an engine that is only seen by its socket, no toolkit",
        box(server(), tools=(), docker_installed=False, docker_runtime=False),
        (C.TOOLKIT_MISSING, WARN),
    )
    yield case(
        "no toolkit, and a driver that does not tell its version",
        kernel(box(server(), tools=(), docker_runtime=False), nvidia_version=None),
        (C.TOOLKIT_MISSING, WARN),
    )
    alone = box(server(), tools=("/usr/bin/nvidia-ctk",), docker_runtime=False)
    yield case(
        "a toolkit that nobody knows",
        alone,
        (C.TOOLKIT_NOT_CONFIGURED, WARN),
        says="nvidia-ctk runtime configure",
    )
    fresh = Specification("/etc/cdi/nvidia.yaml", (VERSION,))
    yield case("CDI", box(alone, specifications=(fresh,)), says="CDI /etc/cdi/nvidia.yaml")
    old = Specification("/var/run/cdi/nvidia.yaml", ("550.54.14",))
    yield case(
        "CDI of an older driver",
        box(server(), specifications=(old,)),
        (C.CDI_OUTDATED, WARN),
        says="cdi generate --output=/var/run/cdi/nvidia.yaml",
    )
    yield case(
        "no links in /dev/char",
        box(server(), char_links=False),
        (C.CHAR_LINKS_MISSING, WARN),
        says="create-dev-char-symlinks",
    )
    yield case("an open socket", box(server(), docker_socket="usable"), says="by name")
    for version in ("v1", "v2", "v1 and v2 (hybrid)"):
        yield case(f"cgroup {version}", box(server(), cgroup=version), says=f"cgroup {version}")
    yield case("no cgroups", box(server(), cgroup=""), (C.NO_CGROUPS, WARN))


# The system.


def systems() -> Iterator[Case]:
    for bit in range(20):
        bad = bit in (4, 5, 7, 14)
        yield case(
            f"taint bit {bit}",
            kernel(server(), taint=1 << bit),
            *([(C.KERNEL_TAINTED, WARN)] if bad else []),
            says="dmesg" if bad else "taint",
        )
    yield case("no taint is known", kernel(server(), taint=None))
    yield case("the log is open", server(), says="log is readable")
    closed = kernel(server(), log_closed="Operation not permitted")
    yield case(
        "the log is closed", closed, says="cannot read the kernel log|Operation not permitted"
    )
    for hidepid, let_off in product(("1", "2", "4", "invisible", "noaccess", "ptraceable"), (0, 1)):
        facts = replace(server(), proc=ProcVisibility(hidepid, None, bool(let_off)))
        yield case(
            f"hidepid {hidepid} {let_off}",
            facts,
            *([] if let_off else [(C.PROC_HIDDEN, WARN)]),
            says="" if let_off else f"hidepid={hidepid}|remount,hidepid=0",
        )
    for hidepid in ("", "0", "off"):
        yield case(f"hidepid {hidepid}", replace(server(), proc=ProcVisibility(hidepid)))
    yield case(
        "hidepid with a group",
        replace(server(), proc=ProcVisibility("2", 123)),
        (C.PROC_HIDDEN, WARN),
        says="getent group 123",
    )
    for at in (0.0, 1e9, 1.73e9, 5e9, -1.0):
        yield case(
            f"the clock says {at}",
            replace(server(), clock=Clock(at, True)),
            (C.CLOCK_WRONG, FAIL),
            says="set-ntp",
        )
    yield case(
        "the clock is loose",
        replace(server(), clock=Clock(AT, False)),
        (C.CLOCK_UNSYNCHRONISED, WARN),
    )
    yield case("the clock cannot be asked", replace(server(), clock=Clock(AT, None)))
    yield case(
        "a login node of Slurm",
        replace(no_gpu(), slurm=SlurmFacts(commands=True)),
        says="login node of Slurm|andon submit --on slurm",
    )
    in_job = SlurmFacts("42", "n1", "2", commands=True, private_tmp=True)
    yield case("in a job of Slurm", replace(server(), slurm=in_job), says="Slurm job 42 on n1")
    own_tmp = own(replace(server(), slurm=in_job), book_place="/tmp/andon")
    yield case("in a job with a /tmp of its own", own_tmp, says="a /tmp of its own")
    shared = Folder("/home/a", kind="nfs4", remote=True)
    for name, facts in (("job", server()), ("login node", no_gpu())):
        slurm = in_job if name == "job" else SlurmFacts(commands=True)
        home = own(replace(facts, slurm=slurm), state=shared)
        yield case(f"a shared home on a {name} of Slurm", home, says="nfs4|every node has")


# Devices.


def divided() -> tuple[DeviceStatus, ...]:
    """A board of the others' model, cut in two."""
    board, *parts = mig_board(7)
    return replace(board, device=replace(board.device, name="NVIDIA H200")), *parts


def devices() -> Iterator[Case]:
    for state, check in ((State.STALE, C.DEVICE_STALE), (State.LOST, C.DEVICE_LOST)):
        for bad in (1, 3, 7):
            listed = tuple(
                replace(h200(n), state=state, reason="for a reason") if n < bad else h200(n)
                for n in range(8)
            )
            yield case(
                f"{bad} {state}",
                seen(server(), devices=listed),
                (check, FAIL),
                says="GPU 0|for a reason|dmesg",
            )
        every = tuple(replace(h200(n), state=state, reason=None) for n in range(8))
        yield case(
            f"all {state}",
            seen(server(), devices=every),
            (check, FAIL),
            (C.NO_DEVICE, FAIL),
            says="none of 8 devices responds|unknown reason",
        )
    yield case(
        "two of eight were checked, and one failed",
        seen(
            server(),
            devices=tuple(
                replace(h200(n), check=LastCheck(AT - 3600, verdict, "WRONG RESULTS on SM 41"))
                if (verdict := {0: "wrong_results", 1: "slow"}.get(n))
                else h200(n)
                for n in range(8)
            ),
        ),
        (C.CHECK_FAILED, WARN),
        says="GPU 0 failed its last check, 1 h ago|SM 41|andon check 0|1 of them slow",
    )
    yield case(
        "six of eight",
        seen(server(), devices=snapshot(6).devices),
        (C.DEVICES_MISSING, WARN),
        says="6 of 8 NVIDIA cards",
    )
    yield case("two of eight in a container", box(container(), own_pids=False))
    yield case("MIG", seen(server(), devices=(*snapshot(7).devices, *divided())), says="MIG")
    yield case(
        "a slow start",
        replace(server(), trial=SampleTrial(snapshot(), 4.2)),
        (C.SLOW_START, WARN),
        says="4.2 s|andon cost",
    )
    slow = kernel(replace(server(), trial=SampleTrial(snapshot(), 4.2)), persistenced=False)
    yield case(
        "a slow start without the daemon",
        slow,
        (C.SLOW_START, WARN),
        says="systemctl enable --now nvidia-persistenced",
    )
    yield case(
        "a slow start although the mode is on",
        seen(slow, devices=with_setup(persistence=True)),
        (C.SLOW_START, WARN),
        says="4.2 s|andon cost|persistence mode keeps the driver loaded",
    )
    idle = kernel(server(), persistenced=False)
    yield case(
        "persistence mode is off",
        seen(idle, devices=with_setup(persistence=False)),
        says="persistence mode is off (8 of 8 devices)",
    )
    yield case("ECC is on", seen(server(), devices=with_setup(ecc=True)), says="ECC is on")
    yield case(
        "ECC is off",
        seen(server(), devices=with_setup(ecc=False, ecc_pending=False)),
        says="ECC is off (8 of 8 devices that support it)",
    )
    yield case(
        "ECC waits for a reboot",
        seen(server(), devices=with_setup(ecc=False, ecc_pending=True)),
        says="8 will have it on after a reboot",
    )
    made_up = seen(server(), simulated=True, devices=snapshot(4).devices)
    yield case("simulated", made_up, says="SIMULATED: 4 devices")
    refused = replace(
        server(), trial=SampleTrial(None, 0.0, "unknown backend: cuda", "one of: auto")
    )
    yield case("a sampler that refuses", refused, (C.NO_DEVICE, FAIL), says="unknown backend|auto")
    tool = Fault("nvidia_smi", "it is not there", "install it")
    yield case("nvidia-smi fails", seen(server(), faults=(tool,)), (C.READER_FAULT, FAIL))
    absent = Fault("amd", "there is no amdgpu", "install it")
    yield case("another vendor is absent", seen(server(), faults=(absent,)), (C.READER_FAULT, WARN))
    here = replace(server(), cards=(*server().cards, *amd().cards))
    yield case("another vendor is here", seen(here, faults=(absent,)), (C.READER_FAULT, FAIL))


def masks() -> Iterator[Case]:
    for variable, value in (
        ("CUDA_VISIBLE_DEVICES", ""), ("CUDA_VISIBLE_DEVICES", "-1"), ("CUDA_VISIBLE_DEVICES", "9"),
        ("CUDA_VISIBLE_DEVICES", "0,0"), ("CUDA_DEVICE_ORDER", "PCI"),
    ):  # fmt: skip
        facts = replace(server(), masks={variable: value})
        yield case(
            f"{variable}={value} hides all",
            facts,
            (C.MASK_HIDES_ALL, WARN),
            says=f"unset {variable}",
        )
    for value, shown in (("0", 1), ("2,0", 2), ("7,6,5", 3), ("0,1,2,3,4,5,6,7", 8)):
        facts = replace(server(), masks={"CUDA_VISIBLE_DEVICES": value})
        yield case(f"mask {value}", facts, says=f"programs see {shown} of 8 devices")
    facts = replace(server(), masks={"NVIDIA_VISIBLE_DEVICES": "0,1"})
    yield case("the container runtime's", facts, says="NVIDIA_VISIBLE_DEVICES=0,1 is for the")
    facts = replace(server(), masks={"CUDA_VISIBLE_DEVICES": "0,x"})
    yield case("a mask that breaks off", facts, (C.MASK_AMBIGUOUS, WARN), says="list from")
    other = replace(h200(1), device=replace(h200(1).device, name="NVIDIA L4"))
    mixed = replace(
        server(),
        cards=server().cards[:2],
        trial=SampleTrial(snapshot(0, devices=(h200(0), other)), 0.1),
    )
    yield case(
        "CUDA's numbers are its own",
        mixed,
        (C.MASK_AMBIGUOUS, WARN),
        says="export CUDA_DEVICE_ORDER=PCI_BUS_ID",
    )
    yield case("CUDA's order is set", replace(mixed, masks={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}))


def with_setup(
    persistence: bool | None = None, ecc: bool | None = None, ecc_pending: bool | None = None
) -> tuple[DeviceStatus, ...]:
    setup = Setup(persistence, ecc, ecc_pending)
    return tuple(replace(s, device=replace(s.device, setup=setup)) for s in snapshot().devices)
