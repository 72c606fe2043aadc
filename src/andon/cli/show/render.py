"""A snapshot as the text of `andon status`; pure, so that golden files can test it."""

import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from andon.cli.show import cells
from andon.cli.show.columns import (
    device_columns,
    device_row,
    explained_fields,
)
from andon.cli.show.entries import NO_VERDICTS, NamedDevice, is_masked, lit_entries, unreal
from andon.cli.show.table import draw
from andon.cli.show.text import MEDIUM, WIDE, Text, join, percent, styled
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.blame import listed_users
from andon.model.device import (
    DeviceStatus,
    Host,
    Snapshot,
    State,
    reading_label,
    readings_text,
)
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.naming import range_of
from andon.model.verdict import DeviceVerdict
from andon.sampling.rules.masks import NOT_A_MASK
from andon.units import fixed, human_rate, human_seconds

K = TypeVar("K")
TRY = "try: andon status --simulate 4"
NAME_WIDTH = 8  # this much of the node's name is always shown
MOST_TROUBLES = 5  # kinds of them, of which each has a line
TROUBLED = {Lamp.RED: "red", Lamp.AMBER: "yellow"}
_STATE_STYLES = {State.LOST: "red", State.STALE: "yellow", State.ASLEEP: "dim", State.OK: "dim",
                 State.UNKNOWN: "dim"}  # fmt: skip


class Mask(Struct, frozen=True):
    """The variables that hide devices from this process, how many devices were left out, and the
    variables that only the container runtime reads."""

    source: str | None = None
    note: str | None = None
    left_out: int = 0
    container: str | None = None


UNMASKED = Mask()


def render_status(
    snapshot: Snapshot,
    width: int,
    now: float,
    verbose: bool = False,
    mask: Mask = UNMASKED,
    rulebook: Rulebook | None = None,
    lit: Sequence[DeviceLamp] | None = None,
    verdicts: Mapping[str, DeviceVerdict] = NO_VERDICTS,
) -> list[Text]:
    """The whole screen, ending in a newline."""
    seen = lit_entries(snapshot, rulebook, lit, verdicts)
    lines = [header(snapshot, width)]
    if seen:
        lines += device_lines(snapshot, seen, width, now)
        lines += [Text(), *flow([*node_row(snapshot, width), mean_line(seen)], width)]
        lines += _advice(snapshot, seen, width)
        lines += _footnotes(snapshot, seen, width, verbose, mask)
    else:
        lines += [Text(), *paragraph(no_device(snapshot, mask), width, indent=0), Text()]
        lines += flow(node_row(snapshot, width), width)
        lines += [Text(), styled("try: andon status" if mask.left_out else TRY, "dim")]
    return lines


def header(snapshot: Snapshot, width: int) -> Text:
    """Node and driver on the left; on the right the time, and the mark of simulated devices."""
    driver = snapshot.versions.get("driver")
    left = join(
        [styled(snapshot.node, "bold")] + ([styled(f"driver {driver}")] if driver else []), " · "
    )
    right = styled(local_time(snapshot.at), "dim")
    mark = unreal(snapshot)
    if mark:
        right = styled(f" {mark} ", "bold reverse") + styled("  ") + right
    if right.width + NAME_WIDTH + 2 > width:  # a cut-off time is useless
        right = styled(f" {mark} ", "bold reverse") if mark else Text()
    left = left.fit(max(NAME_WIDTH, width - right.width - 2))
    return (left + styled(" " * (width - left.width - right.width)) + right).fit(width)


def local_time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(at)).rstrip()


def device_lines(snapshot: Snapshot, seen: list[NamedDevice], width: int, now: float) -> list[Text]:
    columns = device_columns(seen, width, is_masked(snapshot), once=width < WIDE)
    rows = [device_row(entry, state_message(entry.status, now)) for entry in seen]
    return draw(columns, rows, width)


def state_message(status: DeviceStatus, now: float) -> Text | None:
    """Why there are no values: old ones are never shown as current."""
    if status.answered:
        return None
    style = _STATE_STYLES[status.state]
    if status.state is State.OK:
        return styled(status.reason or "no reading yet", style)
    lasted = now - status.since
    word = status.state.text
    if status.state is not State.STALE and lasted >= 1:  # the reason of a stale one has it
        word += f" for {human_seconds(lasted)}"
    reason = f" · {status.reason}" if status.reason else ""
    users = f" · last used by {listed_users(status.last_users)}" if status.last_users else ""
    if status.state is State.UNKNOWN and status.sample is not None:  # its hub has the last ones
        reason, users = f" · last {readings_text(status.sample)}{users}{reason}", ""
    return styled(word, style if style == "dim" else f"bold {style}") + styled(
        reason + users, style
    )


def node_row(snapshot: Snapshot, width: int) -> list[Text]:
    """The node's own values; on a wide terminal its traffic too, where it is known."""
    host = snapshot.host
    memory = f"{cells.gib(host.memory_used_bytes)}/{cells.gib(host.memory_total_bytes)} GiB"
    load = "–" if host.load_1m is None else fixed(host.load_1m, 1)
    return [
        styled("CPU ", "dim") + percent(host.cpu_percent),
        styled("memory ", "dim") + styled(memory),
        styled("load ", "dim") + styled(load),
        *(_traffic(host) if width >= WIDE else ()),
    ]


def _traffic(host: Host) -> Iterator[Text]:
    pairs = {
        "disk": (host.disk_read_bytes_per_second, host.disk_written_bytes_per_second),
        "network": (host.network_received_bytes_per_second, host.network_sent_bytes_per_second),
    }
    verbs = {"disk": ("read", "written"), "network": ("received", "sent")}
    for name, pair in pairs.items():
        parts = [
            f"{human_rate(rate)} {word}"
            for rate, word in zip(pair, verbs[name], strict=True)
            if rate is not None
        ]
        if parts:
            yield styled(f"{name} ", "dim") + styled(", ".join(parts))


def mean_line(seen: list[NamedDevice]) -> Text:
    """Returns the mean and how many GPUs it covers: one that does not respond is not idle."""
    mean = mean_utilization(entry.status for entry in seen)
    boards = sum(not entry.instance for entry in seen)
    known = len({_board(entry.status) for entry in seen if _shows_use(entry.status)})
    if mean is None:
        return styled("mean utilisation ", "dim") + percent(mean)
    part = "" if known == boards else f"/{boards}"
    counted = f"{known}{part} GPU{'s' * (boards != 1)}"
    return styled(f"mean utilisation of {counted}: ", "dim") + percent(mean)


def mean_utilization(statuses: Iterable[DeviceStatus]) -> float | None:
    """The mean over the boards that answered; None if none did.

    A board counts once: by its own reading, else by the mean of its instances.
    """
    boards: dict[str, float] = {}
    instances: dict[str, list[float]] = {}
    for status in statuses:
        busy = status.sample.utilization_percent if status.answered and status.sample else None
        if busy is None:
            continue
        if status.device.parent is None:
            boards[status.device.uuid] = busy
        else:
            instances.setdefault(status.device.parent, []).append(busy)
    means = {parent: sum(busy) / len(busy) for parent, busy in instances.items()} | boards
    return sum(means.values()) / len(means) if means else None


def _board(status: DeviceStatus) -> str:
    return status.device.parent or status.device.uuid


def _shows_use(status: DeviceStatus) -> bool:
    sample = status.sample if status.answered else None
    return sample is not None and sample.utilization_percent is not None


def no_device(snapshot: Snapshot, mask: Mask = UNMASKED) -> str:
    """One paragraph: that no GPU can be read, why, and what to do."""
    if mask.left_out:
        hidden = f"{mask.source or 'its mask'} hides all {mask.left_out} GPUs of this node"
        return f"No GPU is visible to this process: {hidden}."
    sentences = [no_devices(snapshot)]
    for fault in snapshot.faults:
        sentences += [_sentence(f"{fault.source}: {fault.reason}"), _sentence(_capital(fault.hint))]
    sentences.append(_sentence(_capital(mask.note or "")))
    return " ".join(filter(None, sentences))


def no_devices(snapshot: Snapshot) -> str:
    """Returns the sentence that there is no GPU, or that possible GPUs cannot be read."""
    from andon.explain.conditions.node.drivers import has_none  # most nodes have one

    return f"No GPU {'found' if has_none(snapshot) else 'can be read'} on this node."


def _sentence(text: str) -> str:
    text = text.strip()
    return f"{text}." if text and text[-1] not in ".!?" else text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _advice(snapshot: Snapshot, seen: list[NamedDevice], width: int) -> list[Text]:
    """One line per problem, with what to do; not cut, because a cut command is useless."""
    lines: list[Text] = []
    for hint, labels in _grouped((e.status.hint, e.label) for e in seen).items():
        if hint:
            lines += paragraph(f"GPU {range_of(labels)}: {hint}", width, "yellow")
    return [*lines, *_troubles(seen, width), *fault_lines(snapshot, width)]


def _troubles(seen: list[NamedDevice], width: int) -> list[Text]:
    """Returns a line per kind of problem of devices that answer, the worst first, at most a few:
    below the table, because its rows may have scrolled away."""
    lit = [(e, e.lamp) for e in seen if e.lamp and e.lamp.lamp in TROUBLED and not e.status.hint]
    worst: dict[tuple[Lamp, str], tuple[NamedDevice, DeviceLamp]] = {}
    for entry, lamp in sorted(lit, key=lambda one: one[1].urgency, reverse=True):
        worst.setdefault((lamp.lamp, lamp.status), (entry, lamp))
    named = _grouped(((lamp.lamp, lamp.status), entry.label) for entry, lamp in lit)
    lines: list[Text] = []
    for kind, (entry, lamp) in list(worst.items())[:MOST_TROUBLES]:
        alone = lamp.reason if len(named[kind]) == 1 else None
        text = alone or f"GPU {range_of(named[kind])}: {lamp.status}"
        lines += paragraph(f"{text} · andon why {entry.label}", width, TROUBLED[lamp.lamp])
    others = set(list(worst)[MOST_TROUBLES:])
    rest = [entry.label for entry, lamp in lit if (lamp.lamp, lamp.status) in others]
    if rest:
        text = f"GPU {range_of(rest)}: need{'s' * (len(rest) == 1)} attention, too"
        lines += paragraph(text, width, "yellow")
    return lines


def fault_lines(snapshot: Snapshot, width: int) -> list[Text]:
    """Why a backend cannot read its devices, and what to do."""
    lines: list[Text] = []
    for fault in snapshot.faults:
        hint = f" · {fault.hint}" if fault.hint else ""
        lines += paragraph(f"{fault.source}: {fault.reason}{hint}", width, "yellow")
    return lines


def _footnotes(
    snapshot: Snapshot, seen: list[NamedDevice], width: int, verbose: bool, mask: Mask
) -> list[Text]:
    lines: list[Text] = []
    masked = is_masked(snapshot)
    if any(not e.status.visible for e in seen):
        text = f"(n) hidden from this process by {mask.source or 'its mask'}"
        lines += paragraph(text, width, "dim")
    if mask.note and (masked or verbose):
        lines += paragraph(mask.note, width, "dim")
    if mask.container and verbose:
        lines += paragraph(f"{mask.container} {NOT_A_MASK}", width, "dim")
    if verbose or width >= MEDIUM:
        lines += _reasons(seen, width, verbose)
    return lines


def _reasons(seen: list[NamedDevice], width: int, verbose: bool) -> list[Text]:
    """Why values are missing: each reason once, with the devices if not all share it."""
    explained = explained_fields(width)
    pairs = [
        ((reading_label(field), why), e.label)
        for e in seen
        if e.status.answered
        for field, why in e.status.missing.items()
        if verbose or field in explained
    ]
    answered = sum(e.status.answered for e in seen)
    by_place: dict[tuple[str, str], list[str]] = {}
    for (field, why), labels in _grouped(pairs).items():
        place = "" if len(labels) == answered else f" (GPU {range_of(labels)})"
        by_place.setdefault((why, place), []).append(field)
    lines: list[Text] = []
    for (why, place), names in by_place.items():
        lines += paragraph(f"– {', '.join(names)}: {why}{place}", width, "dim")
    return lines


def _grouped(pairs: Iterable[tuple[K, str]]) -> dict[K, list[str]]:
    out: dict[K, list[str]] = {}
    for key, label in pairs:
        out.setdefault(key, []).append(label)
    return out


def paragraph(text: str, width: int, style: str = "", indent: int = 2) -> list[Text]:
    """Wrapped between words; further lines are indented."""
    width = max(20, width)
    if 0 < len(text) <= width and text.isprintable() and text == text.strip():
        return [styled(text, style)]

    found = textwrap.wrap(text, width, subsequent_indent=" " * indent, break_on_hyphens=False)
    return [styled(line, style) for line in found]


def flow(parts: list[Text], width: int) -> list[Text]:
    """Places parts side by side while they fit, then on the next line."""
    lines: list[list[Text]] = []
    for part in parts:
        taken = sum(p.width + 3 for p in lines[-1]) if lines else 0
        if lines and taken + part.width <= width:
            lines[-1].append(part)
        else:
            lines.append([part])
    return [join(line, " · ") for line in lines]
