"""What the doctor makes of hundreds of machines: exactly what is wrong with each, and no more."""

from collections.abc import Callable, Iterator
from functools import cache

from msgspec.structs import replace

from andon.doctor.rules.checkup import judge
from andon.doctor.rules.facts import Folder
from andon.doctor.rules.findings import Check, FindingName, Grade
from andon.units import GIB, MIB
from tests.support.doctor.case import FAIL, NOTHING, WARN, C, Case, case, kernel, own
from tests.support.doctor.hardware import device_files, drivers, libraries, sleepers, versions
from tests.support.doctor.machines import MACHINES, OWN, no_gpu, server
from tests.support.doctor.reporting import reports
from tests.support.doctor.security import books, exposures, servers, strays
from tests.support.doctor.sharing import log_outs, shared_rules
from tests.support.doctor.surroundings import containers, devices, masks, systems

# andon itself.


def itself() -> Iterator[Case]:
    mistakes = ("sampling.interval: 0 is less than 0.1", "colour: there is no such setting")
    yield case(
        "mistakes in the settings",
        own(server(), mistakes=mistakes),
        (C.SETTINGS_WRONG, FAIL),
        says="less than 0.1|no such setting|andon config check",
    )
    yield case(
        "a file of settings",
        own(server(), config="/etc/andon/andon.toml", changed=3),
        says="/etc/andon/andon.toml, 3 changed",
    )
    for free, grade in (
        (200 * GIB, None),
        (GIB, None),
        (GIB - 1, WARN),
        (50 * MIB, WARN),
        (50 * MIB - 1, FAIL),
        (0, FAIL),
    ):
        state = replace(OWN.state, free_bytes=free)
        yield case(
            f"{free} bytes free",
            own(server(), state=state),
            *([(C.STATE_FULL, grade)] if grade else []),
            says="df -h" if grade else "free",
        )
    yield case(
        "a state that cannot be written",
        own(server(), state=replace(OWN.state, writable=False)),
        (C.STATE_NOT_WRITABLE, FAIL),
        says="install -d",
    )
    for kind in ("nfs4", "cifs", "lustre", "gpfs", "beegfs", "9p", "fuse.sshfs"):
        yield case(
            f"a state on {kind}",
            own(server(), state=Folder("/home/a", kind=kind, remote=True)),
            (C.STATE_REMOTE, WARN),
            says=f"{kind}|rollback journal|XDG_STATE_HOME",
        )
    yield case("free space is not known", own(server(), state=replace(OWN.state, free_bytes=None)))
    yield case("no home", own(server(), state=Folder("")))
    yield case(
        "a state that is yet to be made",
        own(server(), state=replace(OWN.state, exists=False)),
        says="created when first needed",
    )
    for name in ("click", "nvidia-ml-py", "psutil"):
        packages = {**OWN.packages, name: None}
        yield case(
            f"without {name}",
            own(server(), packages=packages),
            (C.PACKAGE_MISSING, FAIL),
            says=f"pip install {name}",
        )
    yield case(
        "the old pynvml",
        own(server(), old_pynvml="11.5.3"),
        (C.PYNVML_SHADOWED, WARN),
        says="pip uninstall -y pynvml",
    )
    for encoding in ("utf-8", "UTF-8", "utf8", "UTF_8"):
        yield case(f"terminal {encoding}", own(server(), encoding=encoding))
    for encoding in ("ascii", "ANSI_X3.4-1968", "latin-1", "cp1252"):
        yield case(
            f"terminal {encoding}",
            own(server(), encoding=encoding),
            (C.TERMINAL_ASCII, WARN),
            says=f"{encoding}|LANG=C.UTF-8",
        )


def machines() -> Iterator[Case]:
    fine: dict[str, tuple[tuple[Check, Grade], ...]] = {
        "no_gpu": (*NOTHING, (C.NO_CARD, WARN)), "container": ((C.OWN_PID_NAMESPACE, WARN),),
    }  # fmt: skip
    for name, make in MACHINES.items():
        yield case(name, make(), *fine.get(name, ()))
    yield case("a Jetson", kernel(no_gpu(), modules=("nvgpu",)), *NOTHING)


GROUPS: tuple[Callable[[], Iterator[Case]], ...] = (
    machines, drivers, sleepers, libraries, versions, device_files, containers, systems, devices,
    masks, itself, books, strays, exposures, servers, shared_rules, log_outs,
    reports,
)  # fmt: skip
CASES = [made for group in GROUPS for made in group()]


@cache
def produced() -> set[FindingName]:
    """Every finding that some case makes."""
    return {finding.check for made in CASES for finding in judge(made.facts)}
