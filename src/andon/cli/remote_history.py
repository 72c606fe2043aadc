"""A server's history in place of this machine's file, for `andon history --url`."""

from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from andon.cli.remote import Server
from andon.core.series import Bucket
from andon.core.series_uses import Use
from andon.errors import Invalid
from andon.model import wire
from andon.model.device import Device

T = TypeVar("T")


class RemoteHistory:
    """Answers what a store answers that is only read."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def devices(self) -> Sequence[Device]:
        said = self._server.get("/api/history/devices")
        return self._each(Device, said, "items", "uuid", "index", "vendor", "name")

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        path = f"/api/devices/{quote(device, safe='')}/history"
        said = self._server.get(path, metric=metric, from_=since, to=until, points=points)
        names = ("since", "until", "count", "min", "mean", "max")
        return self._each(Bucket, said, "buckets", *names)

    def uses(self, device: str | None, since: float, until: float) -> Sequence[Use]:
        said = self._server.get("/api/uses", device=device, from_=since, to=until)
        names = ("device", "pid", "started", "user", "name", "first", "last")
        return self._each(Use, said, "items", *names, "peak_memory_bytes")

    def close(self) -> None:
        """Nothing is kept open."""

    def _each(self, kind: type[T], said: wire.Json, place: str, *names: str) -> list[T]:
        """Only what is known here: a newer server may say more."""
        items: Any = said.get(place)
        try:
            return [kind(**{name: item[name] for name in names}) for item in items]
        except (TypeError, KeyError, Invalid) as exc:
            raise self._server.of_another_version(f"it says its {place} otherwise") from exc
