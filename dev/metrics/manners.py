"""Generates docs/alerting.md from the catalogue of alert rules: how alerts behave."""

from dev.metrics.alerting import DIFFERENCES, unsaid

from andon.core.alerting.episodes import FLAP_SECONDS, FORGET_SECONDS, MOST_FACTOR, SEEN_SECONDS
from andon.core.conditions.rulebook import RENOTIFY_SECONDS
from andon.core.conditions.rules import RULES, Rule, Rung
from andon.core.conditions.track import FLICKER_SECONDS
from andon.units import human_seconds


def _time(value: float) -> str:
    return "at once" if value == 0 else human_seconds(value).replace(" h 0 min", " h")


INTRO = f"""# How alerts behave

`andon alerts rules` lists what each rule is for, with the current thresholds. This page describes
when an alert fires, when it resolves, and when people are notified. More than two hundred tables in
`tests/timelines` test it.

- **pending, firing, resolved.** A rule has rungs. Each has a level, a condition, how long it must
  hold and how long it must be clear. An alert is pending from the first sample that meets a
  condition, fires when a rung has held long enough, and is resolved when all have been clear long
  enough. An alert that was only pending leaves no trace.
- **Two thresholds.** What fired at 80 °C is clear at 75 °C but not at 79 °C: the table has both.
- **The device's own limits come first.** If a device reports its slowdown temperature, that is
  used, and the alert shows both numbers.
- **Durations count observed time**, on a clock that neither jumps nor stops in suspend. Of the
  time since the last sample at most {_time(SEEN_SECONDS)} count: a night of suspend is not
  evidence, and neither is a restart.
- **Missing data is not recovery.** If a device does not respond or a value cannot be read, a
  firing alert keeps firing and shows since when there is no data. A pending one is dropped after
  {_time(FORGET_SECONDS)} without data.
- **People are notified once** for each level of an episode: `firing`, then `worse` if the level
  rises, `resolved` at the end if anything was sent. A falling level is not sent, and neither is
  info. Reminders follow after {_time(RENOTIFY_SECONDS)}, then after twice as long each time, up to
  a day.
- **Acknowledged**: no reminders, until it becomes worse than what was acknowledged. **Silenced**:
  nothing is sent until the silence ends; then whatever still fires and was not sent is sent, and
  so is the end of what was sent before.
- **One problem, one message.** A lost device inhibits its other alerts and those of its MIG
  instances; a hung one inhibits all but Xid, memory errors and its loss; a vendor's hung driver
  its devices; heat inhibits throttling and idleness; an idle lease its idle devices; memory of an
  ended lease inhibits unattributed memory; a critical Xid the error counter. Inhibited alerts are
  shown, and sent if they still fire when the first has ended.
- **Flapping alerts clear more slowly.** An alert that fires again within {_time(FLAP_SECONDS)}
  must be clear twice as long as the last time, up to {MOST_FACTOR} times.
- **Throttle reasons flicker.** A card that regulates its temperature sets and clears its throttle
  reason every second: it counts for {_time(FLICKER_SECONDS)} after it was seen.
- **A restart changes nothing**: what was sent is not sent again, and what was not is. After a
  reboot the time in between is taken from the wall clock, a day at most; earlier Xids and memory
  errors end when the device has been fine for a minute.
- **Predictions** are made only if the data supports them: ten minutes of a steady rise. The
  message has the best estimate, the earliest and the latest time, from the median of all slopes
  (Theil and Sen). Noise, a step, work that allocates and frees, and a device that warms up to a
  steady temperature do not count.
- **A busy, healthy GPU raises info only.** Eight H200 at 99 % of their power and 97 % of their
  memory for an hour: no message, green lamps.

Thresholds are [settings](settings.md), for all devices, for a model or for one device; a
threshold of "off" turns its rule off. `python -m bench.alerts` measures the cost: 64 devices
through every rule stay under 2 ms per sample.

## When each rule fires and ends

"Sent" says whether people are notified; the rest is only on the board.

| rule | level | sent | fires when | for | ends when | for |
|---|---|---|---|---|---|---|
"""

PROMETHEUS = """
## The same rules in Prometheus

[andon-rules.yml](../deploy/prometheus/andon-rules.yml) is generated from the same catalogue, and a
test plays the timelines through `promtool test rules`. `severity` is info where andon notifies no
one. What andon does and Prometheus cannot:

"""


def manners() -> str:
    """The whole page."""
    rows = [_row(rule, rung) for rule in RULES for rung in rule.rungs]
    left_out = [f"| `{rule.name}` | {why} |" for rule in RULES if (why := unsaid(rule))]
    return "\n".join(
        [
            INTRO + "\n".join(rows),
            "",
            "The rules about leases use the lease book, in a server that follows it;",
            "while it cannot be read, no alert about leases begins or ends.",
            PROMETHEUS + "\n".join(f"- {words}" for words in DIFFERENCES),
            "",
            "| not in the file | why |",
            "|---|---|",
            *left_out,
            "",
        ]
    )


def _row(rule: Rule, rung: Rung) -> str:
    told = "yes" if rung.told else "no"
    cells = (f"`{rule.name}`", str(rung.level), told, rung.condition, _time(rung.for_seconds),
             rung.calm, _time(rung.clear_seconds))  # fmt: skip
    return "| " + " | ".join(cells) + " |"
