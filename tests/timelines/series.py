"""A timeline as Prometheus would have scraped it: the exporter's own text, look by look."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from andon.exporter import Exposition
from andon.model.device import Snapshot
from tests.timelines.grammar import Timeline, labels
from tests.timelines.playing import PAUSES
from tests.timelines.world import World

MOST_LOOKS = 7500
# promtool takes its time: the longest are played only on demand.
LOOKS = MOST_LOOKS if os.environ.get("ANDON_EVERY_LOOK") == "1" else 130
OTHERWISE = ("restart", "suspend", "reboot", "clock", "silence", "unsilence", "ack", "unack", "set",
             "lease", "release", "orphan", "book:", "forget", "xid")  # fmt: skip
"""Items that change something which Prometheus does not see, or sees otherwise."""
_LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LEVELS = {"info": 1, "warning": 2, "critical": 3}


def why_not(timeline: Timeline, said: Iterable[str], looks: int = LOOKS) -> str | None:
    """Why Prometheus cannot be asked about a timeline; None where it can."""
    items = [item for row in timeline.rows for item in row.readings]
    if timeline.prometheus:
        return timeline.prometheus
    if timeline.rows[-1].at / timeline.every > looks:
        return "it is long"
    if timeline.settings or any(PAUSES.match(i) or i.split()[0] in OTHERWISE for i in items):
        return "it has a command, an event, a lease or a setting"
    if any(word in item for item in items for word in ("nodata", "absent", "index=")):
        return "a series ends in it"
    if any("[nodata]" in row.expect or ",nodata" in row.expect for row in timeline.rows):
        return "silence is recovery for Prometheus"
    rules = {word.partition("@")[0] for row in timeline.rows for word in row.expect.split()
             if "@" in word} - timeline.ignore  # fmt: skip
    if timeline.every > 30:
        return "for Prometheus the time between two looks counts whole"
    if any("ecc@" in row.expect and " info" in row.expect for row in timeline.rows):
        return "a first count is not told apart from an old one"
    if timeline.file == "flapping" or not rules <= set(said):
        return "its rules cannot be said in PromQL"
    return "a row is between two looks" if _between(timeline) else None


def _between(timeline: Timeline) -> bool:
    return any(row.at % timeline.every for row in timeline.rows)


def together(
    played: Sequence[Timeline], names: frozenset[str], said: Iterable[str]
) -> dict[str, Any]:
    """One test of promtool for timelines of one interval: each is an instance of its own, with its
    series and what must fire at each of its rows. The rules are then judged once for all."""
    series, asked = [], []
    for timeline in played:
        instance = json.dumps(timeline.name, ensure_ascii=False)
        series += [
            {"series": name, "values": " ".join(_runs(values))}
            for name, values in _series(timeline, instance, names).items()
        ]
        asked += list(_asked(timeline, instance, said))
    return {
        "interval": f"{played[0].every:g}s",
        "input_series": series,
        "promql_expr_test": asked,
    }


def _asked(timeline: Timeline, instance: str, said: Iterable[str]) -> Iterator[dict[str, Any]]:
    rules = "|".join(sorted(set(said) - timeline.ignore))
    of = f'alertstate="firing",instance={instance},rule=~"{rules}"'
    firing = " or ".join(f'{rank} * ALERTS{{{of},level="{lv}"}}' for lv, rank in _LEVELS.items())
    for row in timeline.rows:
        if row.expect != "*":
            yield {
                "expr": f"max by (rule, device) ({firing})",
                "eval_time": f"{row.at:g}s",
                "exp_samples": list(_expected(row.expect)),
            }


def _series(
    timeline: Timeline, instance: str, names: frozenset[str]
) -> dict[str, list[str | None]]:
    world, exposition = World(timeline.devices), Exposition()
    rows = {row.at: row for row in timeline.rows}
    found: dict[str, list[str | None]] = {}
    shown: tuple[object, dict[str, str]] | None = None
    for look in range(int(timeline.rows[-1].at / timeline.every) + 1):
        at = look * timeline.every
        for item in rows[at].readings if at in rows else ():
            world.take(item, at)
        snapshot = world.observation(at).snapshot
        key = (tuple(map(id, snapshot.devices)), snapshot.host)
        if shown is None or shown[0] != key:
            shown = (key, dict(_lines(exposition, snapshot, instance, names)))
        for name in found.keys() | shown[1].keys():
            found.setdefault(name, [None] * look).append(shown[1].get(name))
    return found


def _lines(
    exposition: Exposition, snapshot: Snapshot, instance: str, names: frozenset[str]
) -> Iterator[tuple[str, str]]:
    for line in exposition.render(snapshot, None, snapshot.at).splitlines():
        parts = _LINE.fullmatch(line)
        if parts is not None and parts[1] in names:
            yield f"{parts[1]}{{instance={instance},{parts[2] or ''}}}", parts[3]


def _runs(values: list[str | None]) -> Iterator[str]:
    """`71+0x59` is 71 sixty times; a series that ends is stale from then on."""
    place = 0
    while place < len(values):
        value, end = values[place], place
        while end < len(values) and values[end] == value:
            end += 1
        more = end - place - 1
        if value is not None:
            yield f"{value}+0x{more}"
        elif place:
            yield "stale"
            yield from (f"_x{more}" for _ in range(more > 0))
        else:
            yield f"_x{more + 1}"
        place = end


def _expected(text: str) -> Iterator[dict[str, object]]:
    for item in [] if text == "-" else text.split(";"):
        name, state, *level = item.partition("[")[0].split()
        rule, _, subject = name.partition("@")
        if state != "firing" or subject.startswith("reader:"):
            continue
        for device in labels(subject) if subject[0].isdigit() else [None]:
            of = "" if device is None else f',device="{device}"'
            yield {"labels": f'{{rule="{rule}"{of}}}', "value": _LEVELS[level[0]]}
