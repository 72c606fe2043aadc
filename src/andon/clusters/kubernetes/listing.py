"""Lists of Kubernetes' objects: read page by page, then kept up to date by a watch."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.json import Decoder

from andon.clusters.kubernetes.rules.failures import ListExpired, failure
from andon.clusters.kubernetes.rules.objects import ListOf, ObjectMeta, WatchEvent
from andon.clusters.kubernetes.transport import ApiTransport
from andon.errors import AndonError, Unavailable
from andon.units import whole_number

PAGE: Final = 2500
"""Objects of one answer: some megabytes."""
RESTARTS: Final = 3
LIST_SECONDS: Final = 300.0
"""A list is fetched again this often, even while a watch follows it."""
LONGEST_LINE: Final = 8 << 20


class HasMeta(Protocol):
    """An object of the API."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=HasMeta)


def with_query(path: str, **values: str) -> str:
    """Returns a path with a query of the values that are not empty."""
    pairs = [f"{name}={quote(value, safe='')}" for name, value in values.items() if value]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def parsed(kind: Any, body: bytes) -> Any:
    """Parses an answer as this type."""
    try:
        return _decoder(kind).decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as exc:
        raise Unavailable(f"Kubernetes answers something else: {exc}"[:200]) from exc


_decoder = cache(Decoder)


def list_all(
    transport: ApiTransport, path: str, kind: type[T], **query: str
) -> tuple[list[T], str]:
    """Returns all objects and the version of the list; starts again if its pages expire."""
    for _ in range(RESTARTS):
        with suppress(ListExpired):
            return _pages(transport, path, kind, query)
    raise Unavailable("the list of Kubernetes expired again and again", hint="try it later")


def _pages(
    transport: ApiTransport, path: str, kind: type[T], query: dict[str, str]
) -> tuple[list[T], str]:
    found, token = list[T](), ""
    while True:
        page_path = with_query(path, limit=str(PAGE), **query, **{"continue": token})
        page = parsed(ListOf[kind], transport.ask("GET", page_path))  # type: ignore[valid-type]
        found += page.items or ()
        token = page.metadata.next
        if not token:
            return found, page.metadata.resource_version


class FollowedList(Generic[T]):
    """A list that is read once and then kept up to date by a watch. The watch's thread starts at
    the second use: a single command needs none. Only objects that `keep` accepts are in it."""

    def __init__(
        self,
        transport: ApiTransport,
        path: str,
        kind: type[T],
        keep: Callable[[T], object] | None = None,
        **query: str,
    ) -> None:
        self._transport, self._path, self._kind, self._query = transport, path, kind, query
        self._keep = keep or (lambda _: True)
        self._lock = threading.Lock()
        self._objects, self._version = dict[str, T](), ""
        self._gone = set[str]()
        """Objects that the watch reported as deleted since the last list."""
        self._listed, self._watching, self._stale = float("-inf"), False, False

    def items(self) -> Sequence[T]:
        """Returns the current objects; raises the error of the request."""
        with self._lock:
            young = time.monotonic() - self._listed < LIST_SECONDS
            if self._watching and young and not self._stale:
                return list(self._objects.values())
            again, self._stale = self._listed > float("-inf"), False
            self._gone = set[str]()
        found, version = list_all(self._transport, self._path, self._kind, **self._query)
        with self._lock:
            new = {_key(one): one for one in found if self._keep(one)}
            self._objects = self._with_later(new, version) if self._watching else new
            self._listed = time.monotonic()
            if again and not self._watching and version:
                self._watching, self._version = True, version
                threading.Thread(target=self._watch, name="watch", daemon=True).start()
            return list(self._objects.values())

    def forget(self) -> None:
        """Reads the list again at its next use, because this process has changed something."""
        with self._lock:
            self._stale = True

    def _with_later(self, new: dict[str, T], version: str) -> dict[str, T]:
        """Returns a list with the changes that the watch has reported and that are newer than the
        list."""
        listed = whole_number(version) or 0
        later = {
            key: one
            for key, one in self._objects.items()
            if _age(one) > (_age(new[key]) if key in new else listed)
        }
        return {key: one for key, one in (new | later).items() if key not in self._gone}

    def _watch(self) -> None:
        """Keeps the list up to date until the watch fails; then it is requested again."""
        with suppress(AndonError):
            while self._follow_once():
                pass
        with self._lock:
            self._watching = False

    def _follow_once(self) -> bool:
        """Reads one watch to its end; returns whether another is wanted."""
        began, query = time.monotonic(), {**self._query, "resourceVersion": self._version}
        path = with_query(self._path, watch="1", allowWatchBookmarks="true", **query)
        decoder = _decoder(WatchEvent[self._kind])  # type: ignore[name-defined]
        for line in lines_of(self._transport.stream(path, LIST_SECONDS)):
            if b'"ERROR"' in line[:40]:
                raise failure("Expired", "the watch ended")
            try:
                event = decoder.decode(line)
            except msgspec.MsgspecError as exc:
                raise Unavailable("the watch was cut") from exc
            self._take(event.type, event.object)
        # One that ends at once is a server in trouble: the next use lists again.
        return time.monotonic() - began > 1.0

    def _take(self, kind: str, one: T) -> None:
        """Applies a change, unless a list already had a newer version of the object."""
        with self._lock:
            self._version = one.metadata.resource_version or self._version
            key = _key(one)
            known = self._objects.get(key)
            if known is not None and _age(known) > _age(one):
                return
            if kind == "DELETED" or not self._keep(one):
                self._objects.pop(key, None)
                self._gone.add(key)
            elif kind != "BOOKMARK":
                self._objects[key] = one


def _age(one: HasMeta) -> int:
    return whole_number(one.metadata.resource_version) or 0


def _key(one: HasMeta) -> str:
    return one.metadata.uid or f"{one.metadata.namespace}/{one.metadata.name}"


def lines_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yields whole lines; an incomplete last line is left out."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line for line in lines if line.strip())
        if len(rest) > LONGEST_LINE:
            raise Unavailable("a line of the watch is too long")
