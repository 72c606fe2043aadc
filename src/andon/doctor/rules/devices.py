"""Checks the readers' results: which devices respond, which do not, and what a mask hides."""

from collections.abc import Iterator, Mapping, Sequence

from andon.doctor.rules.facts import MachineFacts
from andon.doctor.rules.findings import Check, CheckResult, failure, hinted, ok, warning
from andon.model.device import DeviceStatus, Fault, State
from andon.model.naming import titles
from andon.model.vendors import VENDORS, VendorRow, vendor_of, vendor_of_backend
from andon.sampling.rules.masks import NOT_A_MASK, visibility
from andon.units import counted, human_seconds, sh

SLOW_SECONDS = 2.0
_SIMULATE = "andon status --simulate 4 # to try andon without a GPU"


def judge(facts: MachineFacts) -> Iterator[CheckResult]:
    snapshot = facts.trial.snapshot
    if snapshot is None:
        yield hinted(
            failure(Check.NO_DEVICE, f"no device could be read: {facts.trial.reason}", ""),
            facts.trial.hint,
        )
        return
    yield from _summary(facts)
    for fault in () if facts.on_login_node else snapshot.faults:
        yield _fault(fault, facts)
    names = titles(facts.devices)
    for status in facts.devices:
        yield from _silent(status, names[status.device.uuid])
    yield from _checked(facts.devices, snapshot.at, names)
    yield from _fewer(facts)
    yield from _mask(facts)


def _summary(facts: MachineFacts) -> Iterator[CheckResult]:
    answering = [d for d in facts.devices if d.state is State.OK]
    asleep = [d for d in facts.devices if d.state is State.ASLEEP]
    if answering:
        yield _answer(answering, facts)
    if asleep:
        message = f"{_named(asleep, titles(facts.devices))} suspended by the system"
        message += f"; andon leaves {'it' if len(asleep) == 1 else 'them'} asleep"
        yield ok(Check.DEVICES_ASLEEP, message, count=len(asleep))
    if facts.on_login_node:
        yield ok(Check.NO_DEVICE, "no GPU here, as on every login node")
    elif not answering and not asleep:
        found = f"none of {len(facts.devices)} devices responds" if facts.devices else "none found"
        yield failure(Check.NO_DEVICE, f"no device can be read: {found}", _SIMULATE)
    if facts.trial.seconds > SLOW_SECONDS and answering:
        yield _slow(facts)


def _answer(answering: list[DeviceStatus], facts: MachineFacts) -> CheckResult:
    seconds = round(facts.trial.seconds, 2)
    models = sorted({d.device.name for d in answering if d.device.parent is None})
    verb = "responds" if len(answering) == 1 else "respond"
    count = f"{counted(len(answering), 'device')} {verb} within {seconds:g} s"
    more = f" and {counted(len(models) - 3, 'more model')}" if len(models) > 3 else ""
    message = f"{count}: {', '.join(models[:3])}{more}"
    if facts.trial.snapshot is not None and facts.trial.snapshot.simulated:
        return ok(Check.DEVICES_SIMULATED, f"SIMULATED: {message}", count=len(answering))
    return ok(Check.DEVICES_RESPOND, message, count=len(answering), first_answer_seconds=seconds)


def _slow(facts: MachineFacts) -> CheckResult:
    message = f"the first reading took {facts.trial.seconds:.1f} s: the driver is started each time"
    modes = [d.device.setup.persistence for d in facts.devices]
    persists = True in modes and False not in modes
    held = persists or facts.kernel.persistenced or facts.kernel.battery
    fix = "andon cost" if held else "sudo systemctl enable --now nvidia-persistenced"
    return warning(
        Check.SLOW_START, message, fix, first_answer_seconds=round(facts.trial.seconds, 2)
    )


def _fault(fault: Fault, facts: MachineFacts) -> CheckResult:
    """The finding about a fault; for an absent vendor only a warning if another one responds."""
    vendor = vendor_of_backend(fault.source).name
    absent = all(card.vendor != vendor for card in facts.cards)
    others = any(d.state in (State.OK, State.ASLEEP) for d in facts.devices)
    graded = warning if absent and others else failure
    message = f"{fault.source}: {fault.reason}"
    return hinted(graded(Check.READER_FAULT, message, "", source=fault.source), fault.hint)


def _silent(status: DeviceStatus, name: str) -> Iterator[CheckResult]:
    place = {"uuid": status.device.uuid, "pci": status.device.pci}
    if status.state is State.STALE:
        message = f"{name} is not responding: {status.reason or 'unknown reason'}"
        fix = f"{_dmesg(vendor_of(status.device.vendor))} -e 'blocked for more'"
        yield failure(Check.DEVICE_STALE, message, fix, **place)
    if status.state is State.LOST:
        message = f"{name} is lost: {status.reason or 'unknown reason'}"
        yield failure(Check.DEVICE_LOST, message, _dmesg(vendor_of(status.device.vendor)), **place)


def _checked(
    statuses: Sequence[DeviceStatus], at: float, names: Mapping[str, str]
) -> Iterator[CheckResult]:
    """Checks what `andon check` last found; a machine without a check has no line."""
    known = [(one, one.check) for one in statuses if one.check is not None]
    for status, check in known:
        if status.check_failed:
            name, ago = names[status.device.uuid], human_seconds(max(0.0, at - check.at))
            message = f"{name} failed its last check, {ago} ago: {check.text}"
            fix = f"andon check {sh(name.removeprefix('GPU '))}"
            yield warning(Check.CHECK_FAILED, message, fix, uuid=status.device.uuid)
    if fine := [check for status, check in known if not status.check_failed]:
        ago = human_seconds(max(0.0, at - min(one.at for one in fine)))
        message = f"{counted(len(fine), 'device')} last checked within {ago}"
        slow = sum(one.verdict == "slow" for one in fine)
        message += f", {slow} of them slow: andon checks" if slow else ""
        yield ok(Check.CHECKED, message, count=len(fine), slow=slow)


def _fewer(facts: MachineFacts) -> Iterator[CheckResult]:
    """Checks for cards that only the kernel lists; a container has fewer on purpose."""
    if facts.containers.inside or (facts.trial.snapshot and facts.trial.snapshot.simulated):
        return
    for vendor in VENDORS:
        mine = [card for card in facts.cards if card.vendor == vendor.name]
        listed = sum(card.driver in vendor.drivers for card in mine)
        owners = [d.device.vendor for d in facts.devices if d.device.parent is None]
        boards = owners.count(vendor.name)
        if 0 < boards < listed:
            message = f"{boards} of {listed} {vendor.title} cards on the PCI bus are shown"
            fix = _dmesg(vendor)
            yield warning(Check.DEVICES_MISSING, message, fix, listed=listed, shown=boards)


def _mask(facts: MachineFacts) -> Iterator[CheckResult]:
    """Checks which devices this environment makes visible to a process."""
    if not facts.devices:
        return
    seen = visibility([d.device for d in facts.devices], facts.masks)
    shown, boards = len(seen.visible), len(facts.devices)
    place = {"visible": shown, "devices": boards, "source": seen.source}
    if seen.source and not shown:
        message = f"{seen.source} hides all {counted(boards, 'device')} from programs"
        fix = f"unset {seen.source.partition('=')[0]}"
        yield warning(Check.MASK_HIDES_ALL, message, fix, **place)
    elif seen.note and (seen.source or not seen.certain or "CUDA_DEVICE_ORDER" in seen.note):
        yield warning(Check.MASK_AMBIGUOUS, seen.note, _numbers_fix(seen.note), **place)
    elif seen.source or seen.note:
        message = f"{seen.source}: programs see {shown} of {counted(boards, 'device')}"
        yield ok(Check.MASK, message if seen.source else seen.note or "", **place)
    if seen.container:
        yield ok(Check.MASK, f"{seen.container} {NOT_A_MASK}", source=seen.container)


def _dmesg(vendor: VendorRow) -> str:
    return f"sudo dmesg | grep -i {vendor.log_search or '-e gpu'}"


def _numbers_fix(note: str) -> str:
    return "export CUDA_DEVICE_ORDER=PCI_BUS_ID" if "ORDER" in note else "andon devices"


def _named(statuses: list[DeviceStatus], names: Mapping[str, str]) -> str:
    if len(statuses) == 1:
        return f"{names[statuses[0].device.uuid]} is"
    return f"{len(statuses)} devices are"
