"""The alerts of a node at one time, as every list of them is made."""

from msgspec import Struct

from andon.alerts.rules import listing
from andon.alerts.rules.listing import Entry
from andon.model.alert import Alert, Level, Phase, Silence
from andon.model.codec import Name, Text

NOT_KNOWN = "its alerts are not known"


class Outcome(Struct, frozen=True):
    """The result of one test message."""

    notifier: Name
    ok: bool
    reason: Text | None
    hint: Text | None


class Outcomes(Struct, frozen=True):
    """The results of all test messages."""

    results: list[Outcome]
    note: Text | None


class AlertOverview(Struct, frozen=True):
    """Everything that `andon alerts` shows at one time."""

    node: str
    at: float
    alerts: tuple[Alert, ...]
    silences: tuple[Silence, ...] = ()
    simulated: bool = False
    note: str | None = None
    everything: bool = False  # also what is no alert to people, such as being in use

    @property
    def listed(self) -> list[Alert]:
        """Returns the alerts to list, in the order of every surface."""
        return listing.listed(self.alerts, self.everything)

    @property
    def entries(self) -> list[Entry]:
        """Returns the alerts to list, each with those it explains."""
        return listing.entries(self.alerts, self.everything)

    @property
    def is_known(self) -> bool:
        """Whether these are all alerts; a hub does not know those of a silent node."""
        return not (self.note or "").endswith(NOT_KNOWN)

    @property
    def nothing_readable(self) -> bool:
        """Whether no device can be read, according to an alert or to the hub."""
        if not self.is_known:
            return True
        firing = (alert for alert in self.alerts if alert.state is Phase.FIRING)
        return any(alert.evidence.get("devices_readable") == 0 for alert in firing)

    @property
    def worst(self) -> Level | None:
        return listing.worst(self.alerts)
