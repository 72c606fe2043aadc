"""A store as another package may add it: all nodes of a URL in the memory of one process."""

from pathlib import Path
from typing import Any, ClassVar, TypeVar

from andon.errors import Gone
from andon.ports import AlertStore, RunIndex, Store
from andon.settings.store_url import StoreUrl
from andon.stores.memory import MemoryAlertStore, MemoryRunIndex, MemoryStore

T = TypeVar("T")


class Shelf:
    """Keeps what was opened, by URL and node."""

    kept: ClassVar[dict[tuple[str, str, type], Any]] = {}

    @classmethod
    def open(cls, url: StoreUrl, node: str, readonly: bool = False) -> Store:
        if readonly and (url.text, node, MemoryStore) not in cls.kept:
            raise Gone(f"{url} has nothing of {node}")
        return cls._kept(url, node, MemoryStore)

    @classmethod
    def open_alerts(cls, url: StoreUrl, node: str) -> AlertStore:
        return cls._kept(url, node, MemoryAlertStore)

    @classmethod
    def open_runs(cls, url: StoreUrl, node: str) -> RunIndex:
        return cls._kept(url, node, MemoryRunIndex)

    @classmethod
    def files(cls, url: StoreUrl) -> dict[str, Path]:
        return {}

    @classmethod
    def _kept(cls, url: StoreUrl, node: str, kind: type[T]) -> T:
        found: T = cls.kept.setdefault((url.text, node, kind), kind())
        return found
