"""The index of runs in a PostgreSQL database."""

from andon.settings.store_url import StoreUrl
from andon.stores.postgres_database import PostgresDatabase
from andon.stores.runs import RunTables

_LIKE = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_", "*": "%", "?": "_"})


class PostgresRunIndex(RunTables):
    """Beside the history, with its own connections."""

    def __init__(self, url: StoreUrl, node: str) -> None:
        super().__init__(PostgresDatabase(url, node), str(url))

    def pattern(self, name: str) -> str:
        return name.translate(_LIKE)
