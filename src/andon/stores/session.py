"""The database interface of the stores: connections, and statements by name in each dialect."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Given = Sequence[object] | Mapping[str, object]


class TableSession:
    """A connection in use, the statements of its dialect by name, and the number of a node."""

    def __init__(self, connection: Any, sql: Mapping[str, str], node: int) -> None:
        self.connection, self._sql, self.node = connection, sql, node

    def run(self, name: str, given: Given = ()) -> Any:
        """Executes a statement; returns its cursor."""
        return self.connection.execute(self._sql[name], given)

    def execute(self, statement: str) -> Any:
        """Executes a statement that is not among the named ones."""
        return self.connection.execute(statement)

    def put(self, name: str, given: Given = ()) -> None:
        """Executes a statement whose result nobody needs; it may be sent later, in order."""
        self.connection.execute(self._sql[name], given)

    def many(self, name: str, rows: Iterable[Given]) -> None:
        """Executes a statement for each of these rows, as `put` does."""
        self.connection.executemany(self._sql[name], rows)


class Database(Protocol):
    """The connections to a database; each may be used from any thread."""

    def transaction(self) -> AbstractContextManager[TableSession]:
        """Commits all changes of the block, or none. No one else changes this node's rows
        meanwhile."""

    def guarded(self) -> AbstractContextManager[TableSession]:
        """Yields the writing connection without a transaction."""

    def reading(self) -> AbstractContextManager[TableSession]:
        """Yields one consistent view of the database, whatever is written meanwhile."""

    def size_bytes(self) -> int: ...

    def close(self) -> None: ...
