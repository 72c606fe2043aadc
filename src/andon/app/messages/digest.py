"""The digest of a week: read from nodes, and sent by a server when [reports] says so."""

import time
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from andon.alerts.rules.digest import (
    WEEK_SECONDS,
    MachineWeek,
    WeekDigest,
    digest_notice,
    is_due,
)
from andon.alerts.rules.outbox import node_of
from andon.alerts.watcher import Watcher
from andon.errors import AndonError, Invalid
from andon.history.rules.usage import UNKNOWN_USER
from andon.host.clock import offset
from andon.leases.policy_file import group_of, policy_state
from andon.model.alert import Alert
from andon.model.device import Device, Snapshot
from andon.model.run.record import RunState
from andon.node.past_use import PastUse, past_use, read_runs
from andon.node.port import Node
from andon.settings.alerts import NotifierSettings
from andon.settings.moments import last_weekly
from andon.settings.resolution import Settings

CHECK_SECONDS = 60.0
NOT_FAILED = (RunState.RUNNING, RunState.SUCCEEDED, RunState.STOPPED, RunState.ENDED)

Nodes = Mapping[str, Node | AndonError]
"""By name; an error where one cannot be asked."""


def read_digest(nodes: Nodes, until: float, settings: Settings) -> WeekDigest:
    """Returns the week of these nodes, by what they answer to `andon who` and `andon alerts`."""
    policy, _ = policy_state()
    return WeekDigest(
        until,
        tuple(_machine(name, node, until) for name, node in nodes.items()),
        offset(settings.alerts_time_zone),
        lambda user: group_of(policy, user) or UNKNOWN_USER,
        settings.runs_price_per_kwh or None,
        settings.runs_currency,
    )


def _machine(name: str, node: Node | AndonError, until: float) -> MachineWeek:
    since = until - WEEK_SECONDS
    if isinstance(node, AndonError):
        return MachineWeek(name, {}, recorded=False, notes=(node.reason,))
    runs, past, alerts, notes = read_runs(node, since), PastUse(), list[Alert](), list[str]()
    rows, known = [row for row in runs.rows if row.began < until], list[Device]()
    try:
        known += node.past.devices()
        past = past_use(node.past, since, None, rows, until)
    except AndonError as error:
        notes.append(f"GPU hours are not known: {error.reason}")
    try:
        page = node.alerts.page(since)
        notes += [f"alerts: {page.note}"] if page.note else []
        alerts = [one.alert for one in page.entries if node_of(one.alert.id) in ("", name)]
    except AndonError as error:
        notes.append(f"alerts are not known: {error.reason}")
    is_demo = bool(known) and all(one.vendor == "sim" for one in known)
    simulated = (is_demo or bool(past.simulated)) and not past.real
    days, rows = past.real or past.simulated, [r for r in rows if r.simulated == simulated]
    failed = sum(row.state not in NOT_FAILED for row in rows)
    return MachineWeek(
        name, days, past.recorded, tuple(alerts), len(rows), failed, tuple(notes), simulated
    )


def recipients(settings: Settings) -> list[NotifierSettings]:
    """Returns the notifiers of [reports]; raises Invalid for a name that none has, and where a
    digest would reach nobody. Alertmanager takes alerts alone."""
    known = {one.name: one for one in settings.alerts_notifiers if one.kind != "alertmanager"}
    for name in settings.reports_by:
        if name not in known:
            hint = f"notifiers: {', '.join(known) or 'none'}"
            raise Invalid(f"reports.by: no notifier that takes digests is named {name!r}", hint)
    if settings.reports_weekly and not known:
        hint = "name one: andon alerts notify add"
        raise Invalid("reports.weekly: there is no notifier that takes digests", hint)
    return [known[name] for name in settings.reports_by or known]


class DigestSender:
    """Sends the digest of each week once, by the settings in force."""

    def __init__(
        self, watcher: Watcher, settings: Callable[[], Settings], nodes: Callable[[], Nodes]
    ) -> None:
        self._watcher, self._settings, self._nodes = watcher, settings, nodes
        recipients(settings())  # a mistake ends the start, not the first week

    def check(self, _: Snapshot) -> None:
        """Sends a digest that is due. While the store cannot say whether it was sent, none is."""
        at, settings = time.time(), self._settings()
        if not settings.reports_weekly:
            return
        last = last_weekly(settings.reports_weekly, at, offset(settings.alerts_time_zone))
        due, to = is_due(self._watcher.reported, at, last), recipients(settings)
        week = read_digest(self._nodes(), last, settings) if due else None
        if due is not False:
            made = {} if week is None else {n.name: digest_notice(week, n.owners) for n in to}
            self._watcher.report(at, {n: replace(one, at=at) for n, one in made.items()})
