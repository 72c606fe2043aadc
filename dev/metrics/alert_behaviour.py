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

    andon alerts rules            # every rule, its highest level and its main threshold
    andon alerts rules thermal    # one rule with the thresholds in force

What you will notice first, on the example of a card that gets hot:

1. At 80 °C its lamp becomes an amber ring ("getting too hot", "alert in 60 s"). Nobody is notified,
   and if it cools down again, nothing remains of it.
2. After a minute the alert fires: an amber triangle, a headline, and `andon why` says what to do.
   Nobody is notified yet: 80 °C is no danger.
3. Near its own slowdown temperature, for a minute, the notifiers send one message. At the slowdown
   temperature the lamp is red, and they send one more.
4. Somebody acknowledges it (`andon alerts ack thermal@2`) or silences it for two hours: the lamp
   stays, and nothing more is sent unless it gets worse.
5. It cools down: the lamp follows at once, to amber and then to a ring. After two minutes the alert
   ends, and whoever was notified is told.

## In detail

- **States.** An alert is *pending* from the first sample in which a condition is true, *fires* when
  it has held for its time, and is *resolved* when all levels have been clear for theirs. An alert
  that was only pending leaves no trace.
- **Two thresholds.** An alert that fired at 80 °C is clear at 75 °C, not at 79 °C. A device that
  reports its slowdown temperature is judged by it.
- **Durations count observed time**, on a clock that neither jumps nor stops in suspend; of the time
  since the last sample at most {span(SEEN_SECONDS)}.
- **Missing data is not recovery.** A firing alert continues and says since when there is no data. A
  pending one is dropped after {span(FORGET_SECONDS)}.
- **Each level notifies once** per episode: `firing`, then `worse` if the level rises, and
  `resolved` at the end if anything was sent. Info is never sent. Reminders follow after
  {span(RENOTIFY_SECONDS)}, then after twice as long each time, up to a day.
- **Acknowledged** alerts send no reminders until they get worse. **Silenced** ones send nothing
  until the silence ends; then those that still fire are sent.
- **Related alerts send one message.** A lost device inhibits its other alerts; one that does not
  respond all but Xid, memory errors and its loss; heat throttling and idleness; an idle lease its
  idle devices; a critical Xid the error counter. What still fires when the first ends is sent.
- **Flapping alerts clear more slowly.** One that fires again within {span(FLAP_SECONDS)} must be
  clear for twice as long as the last time, up to {MOST_FACTOR} times. A throttle reason counts as
  present for {span(FLICKER_SECONDS)} after it was last seen.
- **A restart changes nothing.** What was sent is not sent again, and what was not is sent. Xids and
  memory errors from before a reboot are resolved when the device has been fine for a minute.
- **Predictions** need ten minutes of data in which every part rises steadily; the message has the
  best estimate, the earliest and the latest time.
- **A busy, healthy GPU raises only info.**

Thresholds are [settings](settings.md), for all devices, for a model or for one device; a
threshold that is "off" turns its rule off. `python -m bench.alerts` measures the cost.

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
