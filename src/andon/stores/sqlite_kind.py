"""Opens the parts of a `sqlite:` URL: a file for history and alerts, or one for an index of
runs."""

from collections.abc import Mapping
from pathlib import Path

from andon.host.files import expanded
from andon.ports import AlertStore, RunIndex, Store
from andon.settings.store_url import StoreUrl, file_of
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_file import PURPOSES, parts


class SqliteKind:
    """Opens SQLite files; each part is imported when it is needed."""

    @classmethod
    def open(cls, url: StoreUrl, node: str, readonly: bool = False) -> Store:
        return SqliteStore(expanded(file_of(url)), node, readonly)

    @classmethod
    def open_alerts(cls, url: StoreUrl, node: str) -> AlertStore:
        from andon.stores.sqlite_alerts import SqliteAlertStore

        return SqliteAlertStore(expanded(file_of(url)), node)

    @classmethod
    def open_runs(cls, url: StoreUrl, node: str) -> RunIndex:
        from andon.stores.sqlite_runs import SqliteRunIndex

        return SqliteRunIndex(expanded(file_of(url)), node)

    @classmethod
    def files(cls, url: StoreUrl) -> Mapping[str, Path]:
        return dict(zip(PURPOSES, parts(expanded(file_of(url))), strict=True))
