"""What is PostgreSQL's own: how it is reached and refused, and its partitions."""

import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from andon.errors import AndonError, Denied, Gone, Invalid, Unavailable
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import NodeReadings
from andon.registry import STORES, load
from andon.settings.store_url import parse_store_url
from andon.stores.postgres import PostgresStore
from andon.stores.postgres_kind import PostgresKind
from andon.stores.statements import migrations
from tests.support.history_parts import AT, GPU, tick, upkeep
from tests.support.postgres import server, url_of
from tests.support.replaced import answers
from tests.support.rows import rows

SECRET = "hunter2"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(opened(url)) as found:
        yield found


def opened(url: str, node: str = "node-1", readonly: bool = False) -> PostgresStore:
    return PostgresStore(parse_store_url(url), node, readonly)


def sql(url: str, statement: str) -> list[tuple[object, ...]]:
    """Executes a statement among the tables of a test."""
    return server().sql(statement, url)


def refusal(url: str, readonly: bool = False) -> AndonError:
    with pytest.raises(AndonError) as refused:
        opened(url, readonly=readonly).close()
    told = f"{refused.value.reason} {refused.value.hint}"
    assert told.isprintable()
    assert SECRET not in told
    return refused.value


@pytest.fixture(scope="module")
def ada() -> str:
    """A role that needs a password and owns nothing."""
    shared = server()
    shared.sql(f"CREATE ROLE ada LOGIN PASSWORD '{SECRET}'")
    hba = shared.data / "pg_hba.conf"
    hba.write_text(f"local all ada scram-sha-256\n{hba.read_text()}")
    shared.sql("SELECT pg_reload_conf()")
    return shared.url(user="ada")


REFUSED = [
    ({"database": "nothere"}, Unavailable, 'no database "nothere"', "createdb nothere"),
    ({"port": "27999"}, Unavailable, "no PostgreSQL is running on this machine", "HOST"),
    ({"host": "127.0.0.1", "port": "27999"}, Unavailable, "refused", "pg_isready"),
    ({"user": "nobody7"}, Denied, 'role "nobody7" does not exist', "createuser nobody7"),
    ({"host": "127.0.0.1,::1", "port": "27998,27999"}, Unavailable, "27998", "pg_isready"),
    ({"options": "-csearch_path=nowhere"}, Invalid, "no schema", "CREATE SCHEMA"),
    ({"sslmode": "nonsense"}, Invalid, "sslmode", "postgresql://"),
    ({"nonsense": "1"}, Invalid, "nonsense", "postgresql://"),
]


@rows(("options", "kind", "reason", "hint"), REFUSED)
def test_what_cannot_be_reached_is_said_in_one_line(
    options: dict[str, str], kind: type[AndonError], reason: str, hint: str
) -> None:
    told = refusal(server().url(**options))
    assert isinstance(told, kind)
    assert reason in told.reason
    assert hint in told.hint


def test_a_password_comes_from_elsewhere_and_is_told_to_no_one(
    ada: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refusal(ada)
    assert isinstance(told, Denied)
    assert "no password supplied" in told.reason
    monkeypatch.setenv("PGPASSWORD", "wrong")
    assert "authentication failed" in refusal(ada).reason
    monkeypatch.setenv("PGPASSWORD", SECRET)
    told = refusal(ada)
    assert isinstance(told, Denied)
    assert "permission denied for schema public" in told.reason
    assert "OWNER TO" in told.hint
    monkeypatch.delenv("PGPASSWORD")
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:ada:{SECRET}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    assert "permission denied" in refusal(ada).reason
    server().sql("CREATE DATABASE adas OWNER ada")
    with closing(opened(server().url("adas", user="ada"))) as store:
        store.write([tick(AT, 1)])


def test_a_service_names_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = server()
    services = tmp_path / "services.conf"
    text = f"[andon]\nhost={shared.folder}\nport={shared.port}\nuser=postgres\ndbname=postgres\n"
    services.write_text(text)
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    url_of(tmp_path)
    schema = url_of(tmp_path).rpartition("=")[2]
    with closing(opened(f"postgresql://?service=andon&options={schema}")) as store:
        store.write([tick(AT, 1)])


def test_texts_must_be_utf8() -> None:
    server().sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C'")
    assert "LATIN1, not UTF8" in refusal(server().url("latin")).reason


def test_a_newer_database_is_refused(url: str, store: PostgresStore) -> None:
    sql(url, "INSERT INTO andon_schema VALUES (99)")
    for readonly in (False, True):
        told = refusal(url, readonly)
        assert isinstance(told, Invalid)
        assert "newer andon (format 99" in told.reason


def test_further_migrations_run_once_and_in_order(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write([tick(AT, 42)])
    steps = (*migrations("postgres"), "CREATE TABLE shade ()", "ALTER TABLE shade RENAME TO colour")
    answers(monkeypatch, "andon.stores.postgres_database", "migrations", steps)
    assert "is from an older andon" in refusal(url, readonly=True).reason
    for _ in range(2):
        with closing(opened(url)) as newer:
            assert newer.history(GPU, "utilization_percent", AT, AT + 1, 1)[0].mean == 42
    assert sql(url, "SELECT version FROM andon_schema") == [(1,), (2,), (3,)]
    assert sql(url, "SELECT * FROM colour") == []


def test_another_programs_tables_are_left_alone(url: str) -> None:
    sql(url, "CREATE TABLE node (name text)")
    told = refusal(url)
    assert isinstance(told, Invalid)
    assert 'relation "node" already exists, and it is another program\'s' in told.reason
    assert sql(url, "SELECT to_regclass('device'), to_regclass('andon_schema')") == [(None, None)]


def test_a_reader_names_the_nodes_that_are_there(url: str, store: PostgresStore) -> None:
    with pytest.raises(Gone, match="nothing of the node elsewhere") as refused:
        opened(url, "elsewhere", readonly=True)
    assert "node-1" in refused.value.hint
    with closing(opened(url, readonly=True)) as reader, pytest.raises(Unavailable, match="only"):
        reader.write([tick(AT, 1)])


def test_many_may_open_a_new_database_at_once(url: str) -> None:
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            with closing(opened(url, f"node-{number % 3}")) as store:
                store.write([tick(AT + number, number)])
        except BaseException as exc:  # noqa: BLE001 - whatever it is
            failed.append(exc)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    steps = len(migrations("postgres"))
    assert sql(url, "SELECT version FROM andon_schema") == [(n + 1,) for n in range(steps)]
    for number in range(3):
        with closing(opened(url, f"node-{number}")) as store:
            assert store.history(GPU, "utilization_percent", AT, AT + 9, 1)[0].count == 3


def age(url: str) -> None:
    """Makes all ticks those of an hour long ago."""
    sql(url, "CREATE TABLE head_7 PARTITION OF head FOR VALUES IN (7); UPDATE head SET hour = 7")


def partitions(url: str) -> set[object]:
    asked = "SELECT relname FROM pg_class JOIN pg_inherits ON oid = inhrelid WHERE relkind = 'r'"
    found = sql(url, f"{asked} AND inhparent = 'head'::regclass")
    return {name for (name,) in found}


def test_a_partition_is_dropped_and_takes_only_packed_ticks_along(
    url: str, store: PostgresStore
) -> None:
    other = opened(url, "node-2")
    store.write([tick(AT + n, n) for n in range(100)])
    other.write([tick(AT + n, 7) for n in range(50)])
    upkeep(store, AT + 3600)
    age(url)
    assert "head_7" in partitions(url)
    assert store.compact() > 0
    assert "head_7" not in partitions(url)
    assert store.compact() == 0
    for _ in range(2):
        counts = [
            one.history(GPU, "utilization_percent", AT, AT + 100, 1)[0].count
            for one in (store, other)
        ]
        assert counts == [100, 50]
        upkeep(other, AT + 3600)
    other.close()


def test_a_partition_that_someone_reads_is_dropped_later(url: str, store: PostgresStore) -> None:
    store.write([tick(AT, 1)])
    age(url)
    with closing(opened(url)) as reader, reader._database.reading() as session:
        session.run("heads", (session.node, 0, 1)).fetchall()
        assert store.compact() == 0
        store.write([tick(AT + 1, 1)])  # a reader does not stop a writer
    assert store.compact() > 0


def test_a_tick_that_comes_again_is_there_once(url: str, store: PostgresStore) -> None:
    """As after a commit whose answer was lost: before and after it was packed, and much later."""
    use = UsageInterval(GPU, 1, None, "ada", None, AT, AT + 20)

    def write() -> None:
        store.write([tick(AT + n, n) for n in range(20)], [use])

    def check() -> None:
        assert store.history(GPU, "utilization_percent", AT, AT + 20, 1)[0].count == 20
        assert list(store.usage(GPU, AT, AT + 20)) == [use]

    for _ in range(2):
        write()
        check()
        upkeep(store, AT + 3600)
        check()
    write()
    check()
    age(url)
    upkeep(store, AT + 3600)
    write()
    upkeep(store, AT + 3600)
    check()


def test_bodies_are_kept_as_they_are(url: str, store: PostgresStore) -> None:
    store.write([tick(AT, 1)])
    asked = """SELECT DISTINCT attstorage::text FROM pg_attribute JOIN pg_class ON oid = attrelid
        WHERE attname = 'body' AND (relname = 'block' OR relname LIKE 'head%')
        AND relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"""
    assert sql(url, asked) == [("e",)]


def test_texts_that_postgresql_refuses_are_written(store: PostgresStore) -> None:
    store.write([], [UsageInterval(GPU, 1, None, "a\0b", "\ud800", AT, AT + 1)])
    assert [(u.user, u.name) for u in store.usage(GPU, AT, AT + 1)] == [("a�b", "?")]


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "andon.stores.postgres_kind")
    with pytest.raises(Unavailable, match="needs psycopg") as refused:
        load(STORES, "postgresql")
    assert refused.value.hint == "pip install 'andon[postgres]'"


def test_it_has_no_files(url: str) -> None:
    assert not PostgresKind.files(parse_store_url(url))


def test_a_series_is_found_among_others_in_a_tick(store: PostgresStore) -> None:
    """Also if its number, 1, is found across those of two others, 256 and 512."""
    every = tuple(f"m{number}" for number in range(600))
    some = {0: every, 1: ("m255", "m511", "m0"), 2: ("m255", "m511"), 3: ("m0",)}
    for second, names in some.items():
        values = tuple(int(name[1:]) for name in names)
        store.write([NodeReadings(AT + second, ((GPU, names, values),))])
    for name, counts in {"m0": [1, 1, 0, 1], "m511": [1, 1, 1, 0], "m599": [1, 0, 0, 0]}.items():
        found = store.history(GPU, name, AT, AT + 4, 4)
        assert [bucket.count for bucket in found] == counts
        assert {bucket.max for bucket in found if bucket.count} == {int(name[1:])}
