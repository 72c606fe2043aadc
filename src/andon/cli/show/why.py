"""The answer of `andon why` as text and as JSON; pure, so that golden files can test it."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from andon.alerts.rules.lamps_from_sample import lamps_from_sample
from andon.cli.show import cells
from andon.cli.show.columns import label
from andon.cli.show.entries import NamedDevice, is_masked, lit_entries, model_name
from andon.cli.show.render import fault_lines, header, no_devices, paragraph
from andon.cli.show.text import Text, display_width, join, styled
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.conditions.state.phrases import HEALTHY
from andon.explain.evidence.departures import NOTHING_KNOWN, EndedProcesses
from andon.explain.evidence.labels import IN_SENTENCE, named
from andon.explain.evidence.reasons import Evidence, Reason
from andon.explain.why import explain_absence, explain_node, worst_first
from andon.explain.wire import WHY, Explained, ExplainedDevice, explained
from andon.model import wire
from andon.model.codec import to_json
from andon.model.device import DeviceStatus, Process, Snapshot, reading_label
from andon.model.lamp import NOT_URGENT, DeviceLamp
from andon.model.naming import title as device_title
from andon.units import fixed, human_bytes, human_rate, human_seconds, unit_of

TRY = "try: andon why --simulate 4"
UNBROKEN = "\u00a0"  # keeps a number with its unit; printed as a plain space
MARGIN = 14  # indent of the lines below a sentence, and space for their labels
NARROW = MARGIN + 20  # below it the text needs the space: there is no indent
WHOLES = {
    "sm_clock_mhz": "limits.sm_clock_mhz",
    "power_watts": "power_limit_watts",
    "memory_used_bytes": "memory_total_bytes",
    "pcie_width": "limits.pcie_width",
    "pcie_generation": "limits.pcie_generation",
}
"""Readings shown with their maximum: `SM clock 1755 of 1980 MHz`."""

SHOWN = (
    "sm_active_percent", "tensor_active_percent", "pcie_received_bytes_per_second",
    "pcie_sent_bytes_per_second", "nvlink_received_bytes_per_second",
    "nvlink_sent_bytes_per_second",
)  # fmt: skip
"""The readings listed above the reasons."""

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|°C|W|MHz|[KMGT]?i?B|s|min|h|d)\b|%|°C)")
OLD_SECONDS = 10.0
_ABOUT_WHO = ("process.", "processes.blamed", "users.")


class WhyAnswer(Struct, frozen=True):
    """The question, and every reason that was found."""

    snapshot: Snapshot
    seconds: float
    reasons: Mapping[str, tuple[Reason, ...]]  # of every device, the worst first
    chosen: str | None  # the uuid to explain in full; None where there is no device
    alone: bool  # whether only this device was requested
    absence: tuple[Reason, ...] = ()
    rulebook: Rulebook | None = None
    lit: Sequence[DeviceLamp] = ()  # the lamps


def answer(
    snapshots: Sequence[Snapshot],
    uuid: str | None = None,
    rulebook: Rulebook | None = None,
    lit: Sequence[DeviceLamp] | None = None,
    departures: EndedProcesses = NOTHING_KNOWN,
) -> WhyAnswer:
    """Explain one device, or all of them, the worst first."""
    latest, seconds = snapshots[-1], snapshots[-1].at - snapshots[0].at
    if not latest.devices:
        return WhyAnswer(latest, seconds, {}, None, False, explain_absence(snapshots))
    lit = lamps_from_sample(latest, rulebook or Rulebook()) if lit is None else lit
    found = explain_node(snapshots, rulebook, departures, lit)
    reasons = {one: found[one] for one in worst_first(found, lit)}
    chosen = uuid or next(iter(reasons))
    return WhyAnswer(latest, seconds, reasons, chosen, uuid is not None, rulebook=rulebook, lit=lit)


def render_why(found: WhyAnswer, width: int) -> list[Text]:
    """The whole screen, ending in a newline."""
    lines = [header(found.snapshot, width), Text()]
    if found.chosen is None:
        lines += _nothing_found(found, width)
    else:
        seen = lit_entries(found.snapshot, found.rulebook, found.lit)
        entry = next(e for e in seen if e.status.device.uuid == found.chosen)
        masked = is_masked(found.snapshot)
        names = {e.status.device.uuid: label(e, masked) for e in seen}
        lines += _in_full(entry, found, names, width)
        others = [e for e in seen if e is not entry]
        if others and not found.alone:
            lines += [Text(), *_in_brief(others, found, names, width)]
        if found.snapshot.faults:
            lines += [Text(), *fault_lines(found.snapshot, width)]
    return lines


def _nothing_found(found: WhyAnswer, width: int) -> list[Text]:
    lines = paragraph(no_devices(found.snapshot), width, "bold", indent=0)
    for reason in found.absence:
        lines += [Text(), *paragraph(reason.sentence, width, indent=0)]
        lines += _labelled("what to do", [reason.advice], width)
    return [*lines, Text(), *paragraph(TRY, width, "dim")]


def _in_full(
    entry: NamedDevice, found: WhyAnswer, names: Mapping[str, str], width: int
) -> list[Text]:
    device = entry.status.device
    heading = styled(device_title(names[device.uuid]), "bold") + styled(f"  {device.name}")
    lines = [cells.lamp(entry) + styled(" ") + heading]
    lines += _labelled("readings", _readings(entry.status), width)
    for number, reason in enumerate(found.reasons[device.uuid]):
        lines += [Text(), *reason_lines(reason, width, first=number == 0, at=found.snapshot.at)]
    return [line.fit(width) for line in lines]


def _readings(status: DeviceStatus) -> list[str]:
    """Returns chip activity and link traffic, if known: the reasons rarely mention them."""
    sample = status.sample if status.answered else None
    found = {name: getattr(sample, name, None) for name in SHOWN}
    return [_reading(name, value) for name, value in found.items() if value is not None]


def _reading(name: str, value: float) -> str:
    rate = unit_of(name) == "bytes_per_second"
    return f"{reading_label(name)} {human_rate(value) if rate else f'{fixed(value)} %'}"


def reason_lines(reason: Reason, width: int, first: bool, at: float) -> list[Text]:
    """The sentence, its evidence, the process, and what to do."""
    doubt = "" if reason.confidence_label == "certain" else f" ({reason.confidence_label})"
    text = _BEFORE_UNIT.sub(UNBROKEN, reason.sentence) + doubt
    lines = paragraph(text, width, "bold" if first else "", indent=0)
    lines += _labelled("evidence", _shown(reason.evidence, at), width)
    if reason.process is not None:
        lines += _labelled("process", _who(reason.process, at), width)
    elif reason.blamed:
        lines += _labelled("processes", [reason.blamed], width)
    if reason.weight > HEALTHY.weight:  # a plain fact needs no action
        lines += _labelled("what to do", [reason.advice], width, "")
    return lines


def _labelled(name: str, parts: Sequence[str], width: int, style: str = "dim") -> list[Text]:
    """A block with its label in the margin; lines break between parts if possible."""
    if not any(parts):
        return []
    if width < NARROW:
        text = _BEFORE_UNIT.sub(UNBROKEN, f"{name}: {' · '.join(parts)}")
        return paragraph(text, width, style, indent=0)
    joined = (
        " · ".join(part.replace(" ", UNBROKEN) for part in parts) if len(parts) > 1 else parts[0]
    )
    room = width - MARGIN
    rows = textwrap.wrap(joined, room, break_long_words=False, break_on_hyphens=False)
    heads = [f"  {name}", *([""] * (len(rows) - 1))]
    return [
        styled(head.ljust(MARGIN), "dim") + styled(row.replace(UNBROKEN, " "), style).fit(room)
        for head, row in zip(heads, rows, strict=True)
    ]


def _shown(evidence: Sequence[Evidence], at: float) -> list[str]:
    """The readings, with their maximum if there is one; processes have their own line."""
    by_name = {e.name: e for e in evidence if not e.name.startswith(_ABOUT_WHO)}
    wholes = {whole for part, whole in WHOLES.items() if part in by_name}
    return [
        named(one, by_name.get(WHOLES.get(name, ""))) + _age(one, at)
        for name, one in by_name.items()
        if name not in wholes and name not in IN_SENTENCE
    ]


def _age(evidence: Evidence, at: float) -> str:
    """The age of a reading that is not current."""
    old = 0.0 if evidence.at is None else at - evidence.at
    return f" ({human_seconds(old)} ago)" if old > OLD_SECONDS else ""


def _who(process: Process, at: float) -> list[str]:
    """User, program, pid, container, job, lease, and how long it has run."""
    lasted = None if process.started is None or process.started > at else at - process.started
    parts = [
        process.user,
        process.command or process.name,
        f"pid {process.pid}",
        process.container and f"container {process.container}",
        process.job,
        process.lease and f"lease {process.lease}",
        process.memory_bytes and f"holds {human_bytes(process.memory_bytes)}",
        None if lasted is None else f"for {human_seconds(lasted)}",
    ]
    return [part for part in parts if part]


def _in_brief(
    others: Sequence[NamedDevice], found: WhyAnswer, names: Mapping[str, str], width: int
) -> Iterator[Text]:
    """A line for each: its lamp, its model and its first reason."""
    widest = max(map(display_width, names.values()))
    for entry in others:
        uuid = entry.status.device.uuid
        title = cells.lamp(entry) + styled(" ") + styled(names[uuid], "bold").pad(widest)
        calm = entry.lamp is None or entry.lamp.urgency == NOT_URGENT
        model = styled(model_name(entry, brief=True)).fit(9).pad(9)
        text = _without_name(found.reasons[uuid][0].sentence, names[uuid])
        yield join([title, model, styled(text, "dim" if calm else "")], "  ").fit(width)


def _without_name(sentence: str, label: str) -> str:
    """The sentence in a row that begins with the device: `Too hot: 84 °C`."""
    name, text = device_title(label), sentence.rstrip(".")
    for start in (f"{name} is ", f"{name}: ", f"{name} "):
        if text.startswith(start):
            text = text.removeprefix(start)
            return text[:1].upper() + text[1:]
    return text


def answer_to_json(found: WhyAnswer) -> wire.Json:
    """`andon.why/1`: the requested devices, the worst first."""
    snapshot = found.snapshot
    devices = {s.device.uuid: s.device for s in snapshot.devices}
    lamps = {lamp.uuid: lamp for lamp in found.lit}
    wanted = [uuid for uuid in found.reasons if not found.alone or uuid == found.chosen]
    on_devices = tuple(
        ExplainedDevice.of(devices[uuid], found.reasons[uuid], lamps[uuid]) for uuid in wanted
    )
    return {
        "schema": WHY,
        "node": snapshot.node,
        "at": snapshot.at,
        "simulated": snapshot.simulated,
        **to_json(Explained(round(found.seconds, 3), on_devices, explained(found.absence))),
    }
