"""Which devices are excluded because of an error they reported."""

from collections.abc import Iterable

from andon.model.alert import Alert, Level, Phase

BROKEN_RULES = frozenset({"xid", "ecc"})


def reported_broken(alerts: Iterable[Alert]) -> dict[str, str]:
    """Returns why devices are broken, by uuid, until the alert resolves: a reboot, a counter
    reset, or a day without another error."""
    return {alert.subject: _reason(alert) for alert in alerts if _means_broken(alert)}


def _means_broken(alert: Alert) -> bool:
    """Whether an alert excludes its device: a program's own error, or an old one, does not."""
    critical = alert.level is Level.CRITICAL and alert.state is Phase.FIRING
    return critical and alert.rule in BROKEN_RULES and alert.subject != "node"


def _reason(alert: Alert) -> str:
    """Returns `reports Xid 79: …`; the caller adds the device."""
    device = alert.where.partition(" (")[0]
    return alert.message.removeprefix(f"{device} ") or f"{alert.rule} fires"
