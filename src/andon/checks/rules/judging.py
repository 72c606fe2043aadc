"""The verdict on a check: wrong results first, then what the card's own clocks allow, then its
siblings, then its own past; each with its evidence and the condition that explains it."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from andon.model.check import FLEET_PARTS, CardResult, CheckVerdict
from andon.model.throttling import ThrottleKind, reason_of
from andon.units import counted

FP32_LANES = {
    5: 128, 6: 128, 7: 64, 8: 128, 9: 128, 10: 128, 11: 128, 12: 128, (6, 0): 64, (8, 0): 64,
}  # fmt: skip
"""Additions per clock of an SM, by architecture, as NVIDIA's programming guide lists them."""
LEAST_OF_CLOCK = 0.85  # 0.98 was measured on an H200
LEAST_OF_BUS = 0.65  # of what clock and bus of the memory allow; 0.89 on an H200
LEAST_OF_LINK = 0.6  # of what its lanes can carry; 0.88 on an H200
LANE_BYTES = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes per second of one lane of PCIe, by generation."""
LEAST_DIFFERENCE = 0.06  # below the median of its siblings or of its past
ALONE_DIFFERENCE = 0.1  # the same, where there is one other only
SPREADS = 3.0 * 1.4826  # of the median's deviation: rarer than one healthy card in 370
MOST_DIFFERENCE = 0.25
PAST_COUNT = 20
JUDGED = ("fp32", "tensor", "memory", "to_device", "from_device")
NAMES = {
    "fp32": "FP32", "tensor": "tensor cores", "memory": "memory", "patterns": "memory",
    "to_device": "copies to the card", "from_device": "copies from the card",
    "link": "copies over the link",
}  # fmt: skip


class Shortfall(Struct, frozen=True):
    """Something that is slower than it should be."""

    part: str
    share: float  # of what it should be
    text: str


class References(Struct, frozen=True):
    """What a result is compared with: the latest of other cards, and its own earlier ones."""

    local: Sequence[CardResult] = ()
    fleet: Sequence[CardResult] = ()
    past: Sequence[CardResult] = ()


def judged(result: CardResult, references: References) -> CardResult:
    """Returns the result with its verdict. One that has a verdict already is returned as it is."""
    if result.verdict is not CheckVerdict.UNJUDGED:
        return result
    if result.wrong or any(part.wrong for part in result.parts):
        return replace(result, verdict=CheckVerdict.WRONG, text=wrong_text(result))
    if result.new_ecc:
        count = counted(result.new_ecc, "uncorrectable memory error")
        return replace(result, verdict=CheckVerdict.MEMORY, text=f"{count} during the check")
    if trouble := _rows_trouble(result):
        return replace(result, verdict=CheckVerdict.MEMORY, text=trouble)
    if all(part.value is None for part in result.parts):
        why = next((part.reason for part in result.parts if part.reason), "it reported nothing")
        text = f"nothing could be measured: {why}"
        return replace(result, verdict=CheckVerdict.FAILED, text=text)
    local = comparable(result, references.local)
    fleet = comparable(result, references.fleet)
    past = _of_limit(result, [one for one in references.past if _alike(result, one)])[-PAST_COUNT:]
    one = "the other one of its model"
    findings = [
        *_own_bounds(result),
        *_below(result, local, JUDGED, "the others" if len(local) > 1 else one),
        *_below(result, fleet, FLEET_PARTS, f"{len(fleet)} in the fleet"),
        *_below(result, past, JUDGED, "its own past"),
    ]
    compared = ("others", local), ("fleet", fleet), ("past", past)
    evidence = {**result.evidence, **_evidence(result, compared)}
    if findings:
        worst = min(findings, key=lambda one: one.share)
        name, why = explanation(result, worst.part)
        text = f"slow: {worst.text}{why}"
        return replace(
            result, verdict=CheckVerdict.SLOW, text=text, explained_by=name, evidence=evidence
        )
    if not (local or fleet or past or _has_bounds(result)):
        return replace(
            result, text="numbers without a verdict: nothing to compare with", evidence=evidence
        )
    return replace(
        result, verdict=CheckVerdict.OK, text=_fine(local, fleet, past), evidence=evidence
    )


def _rows_trouble(result: CardResult) -> str | None:
    before, after = result.rows_before, result.rows
    if before is None or after is None:
        return None
    if after.failed:
        return "memory that failed could not be replaced: no spare row is left"
    new = after.uncorrectable - before.uncorrectable
    return f"{counted(new, 'row')} of its memory failed during the check" if new > 0 else None


def comparable(result: CardResult, others: Iterable[CardResult]) -> list[CardResult]:
    """Returns the latest measurement of each other card of the same kind."""
    latest: dict[str, CardResult] = {}
    for one in others:
        known = latest.get(one.uuid)
        if one.uuid != result.uuid and _alike(result, one) and (known is None or known.at < one.at):
            latest[one.uuid] = one
    return _of_limit(result, list(latest.values()))


def _of_limit(result: CardResult, others: list[CardResult]) -> list[CardResult]:
    """Returns those with the same power limit; all if none has it: the limit then explains what is
    found."""
    return [one for one in others if one.limit == result.limit] or others


def _alike(result: CardResult, other: CardResult) -> bool:
    return other.verdict.is_measured and not other.even_if_used and other.kind == result.kind


def wrong_text(result: CardResult) -> str:
    """`WRONG RESULTS on SM 41: 3 of 270,336 threads`."""
    part = max(result.parts, key=lambda one: one.wrong, default=None)
    if part is None or not part.wrong:  # it ended before its sum was known
        return f"WRONG RESULTS: {len(result.wrong)} at least"
    sms = sorted({one.sm for one in result.wrong if one.part == part.name and one.sm is not None})
    where = f" on SM {', '.join(map(str, sms[:4]))}" if sms else f" in {NAMES[part.name]}"
    things = "results" if sms else "words"
    if part.name in ("patterns", "memory"):
        words = [one for one in result.wrong if one.part == part.name]
        bits = 0
        for one in words:
            bits |= one.got ^ one.expected
        where += f", bits {bits:#010x}" if words else ""
        return f"WRONG RESULTS{where}: {part.wrong:,} {things} of {part.examined // 4:,}"
    return f"WRONG RESULTS{where}: {part.wrong:,} of {part.examined:,} {things}"


def lanes(capability: str) -> int | None:
    """Returns the additions per clock of an SM; None for an architecture that is not known."""
    try:
        major, minor = map(int, capability.split("."))
    except ValueError:
        return None
    if (major, minor) in ((8, 0), (6, 0)):
        return FP32_LANES[major, minor]
    return FP32_LANES.get(major)


def per_clock(result: CardResult, name: str) -> float | None:
    """Returns the operations of a part per clock and SM; it depends on no clock."""
    part = result.part(name)
    if part is None or part.value is None or not part.clock_mhz or not result.sms:
        return None
    return part.value / (part.clock_mhz * 1e6 * result.sms)


def _own_bounds(result: CardResult) -> Iterable[Shortfall]:
    """Yields what is slower than the card's own clocks allow."""
    each, rate = lanes(result.capability), per_clock(result, "fp32")
    if each is not None and rate is not None and rate < LEAST_OF_CLOCK * 2 * each:
        share = rate / (2 * each)
        yield Shortfall("fp32", share, f"FP32 at {100 * share:.0f} % of what its clock allows")
    memory, bus = result.value("memory"), result.bandwidth_bytes_per_second
    if memory is not None and bus and memory < LEAST_OF_BUS * bus:
        share = memory / bus
        yield Shortfall("memory", share, f"memory at {100 * share:.0f} % of what its bus allows")
    for name in ("to_device", "from_device"):
        part = result.part(name)
        carried = _link_bytes(result)
        if part is not None and part.value is not None and carried is not None:
            share = part.value / carried
            if share < LEAST_OF_LINK:
                yield Shortfall(
                    name, share, f"{NAMES[name]} at {100 * share:.0f} % of what its slot allows"
                )


def _link_bytes(result: CardResult) -> float | None:
    each = LANE_BYTES.get(result.pcie_generation or 0)
    return None if each is None or not result.pcie_width else each * result.pcie_width


def _has_bounds(result: CardResult) -> bool:
    fp32 = lanes(result.capability) is not None and per_clock(result, "fp32") is not None
    return fp32 and bool(result.bandwidth_bytes_per_second)


def _below(
    result: CardResult, others: Sequence[CardResult], names: Sequence[str], whom: str
) -> Iterable[Shortfall]:
    """Yields what is clearly less than the median of others, beyond their own spread."""
    for name in names:
        share = _share(result.value(name), [one.value(name) for one in others])
        if share is not None:
            yield Shortfall(name, share, f"{NAMES[name]} {100 * (1 - share):.0f} % below {whom}")


def _share(value: float | None, others: Iterable[float | None]) -> float | None:
    """Returns which share of the median a value is, if that is clearly too little."""
    known = [one for one in others if one]
    if value is None or not known:
        return None
    middle = median(known)
    spread = median([abs(one - middle) for one in known]) / middle
    least = ALONE_DIFFERENCE if len(known) == 1 else LEAST_DIFFERENCE
    allowed = min(MOST_DIFFERENCE, max(least, SPREADS * spread))
    share = value / middle
    return share if share < 1 - allowed else None


def explanation(result: CardResult, part: str) -> tuple[str | None, str]:
    """Returns the condition that explains a slow part, and how the sentence goes on."""
    every = (explain(result, part) for explain in _EXPLAIN)
    name, why = next((one for one in every if one is not None), (None, ""))
    words = ", ".join(one for one in (_clock(result, part), why) if one)
    return name, f" · {words}" if words else ""


def _clock(result: CardResult, part: str) -> str:
    found = result.part(part)
    return "" if found is None or found.clock_mhz is None else f"{found.clock_mhz:,.0f} MHz"


def _narrow(result: CardResult, part: str) -> tuple[str, str] | None:
    found = result.part(part)
    if found is None or part not in ("to_device", "from_device"):
        return None
    now, widest = found.pcie_width, result.pcie_width
    if now and widest and now < widest:
        return "narrow_link", f"{now} of {widest} lanes"
    speed, fastest = found.pcie_generation, result.pcie_generation
    if speed and fastest and speed < fastest:
        return "narrow_link", f"PCIe generation {speed} of {fastest}"
    return None


def _shared(result: CardResult, part: str) -> tuple[str, str] | None:
    return ("occupied", "others used it at the same time") if result.even_if_used else None


def _divided(result: CardResult, part: str) -> tuple[str, str] | None:
    shares = "others on its card share its power and link"
    return ("occupied", shares) if result.instance else None


def _heat(result: CardResult, part: str) -> tuple[str, str] | None:
    found = result.part(part)
    for name in () if found is None else found.throttle:
        if reason_of(name).kind is ThrottleKind.THERMAL and found is not None:
            degrees = found.temperature_celsius
            at = "" if degrees is None else f" at {degrees} °C"
            return "throttle_thermal", f"slowed down by heat{at}"
    return None


def _hardware(result: CardResult, part: str) -> tuple[str, str] | None:
    found = result.part(part)
    for name in () if found is None else found.throttle:
        if reason_of(name).alarming:
            return "throttle_hardware", f"the driver reports: {reason_of(name).title}"
    return None


def _power(result: CardResult, part: str) -> tuple[str, str] | None:
    limit, usual = result.power_limit_watts, result.power_default_watts
    if part in ("fp32", "tensor") and limit and usual and limit < 0.98 * usual:
        return "power_limit_lowered", f"power limit {limit:.0f} of {usual:.0f} W"
    return None


_EXPLAIN: tuple[Callable[[CardResult, str], tuple[str, str] | None], ...] = (
    _narrow, _shared, _heat, _hardware, _power, _divided,
)  # fmt: skip


def _fine(
    local: Sequence[CardResult], fleet: Sequence[CardResult], past: Sequence[CardResult]
) -> str:
    whom = []
    if local:
        whom.append(f"{counted(len(local), 'other')} of its model here")
    if fleet:
        whom.append(f"{len(fleet)} in the fleet")
    if whom:
        return f"as fast as {', '.join(whom)}"
    return "as fast as it was" if past else "as fast as its clock and bus allow"


def _evidence(
    result: CardResult, references: Iterable[tuple[str, Sequence[CardResult]]]
) -> dict[str, str]:
    found = {}
    for name in ("fp32", "tensor"):
        if (rate := per_clock(result, name)) is not None:
            found[f"{name}_per_clock_and_sm"] = f"{rate:.1f}"
    for title, some in references:
        for name in JUDGED:
            known = [value for one in some if (value := one.value(name))]
            if known:
                found[f"{title}.{name}.median"] = f"{median(known):.6g}"
                found[f"{title}.{name}.count"] = str(len(known))
    return found
