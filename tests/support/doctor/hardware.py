"""The doctor on drivers, NVIDIA's library and device files."""

from collections.abc import Iterator
from itertools import product

from msgspec.structs import replace

from andon.doctor.rules.facts import (
    Containers,
    DeviceFile,
    PciCard,
    SampleTrial,
)
from andon.host.rules.nvml_library import Library
from tests.support.doctor.case import FAIL, NOTHING, WARN, C, Case, box, case, kernel, one_card
from tests.support.doctor.machines import (
    LIBRARY,
    VERSION,
    amd,
    broken,
    container,
    laptop,
    nodes,
    server,
    snapshot,
    wsl,
)

# Which driver has the card.


def drivers() -> Iterator[Case]:
    without = kernel(replace(broken(server()), nodes=()), nvidia_version=None, modules=())
    bare = replace(without, libraries=(), containers=Containers(cgroup="v2"))
    missing = (C.LIBRARY_MISSING, FAIL)
    yield case(
        "nouveau has it",
        replace(bare, cards=one_card("nouveau")),
        *NOTHING,
        (C.NOUVEAU, FAIL),
        missing,
        says="blacklist nouveau|0000:01:00.0",
    )
    yield case(
        "no driver at all",
        replace(bare, cards=one_card(None)),
        *NOTHING,
        (C.DRIVER_NOT_LOADED, FAIL),
        missing,
        says="sudo ubuntu-drivers install",
    )
    yield case(
        "installed and not loaded",
        replace(without, cards=one_card(None)),
        *NOTHING,
        (C.DRIVER_NOT_LOADED, FAIL),
        says="sudo modprobe nvidia",
    )
    yield case(
        "secure boot",
        kernel(replace(without, cards=one_card(None)), secure_boot=True),
        *NOTHING,
        (C.DRIVER_NOT_LOADED, FAIL),
        (C.SECURE_BOOT, WARN),
        says="key was rejected",
    )
    yield case(
        "reserved for virtual machines",
        replace(bare, cards=one_card("vfio-pci")),
        *NOTHING,
        missing,
        says="virtual machines",
    )
    free = (*server().cards[:7], replace(server().cards[7], driver=None))
    seven = replace(server(), cards=free, trial=SampleTrial(snapshot(7), 0.3))
    yield case("one card is not driven", seven, (C.CARD_UNBOUND, FAIL), says="0000:17:00.0")
    for names, command in {
        ("debian",): "apt install nvidia-driver", ("fedora",): "akmod-nvidia",
        ("rocky", "rhel"): "nvidia-driver-cuda", ("arch",): "pacman", ("nixos",): "lspci",
        ("opensuse", "suse"): "zypper", (): "lspci",
    }.items():  # fmt: skip
        facts = kernel(replace(bare, cards=one_card(None)), distribution=names)
        yield case(
            f"to install on {names}",
            facts,
            *NOTHING,
            (C.DRIVER_NOT_LOADED, FAIL),
            missing,
            says=command,
        )
    for vendor, driver in (("amd", "amdgpu"), ("intel", "i915")):
        facts = replace(bare, cards=(PciCard("0000:03:00.0", vendor, None),))
        yield case(
            f"no driver for {vendor}",
            facts,
            *NOTHING,
            (C.DRIVER_NOT_LOADED, WARN),
            says=f"sudo modprobe {driver}",
        )
        loaded = kernel(facts, modules=(driver,))
        yield case(f"{vendor} not driven", loaded, *NOTHING, (C.CARD_UNBOUND, FAIL))
    for driver in ("amdgpu", "radeon"):
        yield case(
            f"{driver} drives it",
            replace(amd(), cards=(PciCard("3", "amd", driver),)),
            says=f"{driver} drives 3",
        )
    for driver in ("i915", "xe"):
        facts = replace(amd(), cards=(*amd().cards, PciCard("4", "intel", driver)))
        yield case(f"{driver} drives it", facts, says=f"{driver} drives 4")


def sleepers() -> Iterator[Case]:
    yield case("a sleeping card is fine", laptop(), says="does not wake it")
    awake = replace(laptop(), cards=one_card("nvidia", power_control="on"))
    yield case(
        "a laptop whose card may not sleep",
        awake,
        (C.KEPT_AWAKE, WARN),
        says="echo auto|/0000:01:00.0/power/control",
    )
    yield case("a server's cards never sleep", server())
    for status, control in product(("active", "suspended", "suspending", ""), ("auto", "on", "")):
        cards = one_card("nvidia", power_status=status, power_control=control)
        bad = [(C.KEPT_AWAKE, WARN)] if control == "on" else []
        yield case(f"{status} {control}", replace(laptop(), cards=cards), *bad)


# The library.


def libraries() -> Iterator[Case]:
    lies = Library("/usr/local/nvidia/lib64/libnvidia-ml.so.1", "", "/x/libnvidia-ml.so.580.1.1", 9)
    for answered in (True, False):
        base = server() if answered else broken(server())
        also = () if answered else NOTHING
        grade = WARN if answered else FAIL
        yield case(
            f"off the path, answered {answered}",
            replace(base, libraries=(lies,)),
            *also,
            (C.LIBRARY_OFF_PATH, grade),
            says="/usr/local/nvidia/lib64 | sudo tee|ldconfig",
        )
        yield case(
            f"missing, answered {answered}",
            replace(base, libraries=()),
            *also,
            (C.LIBRARY_MISSING, grade),
        )
        other = (replace(LIBRARY, fits=False),)
        yield case(
            f"another processor's, answered {answered}",
            replace(base, libraries=other),
            *also,
            (C.LIBRARY_FOREIGN, grade),
            says="another processor",
        )
    empty = replace(LIBRARY, size_bytes=0)
    yield case(
        "empty",
        replace(broken(server()), libraries=(empty,)),
        *NOTHING,
        (C.LIBRARY_EMPTY, FAIL),
        says="rm /usr/lib",
    )
    stub = "/usr/local/cuda/lib64/stubs/libnvidia-ml.so.1"
    for source in ("LD_LIBRARY_PATH", "the loader's cache"):
        yield case(
            f"a stub by {source}",
            replace(broken(server()), libraries=(Library(stub, source, stub, 9, True), LIBRARY)),
            *NOTHING,
            (C.LIBRARY_STUB, FAIL),
            says="stub|ld.so.conf.d" if "c" in source else "stub",
        )
    behind = replace(LIBRARY, path="/usr/lib/i386-linux-gnu/libnvidia-ml.so.1", fits=False)
    yield case(
        "the loader passes over another processor's",
        replace(server(), libraries=(behind, LIBRARY)),
        says="x86_64-linux-gnu/libnvidia-ml.so.1 (in",
    )
    yield case(
        "found by a variable",
        replace(server(), libraries=(replace(LIBRARY, source="LD_LIBRARY_PATH"),)),
        says="LD_LIBRARY_PATH",
    )
    yield case("WSL takes Windows' library", wsl(), says="/usr/lib/wsl/lib")
    linux = replace(LIBRARY, target="/usr/lib/libnvidia-ml.so.550.1")
    yield case(
        "WSL takes another, and works",
        replace(wsl(), libraries=(linux,)),
        (C.LIBRARY_NOT_WSL, WARN),
        says="export LD_LIBRARY_PATH=/usr/lib/wsl/lib",
    )
    yield case(
        "WSL takes another",
        replace(broken(wsl()), libraries=(linux,)),
        *NOTHING,
        (C.LIBRARY_NOT_WSL, FAIL),
    )
    yield case(
        "WSL without a driver",
        replace(broken(wsl()), libraries=()),
        *NOTHING,
        (C.LIBRARY_MISSING, FAIL),
        says="in Windows",
    )


def versions() -> Iterator[Case]:
    pairs = (("580.95.05", VERSION), ("550.54", "550.54.14"), ("535.183.01", "535.183.06"))
    for old, new in pairs:
        library = replace(LIBRARY, target=f"/usr/lib/libnvidia-ml.so.{new}")
        facts = kernel(replace(broken(server()), libraries=(library,)), nvidia_version=old)
        yield case(
            f"{old} and {new}",
            facts,
            *NOTHING,
            (C.VERSION_MISMATCH, FAIL),
            says=f"{old}|{new}|sudo reboot",
        )
        inside = box(replace(facts, nodes=nodes(2)), inside="docker", own_pids=False)
        yield case(
            f"{old} and {new} in a container",
            inside,
            *NOTHING,
            (C.VERSION_MISMATCH, FAIL),
            says="rm /usr/lib",
        )
    for name in ("libnvidia-ml.so.1", "libnvidia-ml.so", "libnvidia-ml.so.1.0", "x"):
        nameless = replace(LIBRARY, target=f"/usr/lib/{name}")
        yield case(f"{name} tells no version", replace(server(), libraries=(nameless,)))
    for restricted, says in (
        (True, "for root only: use Nsight with sudo"),
        (False, "open to all users: Nsight can be used"),
        (None, "whether Nsight can profile here is not known"),
    ):
        made = kernel(server(), counters_restricted=restricted)
        yield case(f"counters {restricted}", made, says=says)
        unversioned = kernel(made, nvidia_version=None)
        yield case(
            f"counters {restricted}, a driver that hides its version", unversioned, says=says
        )
    able = replace(server(), user=replace(server().user, profiles=True))
    yield case("counters for root, and a capability", able, says="alice may use Nsight")
    boxed = box(server(), inside="docker")
    yield case("counters for root, in a container", boxed, says="--cap-add=SYS_ADMIN")


# Device files and groups.


def device_files() -> Iterator[Case]:
    both = broken(replace(server(), nodes=()))
    yield case(
        "no device files",
        both,
        *NOTHING,
        (C.NODE_MISSING, FAIL),
        (C.UVM_MISSING, WARN),
        says="/dev/nvidiactl and /dev/nvidia0 are missing|nvidia-modprobe",
    )
    yield case(
        "no device files, and it works",
        replace(server(), nodes=()),
        (C.NODE_MISSING, WARN),
        (C.UVM_MISSING, WARN),
    )
    yield case(
        "no /dev/nvidia-uvm",
        replace(server(), nodes=tuple(n for n in nodes() if "uvm" not in n.path)),
        (C.UVM_MISSING, WARN),
    )
    yield case(
        "no /dev/nvidiactl",
        replace(server(), nodes=nodes()[1:]),
        (C.NODE_MISSING, WARN),
        says="/dev/nvidiactl is missing",
    )
    yield from denied()


def denied() -> Iterator[Case]:
    for mode, group, answered in product((0o660, 0o600, 0o640), ("video", "root"), (True, False)):
        base = server() if answered else broken(server())
        facts = replace(base, nodes=nodes(usable=False, mode=mode, group=group))
        also = () if answered else NOTHING
        fix = "usermod -aG video alice" if (mode, group) == (0o660, "video") else "sudo chmod 0666"
        yield case(
            f"denied {mode:o} {group} {answered}",
            facts,
            *also,
            (C.NODE_DENIED, WARN if answered else FAIL),
            says=f"{fix}|{mode:04o}",
        )
        if group == "video":
            joined = replace(facts, user=replace(facts.user, listed_groups=("video",)))
            yield case(
                f"joined since {mode:o} {answered}",
                joined,
                *also,
                (C.GROUP_PENDING, WARN),
                says="newgrp video",
            )
    closed = replace(container(), nodes=nodes(2, usable=False, mode=0o660, group="video"))
    yield case(
        "denied in a container",
        closed,
        (C.NODE_DENIED, WARN),
        (C.OWN_PID_NAMESPACE, WARN),
        says="--group-add video",
    )
    for path in ("/dev/kfd", "/dev/dri/renderD128"):
        node = DeviceFile(path, 0o660, "render", False)
        yield case(
            f"{path} is closed",
            replace(amd(), nodes=(node,)),
            (C.NODE_DENIED, WARN),
            says=f"{path}|usermod -aG render alice",
        )
    render = DeviceFile("/dev/dri/renderD128", 0o660, "render", False)
    yield case(
        "NVIDIA's render node matters to nobody", replace(server(), nodes=(*nodes(), render))
    )
