"""History, alerts and an index of runs in memory: SQLite without a file, for tests and for use
where nothing may be written."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from andon.errors import Gone
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import NodeReadings
from andon.history.rules.tiers import StoreContents
from andon.model.device import Device
from andon.ports import AlertStore, RunIndex
from andon.settings.store_url import StoreUrl
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_alerts import SqliteAlertStore
from andon.stores.sqlite_database import IN_MEMORY
from andon.stores.sqlite_runs import SqliteRunIndex

MOST_BYTES = 64_000_000
DROP_SHARE = 0.1  # of the ticks, dropped when full: rarely, and not one at a time


class MemoryStore(SqliteStore):
    """A store with the tiers of one on disk; each is one node's, and of limited size."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(IN_MEMORY)
        self.place, self._most_bytes = "memory", most_bytes

    @classmethod
    def open(cls, url: StoreUrl, node: str, readonly: bool = False) -> Self:
        if readonly:
            raise Gone(
                "the history is kept in memory only",
                hint="read it from its server: andon history --url HOST:PORT",
            )
        return cls()

    @classmethod
    def open_alerts(cls, url: StoreUrl, node: str) -> AlertStore:
        return MemoryAlertStore()

    @classmethod
    def open_runs(cls, url: StoreUrl, node: str) -> RunIndex:
        return MemoryRunIndex()

    @classmethod
    def files(cls, url: StoreUrl) -> Mapping[str, Path]:
        return {}

    def write(
        self,
        ticks: Sequence[NodeReadings],
        uses: Sequence[UsageInterval] = (),
        devices: Sequence[Device] = (),
    ) -> None:
        super().write(ticks, uses, devices)
        if super().size_bytes() > self._most_bytes:  # maintenance, which bounds the blocks, is rare
            self.drop_oldest(DROP_SHARE)

    def contents(self) -> StoreContents:
        return replace(super().contents(), most_bytes=self._most_bytes)


class MemoryAlertStore(SqliteAlertStore):
    """Alerts in memory."""

    def __init__(self) -> None:
        super().__init__(IN_MEMORY)


class MemoryRunIndex(SqliteRunIndex):
    """An index of runs in memory."""

    place = "memory"

    def __init__(self) -> None:
        super().__init__(IN_MEMORY)
