"""Judges what the readers said: which devices answer, which do not, and what a mask hides."""

from collections.abc import Iterator

from andon.core.doctor.facts import MachineFacts
from andon.core.doctor.findings import Check, Finding, failure, ok, warning
from andon.core.sampling.masks import visibility
from andon.model.device import DeviceStatus, Fault, State

SLOW_SECONDS = 2.0
_SIMULATE = "andon status --simulate 4 # to look around without a GPU"
_XID = "sudo dmesg | grep -i -e xid -e nvrm"
_STUCK = "sudo dmesg | grep -i -e xid -e 'blocked for more'"


def judge(facts: MachineFacts) -> Iterator[Finding]:
    snapshot = facts.look.snapshot
    if snapshot is None:
        yield failure(
            Check.NO_DEVICE, f"no device could be asked: {facts.look.reason}", facts.look.hint
        )
        return
    yield from _summary(facts)
    for fault in snapshot.faults:
        yield _fault(fault, facts)
    for status in facts.devices:
        yield from _silent(status)
    yield from _fewer(facts)
    yield from _mask(facts)


def _summary(facts: MachineFacts) -> Iterator[Finding]:
    answering = [d for d in facts.devices if d.state is State.OK]
    asleep = [d for d in facts.devices if d.state is State.ASLEEP]
    if answering:
        yield _answer(answering, facts)
    if asleep:
        yield ok(
            Check.DEVICES_ASLEEP,
            f"{_named(asleep)} suspended by the system; andon leaves {_it(asleep)} asleep",
            count=len(asleep),
        )
    if not answering and not asleep:
        found = f"none of {len(facts.devices)} devices answers" if facts.devices else "none found"
        yield failure(Check.NO_DEVICE, f"no device can be read: {found}", _SIMULATE)
    if facts.look.seconds > SLOW_SECONDS and answering:
        yield _slow(facts)


def _answer(answering: list[DeviceStatus], facts: MachineFacts) -> Finding:
    seconds = round(facts.look.seconds, 2)
    models = sorted({d.device.name for d in answering if d.device.parent is None})
    verb = "answers" if len(answering) == 1 else "answer"
    count = f"{_many(len(answering), 'device')} {verb} within {seconds:g} s"
    words = f"{count}: {', '.join(models[:3])}"
    if facts.look.snapshot is not None and facts.look.snapshot.simulated:
        return ok(Check.DEVICES_SIMULATED, f"SIMULATED: {words}", count=len(answering))
    return ok(Check.DEVICES_RESPOND, words, count=len(answering), first_answer_seconds=seconds)


def _slow(facts: MachineFacts) -> Finding:
    words = f"the first answer took {facts.look.seconds:.1f} s: the driver starts anew each time"
    held = facts.kernel.persistenced or facts.kernel.battery
    fix = "andon cost" if held else "sudo systemctl enable --now nvidia-persistenced"
    return warning(Check.SLOW_START, words, fix, first_answer_seconds=round(facts.look.seconds, 2))


def _fault(fault: Fault, facts: MachineFacts) -> Finding:
    """A vendor that is not here and cannot be read is no news where another one answers."""
    vendor = fault.source.partition("_")[0]  # nvidia_smi reads NVIDIA's, too
    absent = all(card.vendor != vendor for card in facts.cards)
    others = any(d.state in (State.OK, State.ASLEEP) for d in facts.devices)
    say = warning if absent and others else failure
    return say(
        Check.READER_FAULT, f"{fault.source}: {fault.reason}", fault.hint, source=fault.source
    )


def _silent(status: DeviceStatus) -> Iterator[Finding]:
    name = f"GPU {status.device.index}"
    place = {"uuid": status.device.uuid, "pci": status.device.pci}
    if status.state is State.STALE:
        words = f"{name} does not answer: {status.reason or 'no reason is known'}"
        yield failure(Check.DEVICE_STALE, words, _STUCK, **place)
    if status.state is State.LOST:
        words = f"{name} is lost: {status.reason or 'no reason is known'}"
        yield failure(Check.DEVICE_LOST, words, _XID, **place)


def _fewer(facts: MachineFacts) -> Iterator[Finding]:
    """Cards that the kernel lists and no reader shows; a container is given fewer on purpose."""
    if facts.containers.inside or (facts.look.snapshot and facts.look.snapshot.simulated):
        return
    for vendor in ("nvidia", "amd"):
        listed = sum(card.vendor == vendor and card.driver in _DRIVERS for card in facts.cards)
        boards = sum(d.device.vendor == vendor and d.device.parent is None for d in facts.devices)
        if 0 < boards < listed:
            words = f"{boards} of {listed} {vendor} cards on the PCI bus are shown"
            yield warning(Check.DEVICES_MISSING, words, _XID, listed=listed, shown=boards)


_DRIVERS = ("nvidia", "amdgpu")


def _mask(facts: MachineFacts) -> Iterator[Finding]:
    """What this environment lets a process see."""
    if not facts.devices:
        return
    seen = visibility([d.device for d in facts.devices], facts.masks)
    shown, boards = len(seen.visible), len(facts.devices)
    place = {"visible": shown, "devices": boards, "source": seen.source}
    if seen.source and not shown:
        words = f"{seen.source} hides all {_many(boards, 'device')} from programs"
        yield warning(Check.MASK_HIDES_ALL, words, f"unset {_variable(seen.source)}", **place)
    elif seen.note and (seen.source or not seen.certain or "CUDA_DEVICE_ORDER" in seen.note):
        yield warning(Check.MASK_AMBIGUOUS, seen.note, _numbers_fix(seen.note), **place)
    elif seen.source or seen.note:
        words = f"{seen.source}: programs see {shown} of {_many(boards, 'device')}"
        yield ok(Check.MASK, words if seen.source else seen.note or "", **place)


def _numbers_fix(note: str) -> str:
    return "export CUDA_DEVICE_ORDER=PCI_BUS_ID" if "ORDER" in note else "andon devices"


def _variable(source: str) -> str:
    return source.partition("=")[0]


def _named(statuses: list[DeviceStatus]) -> str:
    if len(statuses) == 1:
        return f"GPU {statuses[0].device.index} is"
    return f"{len(statuses)} devices are"


def _it(statuses: list[DeviceStatus]) -> str:
    return "it" if len(statuses) == 1 else "them"


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
