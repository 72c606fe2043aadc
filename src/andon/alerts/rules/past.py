"""Queries over past alerts, and what is stored of them."""

from msgspec import Struct
from msgspec.structs import replace

from andon.model.alert import Alert, Level, Phase
from andon.model.event import Party

MOST_EPISODES = 20_000
MOST_BYTES = 5_000_000
"""A year of alerts stays well below 10 MB on disk, including index and free pages."""
RETENTION_SECONDS = 400 * 86_400.0
MOST_PARTIES = 4
COMMAND_CHARACTERS = 200


class Query(Struct, frozen=True):
    """A query over alerts; None means any."""

    since: float | None = None
    until: float | None = None
    state: Phase | None = None
    level: Level | None = None
    rule: str | None = None
    subject: str | None = None
    limit: int = 100


def matches(query: Query, alert: Alert) -> bool:
    """Whether an alert matches, the same for every store; an episode counts from its start."""
    ended = alert.since if alert.resolved is None else alert.resolved
    return (
        (query.since is None or ended >= query.since or alert.state is not Phase.RESOLVED)
        and (query.until is None or alert.since < query.until)
        and query.state in (None, alert.state)
        and query.level in (None, alert.level)
        and query.rule in (None, alert.rule)
        and query.subject in (None, alert.subject)
    )


def is_stored(alert: Alert) -> bool:
    """Whether an alert is stored: only those that fired are."""
    return alert.fired is not None


def trimmed(alert: Alert, most_parties: int = MOST_PARTIES) -> Alert:
    """Returns an alert as it is stored for a year: with few people, and short command lines."""
    return replace(alert, affected=tuple(_short(party) for party in alert.affected[:most_parties]))


def _short(party: Party) -> Party:
    command = party.command
    if command is None or len(command) <= COMMAND_CHARACTERS:
        return party
    return replace(party, command=command[: COMMAND_CHARACTERS - 1] + "…")
