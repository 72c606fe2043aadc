"""Which past alerts are asked for, and which are kept."""

from dataclasses import dataclass, replace

from andon.model.alert import Alert, Level, Party, Phase

MOST_EPISODES = 20_000
MOST_BYTES = 5_000_000
"""A year of them stays well below 10 MB on disk, index and free pages included."""
KEPT_SECONDS = 400 * 86_400.0
MOST_PARTIES = 4
COMMAND_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for; None means any."""

    since: float | None = None
    until: float | None = None
    state: Phase | None = None
    level: Level | None = None
    rule: str | None = None
    subject: str | None = None
    limit: int = 100


def matches(query: Query, alert: Alert) -> bool:
    """The one meaning of a query, for every ledger: an episode counts from where it began."""
    ended = alert.since if alert.resolved is None else alert.resolved
    return (
        (query.since is None or ended >= query.since or alert.state is not Phase.RESOLVED)
        and (query.until is None or alert.since < query.until)
        and query.state in (None, alert.state)
        and query.level in (None, alert.level)
        and query.rule in (None, alert.rule)
        and query.subject in (None, alert.subject)
    )


def is_kept(alert: Alert) -> bool:
    """What never fired was nothing."""
    return alert.fired is not None


def trimmed(alert: Alert) -> Alert:
    """As it is kept for a year: with a few of those whom it concerned, and short command lines."""
    return replace(alert, affected=tuple(_short(party) for party in alert.affected[:MOST_PARTIES]))


def _short(party: Party) -> Party:
    command = party.command
    if command is None or len(command) <= COMMAND_CHARACTERS:
        return party
    return replace(party, command=command[: COMMAND_CHARACTERS - 1] + "…")
