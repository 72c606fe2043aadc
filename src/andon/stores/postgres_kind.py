"""Opens the parts of a `postgresql:` URL: history, alerts and the index of runs in one database."""

from collections.abc import Mapping
from pathlib import Path

from andon.errors import Unavailable
from andon.ports import AlertStore, NodePasts, NodeStore, RunIndex, Store
from andon.settings.store_url import StoreUrl
from andon.stores.alerts import AlertTables

try:
    import psycopg as _psycopg  # noqa: F401 - whoever names this store learns at once if it is not here
except ImportError as exc:
    raise Unavailable(
        f"a postgresql: store needs psycopg: {str(exc).splitlines()[0]}",
        hint="pip install 'andon[postgres]'",
    ) from exc


class PostgresKind:
    """Opens the parts of a database, each with its own connections."""

    @classmethod
    def open(cls, url: StoreUrl, node: str, readonly: bool = False) -> Store:
        from andon.stores.postgres import PostgresStore

        return PostgresStore(url, node, readonly)

    @classmethod
    def open_alerts(cls, url: StoreUrl, node: str) -> AlertStore:
        from andon.stores.postgres_database import PostgresDatabase

        return AlertTables(PostgresDatabase(url, node))

    @classmethod
    def open_runs(cls, url: StoreUrl, node: str) -> RunIndex:
        from andon.stores.postgres_runs import PostgresRunIndex

        return PostgresRunIndex(url, node)

    @classmethod
    def open_nodes(cls, url: StoreUrl) -> NodeStore:
        from andon.stores.postgres_nodes import PostgresNodeStore

        return PostgresNodeStore(url)

    @classmethod
    def open_pasts(cls, url: StoreUrl) -> NodePasts:
        from andon.stores.postgres_nodes import PostgresNodePasts

        return PostgresNodePasts(url)

    @classmethod
    def files(cls, url: StoreUrl) -> Mapping[str, Path]:
        return {}
