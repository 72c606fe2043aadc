"""Renders one value in a table: its digits, unit and colour, and unknown values."""

from collections.abc import Iterable, Set
from functools import lru_cache

from andon.cli.show.entries import NamedDevice
from andon.cli.show.text import UNKNOWN, Text, join, known, percent, styled
from andon.explain.conditions.heat.limits import critical_from, hot_from
from andon.explain.evidence.blame import unattributed_bytes
from andon.model.device import Process, Sample, State
from andon.model.lamp import Lamp
from andon.model.programs import program_of
from andon.model.throttling import reason_of
from andon.model.utilisation import Band, band
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.units import GIB, fixed, human_bytes, human_rate

_LOADS: dict[Band | None, str] = {
    Band.LIGHT: "cyan",
    Band.MODERATE: "green",
    Band.HEAVY: "bold green",
}
LAMPS = {
    Lamp.RED: ("✕", "bold red"),
    Lamp.AMBER: ("▲", "yellow"),
    Lamp.RING: ("◎", "yellow"),
    Lamp.GREEN: ("●", "green"),
    Lamp.GREY: ("◌", "dim"),
}
"""The same shapes and colours as on the board."""
ASLEEP = ("○", "dim")
WITHHELD = {"ecc": "memory errors", "next": "next in queue"}
WITHHELD |= {name: name for name in ("broken", "cordoned", "reserved")}
"""Why a device that answers and is idle is given to no one, in two words."""


def lamp(entry: NamedDevice) -> Text:
    """The lamp at a glance, by shape and by colour; a device that is asleep is at rest."""
    lit = Lamp.GREY if entry.lamp is None else entry.lamp.lamp
    asleep = lit is Lamp.GREY and entry.status.state is State.ASLEEP
    return styled(*(ASLEEP if asleep else LAMPS[lit]))


def heat_style(entry: NamedDevice) -> str:
    """Returns the colour of the lamp for a temperature: yellow, or red if it is critical."""
    sample = entry.status.sample
    celsius = sample.temperature_celsius if sample else None
    if celsius is None:
        return ""
    slowdown, figures = entry.status.device.limits.slowdown_celsius, entry.figures
    if celsius < hot_from(slowdown, figures):
        return ""  # a device with a low slowdown temperature may be critical below it
    return "bold red" if celsius >= critical_from(slowdown, figures) else "yellow"


def number(value: float | None, unit: str = "", style: str = "") -> Text:
    return known(value, lambda number: f"{fixed(number)}{unit}", style)


def bar(value: float | None, width: int, style: str) -> Text:
    """A bar for a share; anything above zero shows at least half a cell."""
    if value is None or width < 1:
        return styled(" " * width)
    halves = min(2 * width, max(round(value * 2 * width / 100), 1 if value > 0 else 0))
    return _bar(halves, width, style)


@lru_cache(maxsize=1024)
def _bar(halves: int, width: int, style: str) -> Text:
    full = "━" * (halves // 2) + "╸" * (halves % 2)
    return styled(full, style) + styled("─" * (width - len(full)), "dim")


def utilization(entry: NamedDevice, bar_width: int) -> Text:
    value = _sample(entry).utilization_percent
    style = load_style(value)
    digits = percent(value, style).pad(5, right=True)
    return digits + styled(" ") + bar(value, bar_width, style) if bar_width else digits


def load_style(value: float | None) -> str:
    """Green for a busy GPU, bold for a very busy one, dim for an idle one."""
    return _LOADS.get(band(value), "dim")


def gib(count: float | None) -> str:
    """GiB with three digits."""
    if count is None:
        return UNKNOWN
    return fixed(count / GIB, 1) if count < 99.95 * GIB else fixed(count / GIB)


def memory(entry: NamedDevice, bar_width: int, with_percent: bool, digits: int) -> Text:
    status = entry.status
    used, total = _sample(entry).memory_used_bytes, status.device.memory_total_bytes
    share = status.memory_percent
    if used is None:
        return known(None).pad(digits, right=True)
    style = "bold" if share is not None and share >= entry.figures.memory_percent else ""
    out = (styled(gib(used), style) + styled(f"/{gib(total)}", "dim")).pad(digits, right=True)
    if with_percent:
        out = out + percent(share, style).pad(6, right=True)
    return out + styled(" ") + bar(share, bar_width, "cyan") if bar_width else out


def temperature(entry: NamedDevice) -> Text:
    return number(_sample(entry).temperature_celsius, " °C", heat_style(entry))


def power(entry: NamedDevice) -> Text:
    sample, share = _sample(entry), entry.status.power_percent
    if sample.power_watts is None:
        return known(None)
    style = "bold" if share is not None and share >= entry.figures.power_percent else ""
    limit = sample.power_limit_watts
    whole = "" if limit is None else f"/{fixed(limit)}"
    return styled(fixed(sample.power_watts), style) + styled(f"{whole} W", "dim")


def link(entry: NamedDevice) -> Text:
    """`5×16`; yellow if it has fewer lanes than the slot and card support."""
    sample, limits = _sample(entry), entry.status.device.limits
    if sample.pcie_generation is None or sample.pcie_width is None:
        return known(None)
    narrow = limits.link_width is not None and sample.pcie_width < limits.link_width
    return styled(f"{sample.pcie_generation}×{sample.pcie_width}", "yellow" if narrow else "")


def traffic(entry: NamedDevice, link: str) -> Text:
    """`2.5G↓ 610M↑`: what it receives and sends, in bytes a second."""
    sample = _sample(entry)
    pair = [getattr(sample, f"{link}_{way}_bytes_per_second") for way in ("received", "sent")]
    if None in pair:
        return known(None)
    received, sent = (human_rate(one, "", "") for one in pair)
    return styled(f"{received.rjust(4)}↓ {sent.rjust(4)}↑")


def throttle(entry: NamedDevice, all_of_them: bool = True) -> Text:
    """What limits the clock; only the most important reason if space is short."""
    reasons = _sample(entry).throttle
    if reasons is None:
        return known(None)
    rows = [row for name in reasons if (row := reason_of(name)).label]
    labels = [styled(row.label, "yellow" if row.alarming else "") for row in rows]
    if all_of_them or len(labels) < 2:
        return join(labels, ", ")
    worst = max(labels, key=lambda text: text.spans[0][1])
    return worst + styled(f" +{len(labels) - 1}", "dim")


def who(entry: NamedDevice, detail: int) -> Text:
    """Returns the users, most memory first; detail 1 adds their memory, 2 also their programs. A
    held, promised or cordoned device is marked so, whether or not anyone uses it."""
    users = _by_user(entry.status.processes)
    parts = _not_free(entry, {name for name, _ in users})
    parts += [_holder(name, held, detail) for name, held in users]
    spare = unexplained(entry)
    if spare is not None:
        size = f" {human_bytes(spare)}" if detail else ""
        parts.append(styled("unaccounted", "yellow") + styled(size, "dim"))
    return join(parts, ", ")


def _not_free(entry: NamedDevice, users: Set[str]) -> list[Text]:
    """Returns `held alice` unless she uses the device, `cordoned`; nothing for other verdicts."""
    found = entry.verdict
    if found is None or not entry.status.answered:
        return []
    held = found.kind is VerdictKind.HELD and found.by not in users
    return [availability(found)] if held or found.code in WITHHELD else []


def availability(verdict: DeviceVerdict | None) -> Text:
    """`free`, `held alice`, `in use`, `cordoned`: the same verdict as `andon free`."""
    if verdict is None:
        return known(None)
    if verdict.kind is VerdictKind.FREE:
        return styled("free", "bold green")
    if verdict.kind is VerdictKind.HELD:
        return styled("held ") + styled(verdict.by or "", "dim")
    if verdict.kind is VerdictKind.IN_USE:
        return styled("in use", "dim")
    return styled(WITHHELD.get(verdict.code or "", "withheld"), "yellow")


def unexplained(entry: NamedDevice) -> int | None:
    """Memory that no process accounts for; None if there is none, or none is known."""
    return unattributed_bytes(entry.status, entry.divided) or None


def _holder(name: str, held: list[Process], detail: int) -> Text:
    sizes = [process.memory_bytes for process in held]
    text = styled(name)
    known = (program_of(p.command, p.name) for p in held)
    programs = list(dict.fromkeys(one for one in known if one and one != name))
    if detail > 1 and programs:
        text = text + styled(" " + "+".join(programs))
    if detail and None not in sizes:
        text = text + styled(f" {human_bytes(sum(size or 0 for size in sizes))}", "dim")
    return text


def _by_user(processes: Iterable[Process]) -> list[tuple[str, list[Process]]]:
    users: dict[str, list[Process]] = {}
    for process in sorted(processes, key=lambda p: -(p.memory_bytes or 0)):
        users.setdefault(process.user or process.name or f"pid {process.pid}", []).append(process)
    return sorted(users.items(), key=lambda item: -sum(p.memory_bytes or 0 for p in item[1]))


def _sample(entry: NamedDevice) -> Sample:
    return entry.status.sample or Sample(at=0.0)
