"""An alert at midnight, for routes and quiet hours."""

from andon.model.alert import Alert, Level, Phase
from andon.model.event import Party

HOUR = 3600.0
DAY = 24 * HOUR
MIDNIGHT = 20_000 * DAY
HOT = Alert(
    id="thermal@GPU-1#1",
    rule="thermal",
    subject="GPU-1",
    level=Level.WARNING,
    state=Phase.FIRING,
    since=MIDNIGHT,
    device=3,
    affected=(Party(1, "ada"),),
)


def utc(_at: float) -> float:
    return 0.0
