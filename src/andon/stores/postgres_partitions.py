"""Tables with a partition for each hour of the server's clock; old ones are dropped whole."""

from collections.abc import Callable, Iterable

from andon.stores.session import TableSession

RETAINED_HOURS = 2


def make_partition(session: TableSession, table: str, hour: int) -> None:
    """Makes the partition of an hour if it is missing. It is created as a table and then attached,
    because creating a partition directly waits for all readers."""
    session.run("lock_partitions")
    name = f"{table}_{hour}"
    if name not in _partitions(session, table)[1]:
        session.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING STORAGE)")
        attach = f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES IN ({hour})"
        session.execute(attach)


def old_partitions(session: TableSession, table: str) -> tuple[int, list[str]]:
    """Returns the present hour, and the names of outdated partitions."""
    hour, names = _partitions(session, table)
    return hour, [n for n in names if int(n.removeprefix(f"{table}_")) <= hour - RETAINED_HOURS]


def drop_partitions(
    session: TableSession, table: str, names: Iterable[str], move: Callable[[str], str] | None
) -> int:
    """Drops partitions after calling `move` with each; returns the bytes. Waits for readers for at
    most a second."""
    freed = 0
    session.execute("SET LOCAL lock_timeout = '1s'")
    session.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
    for name in set(names).intersection(_partitions(session, table)[1]):
        freed += session.run("size_of", (name,)).fetchone()[0]
        if move is not None:
            session.execute(move(name))
        session.execute(f"DROP TABLE {name}")
    return freed


def _partitions(session: TableSession, table: str) -> tuple[int, list[str]]:
    """Returns the present hour, by the clock of the server, and the names of all partitions."""
    found = session.run("partitions", (table,)).fetchone()
    return found[0], found[1]
