"""docs/alerting.md, made from the catalogue of alert rules: how alerts behave."""

from dev.metrics.alerting import DIFFERENCES

from andon.alerts.rules.episodes import FLAP_SECONDS, FORGET_SECONDS, MOST_FACTOR, SEEN_SECONDS
from andon.explain.conditions.catalogue import DEFAULTS, RULES
from andon.explain.conditions.condition import Condition, Rung
from andon.explain.conditions.prometheus import no_query_reason
from andon.explain.conditions.rulebook import RENOTIFY_SECONDS
from andon.explain.conditions.with_figures import with_figures
from andon.explain.evidence.track import FLICKER_SECONDS
from andon.units import human_seconds


def span(value: float) -> str:
    """A time as the pages write it: `at once`, `2 min`, `1 h`."""
    return "at once" if value == 0 else human_seconds(value).replace(" h 0 min", " h")


INTRO = f"""# How alerts behave

What you will notice first, on the example of a card that gets hot:

1. At 80 °C its lamp becomes an amber ring ("getting too hot", "alert in 60 s"). Nobody is notified,
   and if it cools down again, nothing remains of it.
2. After a minute the alert fires: the lamp is an amber triangle, the headline names the device, the
   temperature, since when and whose program it is, and `andon why` says what to do. Nobody is
   notified yet: 80 °C is no danger.
3. Near its own slowdown temperature, for a minute, the notifiers send one message. At the slowdown
   temperature the lamp is red, and they send one more.
4. Somebody acknowledges it (`andon alerts ack thermal@2`) or silences it for two hours: the lamp
   stays, but it no longer leads the headline and the lists, and nothing more is sent unless it gets
   worse.
5. It cools down: the lamp follows at once, to amber and then to a ring ("was too hot; now 70 °C,
   clears in 80 s"). After two minutes the alert ends, and whoever was notified is told.

Lost and silent devices, memory errors and full disks go the same way, with their own times. The
rest of this page says exactly when an alert begins, when it ends, and when people are notified;
`andon alerts rules` lists the rules with the thresholds in force.

## In detail

- **States.** A rule has one or more *levels*, each with a condition, a time for which it must hold,
  and a time for which it must be clear. An alert is *pending* from the first sample in which a
  condition is true, *fires* when a condition has held for its time, and is *resolved* when all have
  been clear for theirs. An alert that was only pending leaves no trace.
- **Two thresholds.** An alert that fired at 80 °C is clear at 75 °C, not at 79 °C. The table below
  lists both values.
- **The lamp follows the reading.** A level whose value is clear no longer sets the lamp or the
  level of a list, although the alert stays open until it has been clear for its time. Back above
  the threshold, it counts at once.
- **Own limits first.** A device that reports its slowdown temperature is judged by it, and the
  alert shows both numbers.
- **Durations count observed time**, on a clock that neither jumps nor stops in suspend. Of the time
  since the last sample at most {span(SEEN_SECONDS)} count, so a night of suspend or a restart does
  not make an alert fire.
- **Missing data is not recovery.** While a device does not respond or a value cannot be read, a
  firing alert continues and says since when there is no data. A pending one is dropped after
  {span(FORGET_SECONDS)} without data.
- **Each level notifies once** per episode: `firing`, then `worse` if the level rises, and
  `resolved` at the end if anything was sent. A falling level sends nothing, and info is never sent.
  Reminders follow after {span(RENOTIFY_SECONDS)}, then after twice as long each time, up to a day.
- **Acknowledged** alerts send no reminders until they get worse than the acknowledged level.
  **Silenced** alerts send nothing until the silence ends. Then alerts that still fire and were not
  sent are sent, and so is the end of those that were sent before.
- **Related alerts send one message.** An alert inhibits those that follow from it; they are shown,
  and are sent if they still fire when it ends. A lost device inhibits its other alerts and those of
  its MIG instances. A device that does not respond inhibits all but Xid, memory errors and its
  loss. A vendor's hung driver inhibits the alerts that its devices do not respond. Heat inhibits
  throttling and idleness, an idle lease its idle devices, memory left by a lease the memory that no
  process accounts for, and a critical Xid the error counter.
- **Flapping alerts clear more slowly.** An alert that fires again within {span(FLAP_SECONDS)} must
  be clear for twice as long as the last time, up to {MOST_FACTOR} times.
- **Short gaps do not count.** A card that regulates its heat sets and drops its throttle reason
  every second; a reason counts as present for {span(FLICKER_SECONDS)} after it was last seen.
- **A restart changes nothing.** What was sent is not sent again, and what was not is sent. After a
  reboot the time in between is taken from the wall clock, a day at most. Xids and memory errors
  from before a reboot are resolved when the device has been fine for a minute.
- **Predictions** need ten minutes of data in which every part rises steadily. The message has the
  best estimate, the earliest and the latest time, from the median of all slopes (Theil and Sen).
  Noise, a step, memory that is taken and freed again, and a device that warms up to a stable
  temperature lead to no prediction.
- **A busy, healthy GPU raises only info.** Eight H200 at 99 % of their power and 97 % of their
  memory for an hour cause no message, and their lamps stay green.

Thresholds are [settings](settings.md), for all devices, for a model or for one device; a
threshold that is "off" turns its rule off. `python -m bench.alerts` measures the cost: judging 64
devices by every rule takes less than 2 ms per sample.

## When each rule fires and ends

"Sent" says whether people are notified; every alert is on the board.

| rule | level | sent | fires when | for | ends when | for |
|---|---|---|---|---|---|---|
"""

PROMETHEUS = """
## The same rules in Prometheus

[andon-rules.yml](../deploy/prometheus/andon-rules.yml) is generated from the same catalogue, and a
test plays the timelines through `promtool test rules`. `severity` is info where andon notifies no
one. The rules differ from andon in these points:

"""


def alert_behaviour() -> str:
    """The whole page."""
    rules = [with_figures(rule, DEFAULTS) for rule in RULES]
    rows = [_row(rule, rung) for rule in rules for rung in rule.rungs]
    left_out = [f"| `{rule.name}` | {why} |" for rule in RULES if (why := no_query_reason(rule))]
    return "\n".join(
        [
            INTRO + "\n".join(rows),
            "",
            "The rules about leases need a server that follows the lease book; while it cannot be",
            "read, alerts about leases neither begin nor end.",
            PROMETHEUS + "\n".join(f"- {words}" for words in DIFFERENCES),
            "",
            "| not in the file | why |",
            "|---|---|",
            *left_out,
            "",
        ]
    )


def _row(rule: Condition, rung: Rung) -> str:
    told = "yes" if rung.notify else "no"
    cells = (f"`{rule.name}`", str(rung.level), told, rung.condition, span(rung.for_seconds),
             rung.clear_condition, span(rung.clear_seconds))  # fmt: skip
    return "| " + " | ".join(cells) + " |"
