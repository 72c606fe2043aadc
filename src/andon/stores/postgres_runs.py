"""The index of runs in a PostgreSQL database."""

from andon.settings.store_url import StoreUrl
from andon.stores.postgres_database import PostgresDatabase
from andon.stores.runs import RunTables

_LIKE = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_", "*": "%", "?": "_"})


class PostgresRunIndex(RunTables):
    """Beside the history, with its own connections or those that a hub's nodes share."""

    def __init__(
        self,
        url: StoreUrl,
        node: str,
        shared: PostgresDatabase | None = None,
        everywhere: bool = False,
    ) -> None:
        database = PostgresDatabase(url, node) if shared is None else shared.of_node(node)
        super().__init__(database, str(url), everywhere)

    def pattern(self, name: str) -> str:
        return name.translate(_LIKE)
