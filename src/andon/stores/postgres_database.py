"""A PostgreSQL database and its two connections: transactions, queries, migrations."""

import os
import select
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.string import StrDumper

from andon.errors import Gone, Invalid, Unavailable
from andon.settings.store_url import StoreUrl
from andon.stores.postgres_errors import BUSY, Silent, translated
from andon.stores.session import Given, TableSession
from andon.stores.statements import migrations, statements

CONNECT_SECONDS = 5
MOST_CHARACTERS = 1_000_000  # of changes that are sent together: about 100 ms of work
ANSWER_SECONDS = 15.0  # ticks wait in memory meanwhile, the queue before it holds a minute
SETTINGS = """
SET lock_timeout = '5s';
SET idle_in_transaction_session_timeout = '60s'
"""  # so that no process that is stopped blocks the others
READER, WRITER = "reader", "writer"
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class _Text(StrDumper):
    """Removes from text what PostgreSQL refuses: zeros and lone surrogates."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.encode("utf-8", "replace").decode().replace("\0", "�"))


class LimitedConnection(psycopg.Connection[Any]):
    """A connection whose calls end when the server does not answer, for example because it is
    stopped: a socket alone would wait without end."""

    patience_seconds: float | None = ANSWER_SECONDS

    def wait(self, gen: Any, *given: Any, **more: Any) -> Any:
        if self.patience_seconds is not None:
            gen = _limited(gen, self.patience_seconds)
        return super().wait(gen, *given, **more)


def _limited(gen: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """Runs one of psycopg's waits, which is resumed every 0.1 s, for at most this long."""
    until = time.monotonic() + seconds
    try:
        ready = yield next(gen)
        while time.monotonic() < until:
            ready = yield gen.send(ready)
    except StopIteration as end:
        return end.value
    raise Silent(f"no answer for {seconds:.0f} s")


class PostgresSession(TableSession):
    """Sends changes together, before the next query and with the commit, because a wait for each
    would cost more than the work."""

    def __init__(self, connection: LimitedConnection, sql: Mapping[str, str], node: int) -> None:
        super().__init__(connection, sql, node)
        self._cursor = psycopg.ClientCursor(connection)
        self._waiting: list[str] = []
        self._length = 0

    def run(self, name: str, given: Given = ()) -> Any:
        self.send()
        return self.connection.execute(self._sql[name], given or None, binary=True)

    def execute(self, statement: str) -> Any:
        self.send()
        return self.connection.execute(statement)

    def put(self, name: str, given: Given = ()) -> None:
        self.add(self._cursor.mogrify(self._sql[name], given))

    def many(self, name: str, rows: Iterable[Given]) -> None:
        at_once = list(rows) if f"{name}_rows" in self._sql else []
        if at_once:
            self.run(f"{name}_rows", [list(column) for column in zip(*at_once, strict=True)])
            return
        for given in rows:
            self.put(name, given)

    def copy(self, name: str, types: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Sends rows in PostgreSQL's binary form: bytes stay as they are."""
        self.send()
        with self.connection.cursor().copy(self._sql[name]) as copying:
            copying.set_types(types)
            for row in rows:
                copying.write_row(row)

    def add(self, statement: str) -> None:
        """Queues a statement without values; it is sent with others."""
        self._waiting.append(statement)
        self._length += len(statement)
        if self._length > MOST_CHARACTERS:
            self.send()

    def send(self) -> None:
        waiting, self._waiting, self._length = self._waiting, [], 0
        if waiting:
            self.connection.execute(";\n".join(waiting))


class PostgresDatabase:
    """One writing and one reading connection, opened on demand and again after a failure; each may
    be used from any thread."""

    def __init__(
        self,
        url: StoreUrl,
        node: str,
        readonly: bool = False,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        """`forget` is called when cached values of the database may no longer be true."""
        self.place, self._name, self._readonly, self._forget = str(url), node, readonly, forget
        self._options = _options(url, readonly)
        self._locks = {READER: threading.RLock(), WRITER: threading.RLock()}
        self._open: dict[str, LimitedConnection] = {}
        self._node, self._owned = 0, True
        with self.reading() if readonly else self.guarded():
            pass

    def of_node(self, name: str, forget: Callable[[], None] = lambda: None) -> Self:
        """Returns the same connections for another node, which is made if there is none."""
        other = copy(self)
        other._name, other._forget, other._owned = name, forget, False
        with other.guarded() as session:
            other._node = other._found_node(session.connection)
        return other

    @contextmanager
    def transaction(self) -> Iterator[TableSession]:
        """Commits all changes of the block, or none. Nothing else holds the node's lock meanwhile,
        not even a connection that was given up and whose last commit is still under way."""
        with self._using(WRITER, "BEGIN", "lock_node") as session:
            yield session

    @contextmanager
    def guarded(self) -> Iterator[TableSession]:
        """Yields the writing connection without a transaction."""
        with self._using(WRITER) as session:
            yield session

    @contextmanager
    def reading(self) -> Iterator[TableSession]:
        """Yields one consistent view of the database, whatever is written meanwhile."""
        with self._using(READER, READ) as session:
            yield session

    def size_bytes(self) -> int:
        with self.reading() as session:
            return int(session.run("size_bytes").fetchone()[0])

    def vacuum(self, statement: str) -> None:
        """Tidies tables, which may take long and is not possible beside other statements."""
        with self._locks[WRITER]:
            try:
                connection = self._ready(WRITER)
                connection.patience_seconds = None
                connection.execute(statement)
                connection.patience_seconds = ANSWER_SECONDS
            except psycopg.Error as exc:
                self._drop(WRITER)
                raise translated(exc, self.place) from exc

    def close(self) -> None:
        for purpose, lock in self._locks.items():
            with lock:
                if self._owned:
                    self._drop(purpose)

    @contextmanager
    def _using(self, purpose: str, begin: str = "", lock: str = "") -> Iterator[PostgresSession]:
        if purpose == WRITER and self._readonly:
            raise Unavailable(f"{self.place} was opened read-only")
        with self._locks[purpose]:
            try:
                connection = self._ready(purpose)
                try:
                    session = PostgresSession(connection, statements("postgres"), self._node)
                    if begin:
                        session.add(begin)
                    if lock:
                        session.put(lock, (self._node,))
                    yield session
                    if begin:
                        session.add("COMMIT")
                    session.send()
                except BaseException:
                    self._abandon(purpose)
                    raise
            except psycopg.Error as exc:
                if exc.sqlstate not in BUSY:
                    self._drop(purpose)
                raise translated(exc, self.place) from exc

    def _abandon(self, purpose: str) -> None:
        """Ends a transaction without a commit; a connection that cannot do that is closed."""
        if purpose == WRITER:
            self._forget()
        status = self._open[purpose].info.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with suppress(psycopg.Error):
                self._open[purpose].execute("ROLLBACK")
                return
        if status != TransactionStatus.IDLE:
            self._drop(purpose)

    def _ready(self, purpose: str) -> LimitedConnection:
        """Returns a connection. One that the server has closed since it was last used is replaced:
        a restart in between is no failure."""
        known = self._open.get(purpose)
        if known is not None and (known.closed or _is_readable(known.fileno())):
            self._drop(purpose)
        if purpose not in self._open:
            self._open[purpose] = self._connected()
        return self._open[purpose]

    def _connected(self) -> LimitedConnection:
        connection = LimitedConnection.connect(**self._options, autocommit=True)
        try:
            connection.adapters.register_dumper(str, _Text)
            connection.execute(SETTINGS)
            self._bring_up_to_date(connection)
            self._node = self._found_node(connection)
        except BaseException:
            connection.close()
            raise
        self._forget()
        return connection

    def _bring_up_to_date(self, connection: LimitedConnection) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            hint = "createdb -T template0 -E UTF8 NAME"
            raise Invalid(f"{self.place}: its texts are {encoding}, not UTF8", hint=hint)
        version, known = _version(connection), len(migrations("postgres"))
        if version > known:
            raise Invalid(
                f"{self.place} was written by a newer andon (format {version}, known: {known})",
                hint="upgrade andon, or name another database",
            )
        if self._readonly and not version:
            raise Gone(f"{self.place} has no history")
        if self._readonly and version < known:
            hint = "andon serve upgrades it"
            raise Unavailable(f"{self.place} is from an older andon", hint=hint)
        if version < known:
            _migrate(connection)

    def _found_node(self, connection: LimitedConnection) -> int:
        query = "SELECT id FROM node WHERE name = %s"
        found = connection.execute(query, [self._name]).fetchone()
        if found is None and self._readonly:
            names = connection.execute("SELECT name FROM node ORDER BY name LIMIT 20").fetchall()
            raise Gone(
                f"{self.place} has nothing of the node {self._name}",
                hint=f"name one that it has with ANDON_NODE: {', '.join(n for (n,) in names)}",
            )
        if found is None:
            add = "INSERT INTO node (name) VALUES (%s) ON CONFLICT DO NOTHING"
            connection.execute(add, [self._name])
            found = connection.execute(query, [self._name]).fetchone()
        return int(found[0]) if found else 0

    def _drop(self, purpose: str) -> None:
        connection = self._open.pop(purpose, None)
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


def _is_readable(fileno: int) -> bool:
    """Whether the server sent something unrequested, such as that it ends the connection."""
    waiting = select.poll()
    waiting.register(fileno, select.POLLIN)
    return bool(waiting.poll(0))


def _options(url: StoreUrl, readonly: bool) -> dict[str, Any]:
    try:
        options = conninfo_to_dict(url.text)
    except psycopg.Error as exc:
        raise Invalid(
            f"{url}: {str(exc).strip()}", hint="postgresql://[ROLE@]HOST[:PORT]/DATABASE"
        ) from exc
    options.setdefault("fallback_application_name", "andon")
    if "PGCONNECT_TIMEOUT" not in os.environ:
        options.setdefault("connect_timeout", CONNECT_SECONDS)
    if not readonly:
        options.setdefault("target_session_attrs", "read-write")
    return options


def _version(connection: LimitedConnection) -> int:
    """Returns the number of the last migration; 0 before the first."""
    known = connection.execute("SELECT to_regclass('andon_schema')").fetchone()
    if known is None or known[0] is None:
        return 0
    found = connection.execute("SELECT max(version) FROM andon_schema").fetchone()
    return int(found[0]) if found and found[0] else 0


def _migrate(connection: LimitedConnection) -> None:
    """Brings the database up to date: all of it or nothing, and only one andon at a time. The lock
    is taken before the transaction: what another one made meanwhile would not be seen in it."""
    connection.execute("SELECT pg_advisory_lock(hashtext('andon migrations'))")
    with connection.transaction():
        version = _version(connection)
        if not version:
            connection.execute("CREATE TABLE andon_schema (version integer NOT NULL)")
        for number, step in enumerate(migrations("postgres")[version:], version + 1):
            connection.execute(step)
            connection.execute("INSERT INTO andon_schema VALUES (%s)", [number])
    connection.execute("SELECT pg_advisory_unlock(hashtext('andon migrations'))")
