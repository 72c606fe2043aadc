"""What else changed: a range of time against the one of the same length before it.

An unknown reading is not compared: it is not zero. The texts have no times, as who reads them may
be in another zone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from andon.history.rules.intervals import JOIN_SECONDS, UsageInterval
from andon.history.rules.notes import HistoryNote
from andon.history.rules.series import Bucket
from andon.model.alert import Alert, Level
from andon.model.codec import Amount, JsonDocument, Name, Text, Time, Whole
from andon.model.device import reading_label
from andon.model.throttling import reason_of
from andon.units import GIB, MIB, fixed, human_bytes, human_rate, human_seconds, symbol_of, unit_of

THROTTLED = "throttle:"
MOST_CHANGES = 20
NOT_COMPARED = frozenset(
    {"throttle", "energy_joules", "memory_free_bytes", "network_received_bytes",
     "network_sent_bytes"}
)  # fmt: skip
"""Counters that only grow, and what another reading says."""
_SCALES = {"percent": 100.0, "celsius": 60.0}
"""A change of this size weighs 1; of other units, a change from or to nothing."""
_LEAST = {
    "percent": 5.0, "celsius": 4.0, "watts": 15.0, "mhz": 60.0, "bytes": 512.0 * MIB,
    "bytes_per_second": 50e6,
}  # fmt: skip
"""Smaller changes are noise."""
_LEAST_OTHER = 0.5
_WEIGHTS = {Level.CRITICAL: 3.0, Level.WARNING: 2.2, Level.INFO: 1.0}
_DRIVER, _NOTE, _UNREAD, _WORK, _OVER = 4.0, 2.5, 2.0, 1.1, 0.6


class ChangeKind(StrEnum):
    """What changed."""

    READING = "reading"
    PROCESS = "process"
    RUN = "run"
    LEASE = "lease"
    ALERT = "alert"
    DRIVER = "driver"
    NOTE = "note"


class Change(Struct, frozen=True):
    """One difference between a range and the one before it; a greater weight is more."""

    kind: ChangeKind
    text: Text
    weight: Amount
    at: Time | None = None  # None for what holds for the whole range


class ChangeList(JsonDocument, frozen=True):
    """andon.changes/1: what changed most in a range, first."""

    schema = "andon.changes/1"
    device: Name
    before: Time  # where the range begins that it is compared with
    since: Time
    until: Time
    changes: tuple[Change, ...]
    more: Whole = 0  # smaller ones that are left out
    unknown: tuple[Text, ...] = ()  # what could not be compared, and why


class RecordedWork(Struct, frozen=True):
    """A run or a lease that had the device; `outcome` follows "ended" in the text."""

    kind: ChangeKind
    label: str
    began: float
    ended: float | None = None
    outcome: str = ""
    failed: bool = False


class RangeFacts(Struct, frozen=True):
    """What is known of a range of a device or the node, and of the range before it."""

    since: float
    until: float
    now: float
    readings: Mapping[str, tuple[Bucket, Bucket]] = {}
    """By name, before and in the range; shares of throttling are per cents."""
    uses: Sequence[UsageInterval] = ()
    works: Sequence[RecordedWork] = ()
    alerts: Sequence[Alert] = ()
    notes: Sequence[HistoryNote] = ()

    @property
    def read_before(self) -> bool:
        return not self.readings or any(one[0].count for one in self.readings.values())

    def has(self, at: float | None) -> bool:
        return at is not None and self.since <= at < self.until


def changes(facts: RangeFacts) -> list[Change]:
    """Returns what changed, the greatest first; the order of the facts does not matter."""
    found = {
        *_readings(facts.readings), *_uses(facts), *_works(facts), *_alerts(facts), *_notes(facts),
    }  # fmt: skip
    return sorted(found, key=lambda one: (-one.weight, one.at or 0.0, one.kind, one.text))


def _readings(readings: Mapping[str, tuple[Bucket, Bucket]]) -> Iterator[Change]:
    read = [any(one[place].count for one in readings.values()) for place in (0, 1)]
    if read == [True, False]:
        yield Change(ChangeKind.READING, "nothing was read in this range", _UNREAD)
    if read == [False, True]:
        yield Change(ChangeKind.READING, "nothing was read in the range before", _UNREAD)
    for name, (before, now) in readings.items():
        if name not in NOT_COMPARED and (found := _reading(name, before, now)) is not None:
            yield found


def _reading(name: str, before: Bucket, now: Bucket) -> Change | None:
    """Compares the means, or the highest values if they differ by more than twice as much."""
    mean = _weight(name, before.mean, now.mean)
    highest = _weight(name, before.max, now.max) / 2
    if not mean and not highest:
        return None
    label = _label(name)
    if mean >= highest:
        first, last = _value(name, before.mean), _value(name, now.mean)
        verb = "rose" if (now.mean or 0.0) > (before.mean or 0.0) else "fell"
        text = f"{label} {verb} from {first} to {last}"
    else:
        first, last = _value(name, before.max), _value(name, now.max)
        text = f"{label} was up to {last}, before up to {first}"
    if first == last:
        return None
    return Change(ChangeKind.READING, text, round(max(mean, highest), 6))


def _weight(name: str, before: float | None, now: float | None) -> float:
    if before is None or now is None:
        return 0.0
    unit = "percent" if name.startswith(THROTTLED) else unit_of(name)
    change = abs(now - before)
    if change < _LEAST.get(unit, _LEAST_OTHER):
        return 0.0
    return change / _SCALES.get(unit, max(abs(before), abs(now)))


def _label(name: str) -> str:
    if name.startswith(THROTTLED):
        return f"time throttled by {reason_of(name.removeprefix(THROTTLED)).label}"
    return reading_label(name)


def _value(name: str, value: float | None) -> str:
    unit, value = unit_of(name), value or 0.0  # both are known
    if unit == "bytes":
        return human_bytes(value)
    if unit == "bytes_per_second":
        return human_rate(value)
    symbol = "%" if name.startswith(THROTTLED) else symbol_of(name)
    return f"{fixed(value, 0 if abs(value) >= 10 else 1).removesuffix('.0')} {symbol}".rstrip()


def _uses(facts: RangeFacts) -> Iterator[Change]:
    groups = dict[tuple[str, str], list[tuple[float, UsageInterval]]]()
    # One that was there a moment ago may be there still.
    over = min(facts.until, facts.now - JOIN_SECONDS)
    for use in facts.uses:
        # Where nothing was read before, it may only be seen for the first time.
        began = facts.has(use.first) and (facts.read_before or facts.has(use.started))
        ended = facts.since <= use.last < over
        if not began and not ended:
            continue
        verb = "ran" if began and ended else "began" if began else "ended"
        who = f"{use.name or 'a process'} of {use.user or 'an unknown user'}"
        at = use.first if began else use.last
        groups.setdefault((verb, who), []).append((at, use))
    for (verb, who), found in groups.items():
        yield _of_group(verb, who, found)


def _of_group(verb: str, who: str, found: Sequence[tuple[float, UsageInterval]]) -> Change:
    peak = max((use.peak_memory_bytes or 0 for _, use in found), default=0)
    size = f", with up to {human_bytes(peak)}" if peak else ""
    longest = max(use.last - use.first for _, use in found)
    lasted = f" for {human_seconds(longest)}" if verb == "ran" and len(found) == 1 else ""
    times = f" {len(found)} times" if len(found) > 1 else ""
    weight = round(1.2 + peak / (peak + 16 * GIB), 6)
    text = f"{who} {verb}{times}{lasted}{size}"
    return Change(ChangeKind.PROCESS, text, weight, min(at for at, _ in found))


def _works(facts: RangeFacts) -> Iterator[Change]:
    for work in facts.works:
        if facts.has(work.began):
            yield Change(work.kind, f"{work.label} began", _WORK, work.began)
        if facts.has(work.ended):
            weight = _WORK + 0.5 * work.failed
            yield Change(work.kind, f"{work.label} ended{work.outcome}", weight, work.ended)


def _alerts(facts: RangeFacts) -> Iterator[Change]:
    for alert in facts.alerts:
        weight = _WEIGHTS[alert.level]
        if facts.has(alert.fired):
            yield Change(ChangeKind.ALERT, f"alert: {alert.message}", weight, alert.fired)
        if alert.fired is not None and facts.has(alert.resolved):
            text = f"alert over: {alert.message}"
            yield Change(ChangeKind.ALERT, text, _OVER * weight, alert.resolved)


def _notes(facts: RangeFacts) -> Iterator[Change]:
    for note in facts.notes:
        if facts.has(note.since) and note.driver:
            yield Change(ChangeKind.DRIVER, note.text, _DRIVER, note.since)
        elif facts.has(note.since):
            text = f"note of {note.by or 'someone'}: {note.text}"
            yield Change(ChangeKind.NOTE, text, _NOTE, note.since)


def shares_as_readings(
    shares: Mapping[str, Sequence[float | None]], counts: Sequence[int]
) -> Iterable[tuple[str, tuple[Bucket, Bucket]]]:
    """Yields the shares of throttling of two ranges as readings in per cent; a reason without a
    share where others are known did not apply."""
    for reason, column in shares.items():
        both = [
            Bucket(0.0, 0.0, count, *[None if share is None else 100.0 * share] * 3)
            for count, share in zip(counts, column, strict=False)
        ]
        if len(both) == 2:
            yield THROTTLED + reason, (both[0], both[1])
