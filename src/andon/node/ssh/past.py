"""The history, the alerts and the runs of a host over SSH, as andon prints them there."""

from collections.abc import Sequence

from andon.errors import AndonError, Gone, Invalid
from andon.history.rules.changes import ChangeList
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.notes import HistoryNote
from andon.history.rules.series import HOST, USED, Bucket
from andon.model.codec import Wrong, read, read_document
from andon.model.device import Device
from andon.model.run.record import RunRow
from andon.model.run.wire import row_from_json
from andon.model.wire import Json
from andon.node.remote.alerts import RemoteAlerts
from andon.node.remote.past import RemotePast
from andon.node.remote.runs import RemoteRuns
from andon.node.ssh.client import SshHost
from andon.runs.rules.matching import RunQuery

OFTEN = "utilization_percent,power_watts"
TOGETHER = (
    f"{OFTEN},power_limit_watts,temperature_celsius,memory_used_bytes,memory_free_bytes,"
    "memory_reserved_bytes"
)
"""Readings that are shown together are asked for at once, the first two also in many points."""
FEW_POINTS = 400
USES = ",".join(USED)  # read together, too
MOST_RUNS, MOST_CACHED = 1000, 4


class SshPast(RemotePast):
    """The history that `andon history` prints on the host; each time span is read once."""

    def __init__(self, host: SshHost) -> None:
        super().__init__(host)
        self._host = host
        self._cache: dict[tuple[str, ...], Json] = {}

    @property
    def recorded(self) -> bool:  # type: ignore[override]
        try:
            self.devices()
        except AndonError:
            return False
        return True

    def devices(self) -> Sequence[Device]:
        listed = self._series("utilization_percent", "--points", "1")
        try:
            names = ("index", "vendor", "name")
            found = [{n: one.get(n) for n in names} | {"uuid": one["device"]} for one in listed]
            return [read(Device, one) for one in found if one["index"] is not None]
        except (Wrong, KeyError) as exc:
            raise self._host.of_another_version(f"a recorded device: {exc}") from exc

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        more = ("--device", HOST) if device == HOST else ()
        metrics = metric if more else _with_others(metric, points)
        for one in self._series(metrics, *_span(since, until, points), *more):
            if one.get("device") == device and one.get("metric") == metric:
                return self._each(one, "buckets", Bucket)
        raise Gone(f"nothing is recorded of {device[:40]!r}")

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], dict[str, list[float | None]]]:
        counts, shares = [0] * points, dict[str, list[float | None]]()
        for one in self._series("throttle", *_span(since, until, points)):
            if one.get("device") == device:
                buckets = self._each(one, "buckets", Bucket)
                counts = [bucket.count for bucket in buckets]
                name = str(one.get("metric")).removeprefix("throttle_").removesuffix("_percent")
                shares[name] = [None if b.mean is None else b.mean / 100.0 for b in buckets]
        shares.pop("any", None)
        return counts, shares

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        found = self._each(self._query("--who", *_span(since, until)), "usage", UsageInterval)
        return [use for use in found if device in (None, use.device)]

    def notes(self, device: str | None, since: float, until: float) -> Sequence[HistoryNote]:
        more = () if device is None else ("--device", device)
        found = self._query("--metric", "utilization_percent", *_span(since, until, 1), *more)
        return self._each(found, "notes", HistoryNote) if "notes" in found else ()

    def changes(self, device: str, since: float, until: float) -> ChangeList:
        middle, seconds = f"@{(since + until) / 2:.3f}", f"{until - since:.3f}s"
        command = ("why", "--device", device, "--at", middle, "--range", seconds, "--json")
        try:
            return read_document(ChangeList, self._host.object(command))
        except Invalid as exc:
            raise self._host.of_another_version(exc.reason) from exc

    def _series(self, metrics: str, *options: str) -> list[Json]:
        found = self._query("--metric", metrics, *options).get("series")
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def _query(self, *options: str) -> Json:
        if options not in self._cache:
            queries = [options]
            if options[:2] == ("--metric", OFTEN):  # whoever asks for it also asks who used them
                queries.append(("--who", *options[2:6]))
            found = self._host.objects(*(("history", "--json", *one) for one in queries))
            cached = [*self._cache.items(), *zip(queries, found, strict=True)]
            self._cache = dict(cached[-MOST_CACHED:])
        return self._cache[options]


def _with_others(metric: str, points: int) -> str:
    """Returns the group of readings that is requested together with this one."""
    groups = (TOGETHER if points <= FEW_POINTS else OFTEN, USES)
    return next((one for one in groups if metric in one.split(",")), metric)


def _span(since: float, until: float, points: int | None = None) -> tuple[str, ...]:
    span = ("--since", f"@{since:.3f}", "--until", f"@{until:.3f}")
    return span if points is None else (*span, "--points", str(points))


class SshAlerts(RemoteAlerts):
    """Alerts as `andon alerts` lists them there; read-only."""

    notifies = False

    def check_server(self) -> None:
        self.server.post("")


class SshRuns(RemoteRuns):
    """The runs that `andon runs` prints on the host; their records are not downloaded."""

    def __init__(self, host: SshHost) -> None:
        super().__init__(host)
        self._host = host

    def _page(self, query: RunQuery, offset: int, limit: int) -> Json:
        given = {"--tag": query.tag, "--group": query.group, "--state": query.state}
        options = [str(w) for pair in given.items() if pair[1] is not None for w in pair]
        found = self._host.object(("runs", "--json", "-n", str(MOST_RUNS), *options))
        rows = found.get("runs")
        return {**found, "items": rows[offset:] if isinstance(rows, list) else None}

    def _one(self, word: str) -> RunRow:
        for row in self._each(RunQuery()):
            if row.id == word:
                return row
        raise Gone(f"there is no run {word[:40]!r}", hint="to list them: andon runs")

    def _row(self, value: Json) -> RunRow:
        try:
            return row_from_json(value)
        except Wrong as exc:
            raise self._host.of_another_version(f"a run is not as expected: {exc}") from exc
