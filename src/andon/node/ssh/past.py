"""The history and the runs of a host over SSH, as `andon history` and `andon runs` print them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.errors import AndonError, Gone
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import HOST, Bucket
from andon.model.codec import Wrong
from andon.model.device import Device
from andon.model.run.record import RunRow
from andon.model.run.wire import row_from_json
from andon.model.wire import Json
from andon.node.remote.past import RemotePast
from andon.node.ssh.client import SshHost
from andon.node.ssh.live import SshLive
from andon.runs.rules.matching import RunListing, RunQuery, matches

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook

TOGETHER = (
    "utilization_percent,power_watts,power_limit_watts,temperature_celsius,memory_used_bytes,"
    "memory_free_bytes,memory_reserved_bytes"
)
"""Readings that a history shows together: they are asked for at once."""
FEW_POINTS = 400


class SshPast(RemotePast):
    """The history as `andon history` prints it there; each span is asked for once."""

    def __init__(self, host: SshHost) -> None:
        super().__init__(host)  # type: ignore[arg-type]
        self._host = host
        self._kept: dict[tuple[str, ...], Json] = {}

    @property
    def recorded(self) -> bool:  # type: ignore[override]
        try:
            self._asked("--who", "--since", "1h")
        except AndonError:
            return False
        return True

    def devices(self) -> Sequence[Device]:
        listed = self._asked("--metric", "utilization_percent", "--points", "1").get("series")
        known = {str(one.get("device")) for one in listed} if isinstance(listed, list) else set()
        now = [status.device for status in SshLive(self._host, _no_rules).read().devices]
        return [device for device in now if device.uuid in known]

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        many = metric in TOGETHER.split(",") and points <= FEW_POINTS and device != HOST
        span = ("--since", f"@{since:.3f}", "--until", f"@{until:.3f}", "--points", str(points))
        named = ("--device", HOST) if device == HOST else ()
        found = self._asked("--metric", TOGETHER if many else metric, *span, *named).get("series")
        for one in found if isinstance(found, list) else ():
            if one.get("device") == device and one.get("metric") == metric:
                return self._each(one, "buckets", Bucket)
        raise Gone(f"nothing is recorded of {device[:40]!r}")

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], dict[str, list[float | None]]]:
        span = ("--since", f"@{since:.3f}", "--until", f"@{until:.3f}", "--points", str(points))
        found = self._asked("--metric", "throttle", *span).get("series")
        counts, shares = [0] * points, dict[str, list[float | None]]()
        for one in found if isinstance(found, list) else ():
            if one.get("device") == device:
                buckets = self._each(one, "buckets", Bucket)
                counts = [bucket.count for bucket in buckets]
                name = str(one.get("metric")).removeprefix("throttle_").removesuffix("_percent")
                shares[name] = [None if b.mean is None else b.mean / 100.0 for b in buckets]
        shares.pop("any", None)
        return counts, shares

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        span = ("--since", f"@{since:.3f}", "--until", f"@{until:.3f}")
        found = self._each(self._asked("--who", *span), "usage", UsageInterval)
        return [use for use in found if device in (None, use.device)]

    def _asked(self, *words: str) -> Json:
        if words not in self._kept:
            self._kept[words] = self._host.ask(("history", "--json", *words))[0]
        return self._kept[words]


class SshRuns:
    """The runs that `andon runs` lists there; records stay there."""

    def __init__(self, host: SshHost) -> None:
        self._host = host

    def listed(self, query: RunQuery) -> RunListing:
        rows, total = self._rows()
        found = [row for row in rows if matches(row, query)]
        return RunListing(found[: query.limit], max(total, len(found)))

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        return self.listed(query).rows

    def is_id(self, word: str) -> bool:
        return any(row.id == word for row in self._rows()[0])

    def resolve(self, word: str) -> RunRow:
        for row in self._rows()[0]:
            if word in (row.id, "last"):
                return row
        raise Gone(f"there is no run {word[:40]!r} there")

    def with_record(self, row: RunRow) -> RunRow:
        raise self._host.refused()

    def close(self) -> None:
        """Does nothing: nothing was downloaded."""

    def _rows(self) -> tuple[list[RunRow], int]:
        page = self._host.ask(("runs", "--json", "-n", "1000"))[0]
        try:
            return [row_from_json(one) for one in page["runs"]], int(page["total"])
        except (Wrong, KeyError, TypeError, ValueError) as exc:
            raise self._host.of_another_version(f"a run is not as expected: {exc}") from exc


def _no_rules() -> "Rulebook":
    raise AssertionError("a list of devices needs no thresholds")
