"""Which devices are not to be handed out, because what they reported means that they are broken."""

from collections.abc import Iterable

from andon.model.alert import Alert, Level, Phase

RULES = frozenset({"xid", "ecc"})


def ailments(alerts: Iterable[Alert]) -> dict[str, str]:
    """uuid -> why; gone when the alert is over: a reboot, a counter that began anew, or a day
    without another error."""
    return {alert.subject: _words(alert) for alert in alerts if _means_broken(alert)}


def _means_broken(alert: Alert) -> bool:
    """An error that is the application's own, or errors from before, withhold nothing."""
    critical = alert.level is Level.CRITICAL and alert.state is Phase.FIRING
    return critical and alert.rule in RULES and alert.subject != "node"


def _words(alert: Alert) -> str:
    """`reports Xid 79: …`; whoever prints it names the device."""
    device = alert.where.partition(" (")[0]
    return alert.message.removeprefix(f"{device} ") or f"{alert.rule} fires"
