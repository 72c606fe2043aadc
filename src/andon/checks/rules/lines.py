"""What the lines of a card's process add up to, and what they say of one that ended badly."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from andon.model.check import MOST_WRONG, CardResult, CheckPart, CheckVerdict, RowRemaps, WrongWord
from andon.model.device import Sample
from andon.model.throttling import IDLE

LONGEST_LINE = 1 << 20
OUT_OF_MEMORY = 2
NO_CONTEXT = frozenset((700, 702, 709, 714, 715, 716, 717, 718, 719, 999))
"""Errors of the driver after which the card answers no call of this process."""


def with_card(result: CardResult, line: Mapping[str, Any]) -> CardResult:
    """Adds what the driver says of the card."""
    khz, bits = line.get("memory_khz"), line.get("bus_bits")
    clock = line.get("clock_khz")
    return replace(
        result,
        uuid=line.get("uuid", result.uuid),  # of a card that slept
        model=line.get("model", result.model),
        capability=f"{line['major']}.{line['minor']}",
        sms=line.get("sms"),
        clock_mhz=None if clock is None else clock / 1000,
        # Both edges of the clock carry data; an integrated card reports neither.
        bandwidth_bytes_per_second=khz * 1000 * 2 * bits / 8 if khz and bits else None,
    )


def with_rows(result: CardResult, line: Mapping[str, Any]) -> CardResult:
    """Adds the rows of memory that were remapped: before the check, then after it."""
    if "reason" in line:
        return replace(result, evidence={**result.evidence, "remapped_rows": line["reason"]})
    found = RowRemaps(
        line["correctable"], line["uncorrectable"], bool(line["pending"]), bool(line["failed"])
    )
    return replace(result, rows_before=result.rows_before or found, rows=found)


def with_wrong(result: CardResult, line: Mapping[str, Any]) -> CardResult:
    more = [
        WrongWord(line["part"], w["at"], w["got"], w["expected"], w.get("sm"), w.get("address"))
        for w in line["words"]
    ]
    return replace(result, wrong=(*result.wrong, *more)[:MOST_WRONG])


def with_end(result: CardResult, line: Mapping[str, Any], samples: Sequence[Sample]) -> CardResult:
    """Adds a part that has ended, with what was read of the card meanwhile."""
    name, during = line["part"], _during(samples)
    part = CheckPart(
        name, line["value"], None, line.get("clock_mhz"), line["examined"], line["wrong"], **during
    )
    if name == "link":
        both = replace(part, name="to_device"), replace(part, name="from_device")
        parts = (both[0], replace(both[1], value=line["back"], wrong=0))
        return replace(result, parts=(*result.parts, *parts))
    tested = line["examined"] if name == "patterns" else result.tested_bytes
    return replace(result, parts=(*result.parts, part), tested_bytes=tested)


def with_skip(result: CardResult, line: Mapping[str, Any]) -> CardResult:
    names = ("to_device", "from_device") if line["part"] == "link" else (line["part"],)
    more = [CheckPart(name, reason=line["reason"]) for name in names]
    return replace(result, parts=(*result.parts, *more))


def _during(samples: Sequence[Sample]) -> dict[str, Any]:
    """Sums up the readings during a part."""
    power = [one.power_watts for one in samples if one.power_watts is not None]
    heat = [one.temperature_celsius for one in samples if one.temperature_celsius is not None]
    linked = [one for one in samples if one.pcie_width is not None]
    reasons = sorted({reason for one in samples for reason in one.throttle or ()} - {IDLE.name})
    found: dict[str, Any] = {"throttle": tuple(reasons)}
    if power:
        found["power_watts"] = round(sum(power) / len(power), 1)
    if heat:
        found["temperature_celsius"] = max(heat)
    if linked:  # an idle card may lower its link: the best during the load counts
        found["pcie_width"] = max(one.pcie_width or 0 for one in linked)
        found["pcie_generation"] = max(one.pcie_generation or 0 for one in linked)
    return found


def failure(kind: str, text: str, code: int | None, begun: bool) -> tuple[CheckVerdict, str]:
    """What a check ends with whose process gave up; `begun`: the card had answered."""
    if kind == "refused":
        return CheckVerdict.NOT_CHECKED, text
    if kind == "too_old":
        return CheckVerdict.NOT_CHECKED, f"the driver is too old for this check: {text}"
    if kind == "no_library":
        return CheckVerdict.NOT_CHECKED, f"NVIDIA's CUDA driver library is not here: {text}"
    if kind == "uncorrectable":
        return CheckVerdict.MEMORY, f"memory error that could not be corrected: {text}"
    if code == OUT_OF_MEMORY:
        return CheckVerdict.NOT_CHECKED, f"it has no memory left for a check: {text}"
    if code in NO_CONTEXT and begun:
        return CheckVerdict.LOST, f"the card stopped working during the check: {text}"
    return CheckVerdict.FAILED, text
