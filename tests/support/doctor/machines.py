"""Machines as `andon doctor` finds them, built by hand; each is healthy until a case changes it."""

from msgspec.structs import replace

from andon.doctor.rules.checkup import judge
from andon.doctor.rules.facts import (
    CallingUser,
    Clock,
    Containers,
    DeviceFile,
    FileAccess,
    Folder,
    Installation,
    Kernel,
    MachineFacts,
    PciCard,
    PolicyFacts,
    SampleTrial,
    Security,
)
from andon.doctor.rules.findings import Check, CheckResult, FindingName, Grade
from andon.host.rules.nvml_library import Library
from andon.model.device import Fault, Snapshot, State
from andon.units import GIB
from tests.support.snapshots import AT, HOST, h200

VERSION = "580.159.04"
LIBRARY = Library(
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "the loader's cache",
    f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{VERSION}",
    2_000_000,
    True,
)
OWN = Installation(
    version="0.1.0",
    python="3.12.3",
    packages={"click": "8.1.7", "nvidia-ml-py": "13.580.82"},
    state=Folder("/home/alice/.local/state/andon", True, True, 200 * GIB, "ext4"),
    book_place="/tmp/andon",
    color=True,
)
STATE = "/home/alice/.local/state/andon"
FOLDER = FileAccess("folder", STATE, "alice", 1000, 0o700, "folder")
TOKEN = FileAccess("token", f"{STATE}/token", "alice", 1000)
HISTORY = FileAccess("history", f"{STATE}/history.db", "alice", 1000)
AUDIT = FileAccess("audit log", f"{STATE}/audit.jsonl", "alice", 1000)
HOUSE = FileAccess("above", "/home/alice", "alice", 1000, 0o755, "folder")
SLASH = FileAccess("above", "/", "root", 0, 0o755, "folder")
SAFE = Security(
    state=(FOLDER, TOKEN, HISTORY, AUDIT),
    above=(HOUSE, SLASH),
    protected_hardlinks=True,
    dmesg_restrict=True,
    kptr_restrict=1,
)
POLICY = PolicyFacts("/etc/andon/policy.toml")
ALICE = CallingUser("alice", 1000, ("alice", "users"), ())


def nodes(count: int = 8, **changed: object) -> tuple[DeviceFile, ...]:
    paths = ["/dev/nvidiactl", "/dev/nvidia-uvm", *(f"/dev/nvidia{n}" for n in range(count))]
    return tuple(replace(DeviceFile(path), **changed) for path in paths)


def snapshot(count: int = 8, *faults: Fault, **changed: object) -> Snapshot:
    devices = tuple(h200(index) for index in range(count))
    plain = Snapshot("node17", AT, versions={"driver": VERSION}, host=HOST, devices=devices)
    return replace(plain, faults=faults, **changed)


def server() -> MachineFacts:
    """Eight H200 on a healthy Ubuntu host with Docker."""
    cards = (
        PciCard(f"0000:{0x10 + n:02x}:00.0", "nvidia", "nvidia", "active", "on") for n in range(8)
    )
    return MachineFacts(
        policy=POLICY,
        kernel=Kernel(
            release="6.8.0-60-generic",
            machine="x86_64",
            taint=12288,
            secure_boot=False,
            modules=("nvidia",),
            nvidia_version=VERSION,
            nvidia_open=True,
            counters_restricted=True,
            persistenced=True,
            distribution=("ubuntu", "debian"),
        ),
        cards=tuple(cards),
        libraries=(LIBRARY,),
        nodes=nodes(),
        user=ALICE,
        containers=Containers(
            tools=("/usr/bin/nvidia-ctk", "/usr/bin/nvidia-container-runtime-hook"),
            own_pids=False,
            docker_installed=True,
            docker_runtime=True,
            docker_socket="denied",
            char_links=True,
            cgroup="v2",
        ),
        clock=Clock(AT, True),
        own=OWN,
        security=SAFE,
        trial=SampleTrial(snapshot(), 0.31),
    )


def no_gpu() -> MachineFacts:
    """A machine that never had one."""
    fault = Fault("nvidia", "the NVIDIA library libnvidia-ml.so.1 was not found", "none is here")
    return MachineFacts(
        policy=POLICY,
        kernel=Kernel("6.1.0-18-amd64", "x86_64", 0, distribution=("debian",)),
        user=ALICE,
        containers=Containers(cgroup="v2", own_pids=False),
        clock=Clock(AT, True),
        own=OWN,
        trial=SampleTrial(Snapshot("laptop", AT, host=HOST, faults=(fault,)), 0.2),
    )


def broken(
    facts: MachineFacts, reason: str = "it cannot be read", hint: str = "look at it"
) -> MachineFacts:
    """The same machine, with a reader that failed: nothing answers."""
    failed = Snapshot("node17", AT, host=HOST, faults=(Fault("nvidia", reason, hint),))
    return replace(facts, trial=SampleTrial(failed, 0.2))


def laptop() -> MachineFacts:
    """An NVIDIA card asleep beside Intel's."""
    cards = (
        PciCard("0000:00:02.0", "intel", "i915", "active", "auto"),
        PciCard("0000:01:00.0", "nvidia", "nvidia", "suspended", "auto"),
    )
    asleep = replace(h200(0), state=State.ASLEEP, sample=None, reason="suspended")
    return replace(
        server(),
        kernel=replace(server().kernel, battery=True, persistenced=False),
        cards=cards,
        nodes=(*nodes(1), DeviceFile("/dev/dri/renderD128", 0o660, "render", True)),
        containers=Containers(cgroup="v2", own_pids=False),
        trial=SampleTrial(snapshot(0, devices=(asleep,)), 0.2),
    )


def container() -> MachineFacts:
    """Inside Docker on the server, with two of its devices."""
    return replace(
        server(),
        nodes=nodes(2),
        containers=Containers(inside="docker", own_pids=True, cgroup="v2"),
        kernel=replace(server().kernel, persistenced=False),
        trial=SampleTrial(snapshot(2), 0.3),
    )


def wsl() -> MachineFacts:
    lies = "/usr/lib/wsl/lib/libnvidia-ml.so.1"
    return replace(
        server(),
        kernel=Kernel("5.15.167.4-microsoft-standard-WSL2", "x86_64", 0, wsl=True),
        cards=(),
        libraries=(Library(lies, "the loader's cache", lies, 9, True),),
        nodes=(),
        containers=Containers(cgroup="v2", own_pids=False),
        trial=SampleTrial(snapshot(1), 0.4),
    )


def amd() -> MachineFacts:
    """A ROCm workstation: amdgpu's card, and its device files."""
    status = h200(0)
    device = replace(status.device, vendor="amd", name="AMD Radeon RX 7900 XTX")
    return replace(
        no_gpu(),
        kernel=Kernel("6.8.0", "x86_64", 0, modules=("amdgpu",), distribution=("ubuntu",)),
        cards=(PciCard("0000:03:00.0", "amd", "amdgpu", "active", "auto"),),
        nodes=(DeviceFile("/dev/kfd", 0o660, "render", True),
               DeviceFile("/dev/dri/renderD128", 0o660, "render", True)),
        trial=SampleTrial(snapshot(0, devices=(replace(status, device=device),)), 0.2),
    )  # fmt: skip


MACHINES = {
    "server": server, "no_gpu": no_gpu, "laptop": laptop, "container": container, "wsl": wsl,
    "amd": amd,
}  # fmt: skip


def wrong(findings: list[CheckResult]) -> set[tuple[FindingName, Grade]]:
    """What is not fine."""
    bad = (Grade.FAILURE, Grade.WARNING)
    return {(f.check, f.grade) for f in findings if f.grade in bad}


def find(facts: MachineFacts, check: Check) -> CheckResult:
    """The one finding of this name."""
    (found,) = [finding for finding in judge(facts) if finding.check is check]
    return found
