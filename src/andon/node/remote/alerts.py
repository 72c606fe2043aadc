"""The alerts of a server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from andon.alerts.rules.overview import AlertOverview, Outcomes
from andon.errors import Invalid
from andon.model.alert import Alert, AlertList, Silence
from andon.model.codec import JsonDocument, Text, Wrong, document, read, read_document
from andon.model.shapes import to_json
from andon.model.wire import Json
from andon.node.following import followed
from andon.node.rest import RestServer

T = TypeVar("T")

MOST = 1000


class RemoteAlerts:
    """Alerts that a server judges; the server also resolves device names."""

    notifies = True

    def __init__(self, server: RestServer) -> None:
        self.server = server

    def page(self, since: float | None = None, devices: Sequence[str] = ()) -> AlertOverview:
        query: dict[str, Any] = {"limit": MOST}
        if since is not None:
            query["since"] = max(0.0, since)
        each = [{**query, "device": device} for device in devices] or [query]
        replies = (self.server.get(f"/api/alerts?{urlencode(one)}") for one in each)
        pages = [self._read(page_from_json, one) for one in replies]
        found = {alert.id: alert for page in pages for alert in page.alerts}
        return replace(pages[0], alerts=tuple(found.values()))

    def pages(self, devices: Sequence[str] = ()) -> Iterator[AlertOverview]:
        return followed(self, devices)

    def check_server(self) -> None:
        """Does nothing: there is a server."""

    def alert(self, number: str) -> Alert:
        return self._alert(self.server.get(_at(number)))

    def rules(self) -> Json:
        from andon.alerts.rules.rule_page import RuleList

        return self._document(RuleList, self.server.get("/api/alerts/rules"))

    def rule(self, name: str) -> Json:
        from andon.alerts.rules.rule_page import RulePage

        payload = self.server.get(f"/api/alerts/rules/{quote(name, safe='')}")
        return self._document(RulePage, payload)

    def acknowledge(self, number: str, by: str, note: str) -> Alert:
        body = {"by": by, "note": note}
        return self._alert(self.server.post(_at(number, "/acknowledge"), body))

    def unacknowledge(self, number: str) -> Alert:
        return self._alert(self.server.delete(_at(number, "/acknowledge")))

    def silence(self, body: Mapping[str, Any]) -> Silence:
        payload = self.server.post("/api/silences", {**body})
        return self._read(lambda made: read(Silence, made), payload)

    def unsilence(self, number: str) -> None:
        self.server.delete(f"/api/silences/{quote(number, safe='')}")

    def test(self, notifier: str | None) -> Json:
        payload = self.server.post("/api/alerts/test", {"notifier": notifier})
        return self._read(lambda reply: to_json(read(Outcomes, reply)), payload)

    def _alert(self, payload: Json) -> Alert:
        return self._read(lambda alert: read(Alert, alert), payload)

    def _document(self, kind: type[JsonDocument], payload: Json) -> Json:
        return document(self._read(partial(read_document, kind), payload))

    def _read(self, read: Callable[[Json], T], payload: Json) -> T:
        """Parses the server's answer, which must be that of a server of this version."""
        try:
            return read(payload)
        except (Invalid, Wrong) as exc:
            raise self.server.of_another_version(str(exc)) from exc


def page_from_json(payload: Json) -> AlertOverview:
    found = read_document(ListedAlerts, payload)
    return AlertOverview(
        node=found.node,
        at=found.at,
        alerts=found.alerts,
        silences=found.silences,
        simulated=found.simulated,
        note=found.note,
    )


class ListedAlerts(AlertList, frozen=True):
    """A server's list of alerts, which may have a note."""

    note: Text | None = None


def _at(number: str, tail: str = "") -> str:
    return f"/api/alerts/{quote(number, safe='')}{tail}"
