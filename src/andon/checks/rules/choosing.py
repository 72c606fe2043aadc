"""Which cards may be checked, and why not the others."""

from collections.abc import Collection, Sequence

from andon.model.device import DeviceStatus, ProcessKind, State
from andon.units import counted

MPS = ("nvidia-cuda-mps-server", "nvidia-cuda-mps-control")
LOADED, SIMULATED = "nvidia", "sim"


def refusal(status: DeviceStatus, divided: bool, named: bool, even_if_used: bool) -> str | None:
    """Returns why a card is not checked; None if it may be. `divided`: it has MIG instances."""
    if not status.visible:
        return "hidden by this process's mask"
    if status.state is State.ASLEEP:
        return None if named else "asleep: a check would wake it; name it with -d"
    if status.state is not State.OK:
        return f"{status.state.text}: {status.reason or 'it does not answer'}"
    if status.device.vendor != LOADED:
        return None  # its identity, link and ECC are shown; the load is for NVIDIA's alone
    if divided:
        return "divided into MIG instances: each is checked as itself"
    if any(process.name in MPS for process in status.processes):
        return "MPS shares it between programs: what is measured would not be its own"
    users = [one for one in status.processes if one.kind is ProcessKind.COMPUTE]
    if users and not even_if_used:
        who = users[0].user or f"process {users[0].pid}"
        return f"in use by {who}: --even-if-used checks it all the same"
    return None


def divided_boards(statuses: Sequence[DeviceStatus]) -> set[str]:
    """Returns the boards whose instances are devices of their own."""
    return {one.device.parent for one in statuses if one.device.parent is not None}


def by_itself(status: DeviceStatus) -> str | None:
    """Returns what is known of a card without a load test; None if it has one."""
    if status.device.vendor == LOADED:
        return None
    if status.device.vendor == SIMULATED:
        return "simulated: there is no card to measure"
    setup, sample = status.device.setup, status.sample
    ecc = {None: "ECC not known", True: "ECC on", False: "ECC off"}[setup.ecc]
    errors = None if sample is None else sample.ecc_uncorrected
    known = "errors not known" if errors is None else counted(errors, "uncorrected error")
    return f"a load for {status.device.vendor} is not built yet; {_link(status)}, {ecc}, {known}"


def _link(status: DeviceStatus) -> str:
    sample, limits = status.sample, status.device.limits
    if sample is None or sample.pcie_generation is None or sample.pcie_width is None:
        return "link not known"
    now = f"{sample.pcie_generation}×{sample.pcie_width}"
    best = f"{limits.link_generation}×{limits.link_width}"
    return f"link {now}" if best == now or limits.link_width is None else f"link {now} of {best}"


def slurm_numbers(text: str) -> Collection[str]:
    """Returns the numbers of a job's cards: `0,2-3` is 0, 2 and 3."""
    found = set[str]()
    for piece in text.split(","):
        first, _, last = piece.strip().partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            found |= {str(one) for one in range(int(first), min(int(last or first), 1023) + 1)}
    return found
