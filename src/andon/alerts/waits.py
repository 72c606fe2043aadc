"""The waiting times of watching, storing and notifying."""

from msgspec import Struct

from andon.failures.rules.backoff import BackOff


class AlertWaits(Struct, frozen=True):
    """Waiting times in seconds, and the delays before retries."""

    opening: float = 5.0
    commit: float = 5.0
    silent: float = 10.0
    leaving: float = 2.0
    turn: float = 2.5  # longer than the usual interval: no sample is waited for in vain
    gather: float = 1.0  # alerts with one cause arrive together, and become one message
    stuck_store: float = 10.0
    stuck_notifier: float = 90.0
    back_off: BackOff = BackOff()


USUAL = AlertWaits()
