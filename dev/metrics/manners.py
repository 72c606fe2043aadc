"""docs/alerting.md, made from the catalogue of alert rules: how alerts behave."""

from dev.metrics.alerting import DIFFERENCES, unsaid

from andon.core.alerting.episodes import FLAP_SECONDS, FORGET_SECONDS, MOST_FACTOR, SEEN_SECONDS
from andon.core.conditions.rulebook import RENOTIFY_SECONDS
from andon.core.conditions.rules import RULES, Rule, Rung
from andon.core.conditions.track import FLICKER_SECONDS
from andon.units import human_seconds


def _time(value: float) -> str:
    return "at once" if value == 0 else human_seconds(value).replace(" h 0 min", " h")


INTRO = f"""# How alerts behave

`andon alerts rules` says what each rule is for, with the figures in force. This page says when an
alert comes, when it goes, and when a person hears of it. More than two hundred tables in
`tests/timelines` hold it.

- **pending, firing, resolved.** A rule has rungs. Each has a level, a condition, the time it must
  hold and the time it must be calm. An alert is pending from the first look that sees a
  condition, fires when a rung has held for its time, and is resolved when all have been calm for
  theirs. What was only pending goes without a trace.
- **Two thresholds.** What fired at 80 °C is calm at 75 °C and not at 79 °C: the table says both.
- **The device's own limits come first.** A device that states its slowdown temperature is judged
  by it, and the alert shows both numbers.
- **Durations are time that somebody saw**, on a clock that neither jumps nor stops in suspend. Of
  the time since the last look at most {_time(SEEN_SECONDS)} count: a night of suspend is no
  evidence, and neither is a restart.
- **Silence is not recovery.** Where a device does not answer or a value cannot be read, what
  fires goes on firing and says since when there is no data. What is pending is forgotten after
  {_time(FORGET_SECONDS)} without data.
- **A person is told once** for each level of an episode: `firing`, then `worse` if the level
  rises, `resolved` at the end if anything was told. A level that falls is not told. Info is never
  told. Reminders follow after {_time(RENOTIFY_SECONDS)}, then twice as long each time, up to a
  day.
- **Acknowledged**: no reminders, until it becomes worse than what was acknowledged. **Silenced**:
  nothing is sent until the silence ends; then what still fires and was not told is told, and the
  end of what was told before.
- **One trouble, one message.** A lost device stands in front of its other alerts and of its MIG
  instances; a hung one in front of all but Xid, memory errors and its loss; a vendor's hung
  driver in front of its devices; heat in front of throttling and idleness; an idle lease in front
  of its idle devices; memory of a lease that ended in front of memory that nobody explains; a
  critical Xid in front of the error counter. What stands behind is shown, and told if it still
  fires when the first is over.
- **What keeps coming back becomes patient.** An alert that fires again within
  {_time(FLAP_SECONDS)} must be calm twice as long as the last time, up to {MOST_FACTOR} times.
- **Reasons flicker.** A card that regulates its heat sets and drops its throttle reason every
  second: it counts as there for {_time(FLICKER_SECONDS)} after it was seen.
- **A restart changes nothing**: what was told is not told again, and what was not is. After a
  reboot the time away is taken from the wall clock, a day at most; Xids and memory errors of
  before are over when the device has been well for a minute.
- **Predictions** are told where the data bears them: ten minutes of a rise that is steady in all
  its parts. The message has the best guess, the earliest and the latest time, by the median of
  all slopes (Theil and Sen). Noise, a step, work that takes and frees again, and a device that
  warms towards a balance are none.
- **A busy, healthy GPU raises info only.** Eight H200 at 99 % of their power and 97 % of their
  memory for an hour: no message, green lamps.

Thresholds are [settings](settings.md), for all devices, for a model or for one device; a
threshold that is "off" turns its rule off. `python -m bench.alerts` prints what judging costs: 64
devices through every rule stay under 2 ms a tick.

## When each rule fires and ends

"Sent" says whether a person is told; what is not sent is on the board.

| rule | level | sent | fires when | for | ends when | for |
|---|---|---|---|---|---|---|
"""

PROMETHEUS = """
## The same rules in Prometheus

[andon-rules.yml](../deploy/prometheus/andon-rules.yml) is made from the same catalogue, and a
test plays the timelines through `promtool test rules`. `severity` is info where andon tells
nobody. What andon does and Prometheus cannot:

"""


def manners() -> str:
    """The whole page."""
    rows = [_row(rule, rung) for rule in RULES for rung in rule.rungs]
    left_out = [f"| `{rule.name}` | {why} |" for rule in RULES if (why := unsaid(rule))]
    return "\n".join(
        [
            INTRO + "\n".join(rows),
            "",
            "The rules about leases judge what the lease book says, in a server that follows it;",
            "while it cannot be read, nothing about leases begins or ends.",
            PROMETHEUS + "\n".join(f"- {words}" for words in DIFFERENCES),
            "",
            "| not in the file | why |",
            "|---|---|",
            *left_out,
            "",
        ]
    )


def _row(rule: Rule, rung: Rung) -> str:
    told = "yes" if rung.notify else "no"
    cells = (f"`{rule.name}`", str(rung.level), told, rung.condition, _time(rung.for_seconds),
             rung.clear_condition, _time(rung.clear_seconds))  # fmt: skip
    return "| " + " | ".join(cells) + " |"
