"""Sample alerts and notices: those of the contract for alert stores, and what tests add."""

from andon.model.alert import Alert, Notice, NoticeKind
from andon.testing.alert_store_contract import AT as AT
from andon.testing.alert_store_contract import DISK as DISK
from andon.testing.alert_store_contract import HOT as HOT
from andon.testing.alert_store_contract import LOST as LOST
from andon.testing.alert_store_contract import notice as notice
from andon.testing.alert_store_contract import over as ended


def berlin(_at: float) -> float:
    return 3600.0


def over(alert: Alert) -> Notice:
    return notice(ended(alert), NoticeKind.RESOLVED)
