"""A real PostgreSQL in a temporary folder, started when a test needs it: a schema for each test."""

import atexit
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote
from zlib import crc32

import psycopg

from tests.conftest import need
from tests.support.waiting import wait_for

USER = "postgres"
QUICK = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "autovacuum=off")


def binary(name: str) -> str:
    """Debian keeps the server's programs out of PATH."""
    here = sorted(str(file) for file in Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = here or [shutil.which(name) or ""]
    if not found[-1]:
        need(name)
    return found[-1]


def as_user(*command: str) -> list[str]:
    """The command as another user than root, which PostgreSQL refuses; it ends with us."""
    drop = ["--reuid", USER, "--regid", USER, "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *drop, "--pdeathsig", "KILL", *command]


class Server:
    """A postmaster that this process started, without a TCP port unless it has one."""

    def __init__(self, folder: Path, port: int = 5432, settings: tuple[str, ...] = QUICK) -> None:
        self.folder, self.data, self.port = folder, folder / "data", port
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            os.chown(folder, pwd.getpwnam(USER).pw_uid, -1)

    def init(self) -> "Server":
        run("initdb", "-D", str(self.data), "-A", "trust", "-U", USER, "--no-sync", "-E", "UTF8",
            "--locale=C")  # fmt: skip
        return self

    def copy_of(self, primary: "Server") -> "Server":
        """Makes this a streaming standby."""
        run("pg_basebackup", "-h", str(primary.folder), "-p", str(primary.port), "-U", USER,
            "-D", str(self.data), "-R", "--checkpoint=fast", "--no-sync")  # fmt: skip
        return self

    def start(self, wait: bool = True) -> "Server":
        options = [part for one in self._settings for part in ("-c", one)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                as_user(
                    binary("postgres"), "-D", str(self.data), "-k", str(self.folder),
                    "-p", str(self.port), "-c", "listen_addresses=", *options,
                ),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        if wait:
            wait_for(self.answers, 60)
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def answers(self) -> bool:
        try:
            self.sql("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Ends it: SIGINT is a fast shutdown, SIGQUIT an immediate one."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def start_again(self) -> None:
        """Starts it unless it runs; one that was killed leaves its number behind."""
        if self._process is None:
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            self.start()

    def send(self, number: signal.Signals) -> None:
        """Signals the postmaster and its own children, by their pids."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for pid in (self.pid, *map(int, children)):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def promote(self) -> None:
        self.sql("SELECT pg_promote(true)")

    def url(self, database: str = "postgres", **options: str) -> str:
        asked = {"host": str(self.folder), "port": str(self.port), "user": USER, **options}
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in asked.items())
        return f"postgresql:///{database}?{query}"

    def sql(self, statement: str, url: str = "") -> list[tuple[object, ...]]:
        asked = url or self.url(connect_timeout="5")
        with psycopg.connect(asked, autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def schema(self, name: str) -> str:
        """A URL whose tables are apart from those of other tests."""
        self.sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
        return self.url(options=f"-csearch_path={name}")


def run(program: str, *arguments: str) -> None:
    command = as_user(binary(program), *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd="/")
    assert not done.returncode, done.stderr


@functools.cache
def server() -> Server:
    """The one that all tests of this process share."""
    folder = Path(tempfile.mkdtemp(prefix="andon-pg."))
    made = Server(folder).init().start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(made.stop, signal.SIGQUIT)
    return made


@functools.cache
def url_of(folder: Path) -> str:
    """The URL of a test, by its folder."""
    return server().schema(f"t{crc32(str(folder).encode()):08x}")
