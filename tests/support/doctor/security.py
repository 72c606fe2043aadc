"""The doctor on who could read, forge or replace what: lease books, state, token, ports."""

from collections.abc import Iterator

from msgspec.structs import replace

from andon.doctor.rules.books import MANY_FILES
from andon.doctor.rules.facts import (
    BookFolder,
    CallingUser,
    Contents,
    FileAccess,
    MachineFacts,
    PortListener,
    RunningServer,
    Security,
    StrayFiles,
    StrayReason,
)
from andon.model.lease_wire import MOST_OF_ONE_USER
from tests.support.doctor.case import FAIL, WARN, C, Case, case, own
from tests.support.doctor.machines import (
    AUDIT,
    FOLDER,
    HISTORY,
    SAFE,
    SLASH,
    STATE,
    TOKEN,
    server,
)
from tests.support.doctor.machines import HOUSE as HOME

ROOT = CallingUser("root", 0, ("root",), ())
MINE = PortListener("127.0.0.1", 26366, "alice", 1000)
RUNNING = RunningServer(f"{STATE}/server.json", 26366)


def secure(**changed: object) -> MachineFacts:
    return replace(server(), security=replace(SAFE, **changed))


def book(
    *strays: StrayFiles,
    path: str = "/run/andon",
    name: str = "root",
    uid: int = 0,
    **changed: object,
) -> MachineFacts:
    """The server with one lease book in use, with these files in it."""
    contents = replace(Contents(strays), **changed)
    found = BookFolder(path, name, uid, contents=contents)
    return own(server(), books=(found,), book_place=path)


# Whose books.


def books() -> Iterator[Case]:
    for path, uid, name, foreign in (
        ("/run/andon", 0, "root", False), ("/tmp/andon", 0, "root", False),
        ("/tmp/andon", 1000, "alice", False), ("/tmp/andon", 1002, "mallory", True),
    ):  # fmt: skip
        facts = own(server(), books=(BookFolder(path, name, uid),), book_place=path)
        says = "no root book: mallory owns /tmp/andon and can cordon devices|sudo andon setup"
        yield case(
            f"{path} of {name}",
            facts,
            *([(C.BOOK_FOREIGN, WARN)] if foreign else []),
            says=says if foreign else f"{path} belongs to {name}",
        )
    bob = (BookFolder("/tmp/andon", "bob", 1001),)
    yield case(
        "root, and bob's book",
        replace(own(server(), books=bob), user=ROOT, security=Security()),
        (C.BOOK_FOREIGN, WARN),
        says="bob owns /tmp/andon and can cordon devices, reorder the queue",
    )
    place = BookFolder("/var/tmp/andon", "mallory", 1002)
    for closed, says in (
        (False, "mallory owns /var/tmp/andon, where reservations are, and can remove them"),
        (True, "mallory has closed /var/tmp/andon, where reservations would be"),
    ):
        found = own(server(), books=bob, reserved_in=place, reserved_closed=closed)
        found = replace(found, user=ROOT, security=Security())
        wrong = ((C.BOOK_FOREIGN, WARN), (C.RESERVATIONS_FOREIGN, WARN))
        yield case(f"reservations of mallory, closed: {closed}", found, *wrong, says=says)
    yield from two_books()
    for mode in (0o777, 0o775, 0o1777, 0o757):
        yield case(
            f"a book of mode {mode:o}",
            own(server(), books=(BookFolder("/tmp/andon", "alice", 1000, mode),)),
            (C.BOOK_UNSAFE, FAIL),
            says=f"{mode:04o}|ls -ld /tmp/andon",
        )
    yield case(
        "a book that is a link",
        own(server(), books=(BookFolder("/tmp/andon", "eve", 1003, link=True),)),
        (C.BOOK_UNSAFE, FAIL),
        says="is a link",
    )
    yield case(
        "a book that is closed to us",
        book(path="/tmp/andon", name="bob", uid=1001, closed=True),
        (C.BOOK_UNSAFE, FAIL),
        says="alice cannot read the lease book /tmp/andon of bob",
    )
    yield case(
        "leases that only one can take",
        own(server(), books=(BookFolder("/run/andon", "root", 0, leases_mode=0o755),)),
        (C.BOOK_UNSAFE, FAIL),
        says="chmod 1777 /run/andon/leases",
    )
    yield case(
        "a book without leases",
        own(server(), books=(BookFolder("/run/andon", "root", 0, leases_mode=None),)),
    )


def two_books() -> Iterator[Case]:
    root = BookFolder("/run/andon", "root", 0)
    both = (BookFolder("/tmp/andon", "alice", 1000), root)
    yield case(
        "two books, one of them used",
        own(server(), books=both, book_place="/run/andon"),
        says="/run/andon belongs to root; used for new leases, and only root can cordon or reorder|"
        "/tmp/andon belongs to alice; its leases count too",
    )
    plain = BookFolder("/tmp/andon", "mallory", 1002)
    for name, foreign in (
        ("plain", plain),
        ("open", replace(plain, mode=0o777)),
        ("linked", replace(plain, link=True)),
    ):
        yield case(
            f"a {name} book of mallory's beside root's",
            own(server(), books=(root, foreign), book_place="/run/andon"),
            (C.BOOK_IGNORED, WARN),
            says="/tmp/andon belongs to mallory and is ignored: new leases go to|rm -rI",
        )
    crowded = Contents(
        (StrayFiles(StrayReason.MALFORMED, "mallory", 1002, 9),), (("mallory", 1002, 9000),)
    )
    yield case(
        "what lies in a book that decides nothing is nobody's trouble",
        own(
            server(),
            books=(root, BookFolder("/tmp/andon", "mallory", 1002, contents=crowded)),
            book_place="/run/andon",
        ),
        (C.BOOK_IGNORED, WARN),
    )


# What lies in them.


def strays() -> Iterator[Case]:
    for odd in (StrayReason.NOT_A_FILE, StrayReason.MALFORMED, StrayReason.CLOSED):
        yield case(
            f"one {odd} file",
            book(StrayFiles(odd, "mallory", 1002)),
            (C.BOOK_MALFORMED, WARN),
            says="/run/andon has 1 file that is not an entry: mallory (1)|-uid 1002 -ls",
        )
    users = [StrayFiles(StrayReason.MALFORMED, f"user{n}", 1100 + n, 10 - n) for n in range(5)]
    yield case(
        "odd files of five users",
        book(*users, StrayFiles(StrayReason.NOT_A_FILE, "user0", 1100, 2)),
        (C.BOOK_MALFORMED, WARN),
        says="has 42 files that are not entries: user0 (12), user1 (9), user2 (8) and 2 more users|"
        "-uid 1100",
    )
    yield case(
        "bob's leftovers",
        book(StrayFiles(StrayReason.UNLOCKED, "bob", 1001, 3)),
        (C.BOOK_LEFTOVERS, WARN),
        says="has 3 files that no process holds: bob (3)|sudo andon setup",
    )
    yield case("leftovers of one's own", book(StrayFiles(StrayReason.UNLOCKED, "alice", 1000, 3)))
    for count in (0, 1, MANY_FILES, MANY_FILES + 1, MOST_OF_ONE_USER, 8192):
        many = count > MANY_FILES
        rest = "|beyond 1,024 are ignored" if count > MOST_OF_ONE_USER else ""
        yield case(
            f"{count} files of mallory's",
            book(counts=(("mallory", 1002, count),)),
            *([(C.BOOK_CROWDED, WARN)] if many else []),
            says=f"mallory has {count:,} files in /run/andon{rest}" if many else "",
        )
    yield case(
        "more files than are counted",
        book(complete=False),
        (C.BOOK_CROWDED, WARN),
        says="has more files than are examined",
    )


# The state folder.


def exposures() -> Iterator[Case]:
    yield case(
        "all is alice's alone",
        secure(),
        says="only alice can access the state folder: token, history, audit log",
    )
    yield case("no state folder yet", secure(state=()))
    yield case("a state folder that was not examined", secure(state=(), unseen="it is on nfs4"))
    for mode, grade in ((0o755, WARN), (0o750, WARN), (0o711, WARN), (0o775, FAIL), (0o777, FAIL)):
        yield case(
            f"a state folder of mode {mode:o}",
            secure(state=(replace(FOLDER, mode=mode), TOKEN)),
            (C.STATE_EXPOSED, grade),
            says=f"{mode:04o}|chmod 700 {STATE}",
        )
    stranger = replace(FOLDER, owner="bob", uid=1001)
    yield case(
        "bob's state folder",
        secure(state=(stranger, TOKEN)),
        (C.STATE_EXPOSED, FAIL),
        says="belongs to bob: its owner can read and replace the token|XDG_STATE_HOME=",
    )
    yield case(
        "root with alice's variables",
        replace(secure(state=(FOLDER, TOKEN), above=()), user=ROOT),
        (C.STATE_EXPOSED, FAIL),
        (C.TOKEN_EXPOSED, FAIL),
        says="belongs to alice|HOME=/root",
    )
    yield from token_and_records()
    yield from above()


def token_and_records() -> Iterator[Case]:
    for mode in (0o640, 0o604, 0o644, 0o660, 0o666):
        yield case(
            f"a token of mode {mode:o}",
            secure(state=(FOLDER, replace(TOKEN, mode=mode))),
            (C.TOKEN_EXPOSED, FAIL),
            says=f"{mode:04o}|rm -f {STATE}/token",
        )
    for kind, words in (("link", "is a link"), ("other", "is not a regular file")):
        yield case(
            f"a token that {words}",
            secure(state=(FOLDER, replace(TOKEN, kind=kind))),
            (C.TOKEN_EXPOSED, FAIL),
            says=words,
        )
    for record in (HISTORY, AUDIT):
        yield case(
            f"a readable {record.name}",
            secure(state=(FOLDER, TOKEN, replace(record, mode=0o644))),
            (C.RECORDS_EXPOSED, WARN),
            says=f"the {record.name} {record.path} can be read by others (0644)|chmod 600",
        )
        yield case(
            f"mallory's {record.name}",
            secure(state=(FOLDER, TOKEN, replace(record, uid=1002, owner="mallory"))),
            (C.RECORDS_EXPOSED, WARN),
            says="belongs to mallory",
        )


def above() -> Iterator[Case]:
    for mode in (0o775, 0o777, 0o757):
        yield case(
            f"a folder above of mode {mode:o}",
            secure(above=(replace(HOME, mode=mode), SLASH)),
            (C.STATE_EXPOSED, FAIL),
            says="they could replace the state folder|chmod go-w /home/alice",
        )
    yield case("a sticky folder above", secure(above=(replace(HOME, uid=0, mode=0o1777), SLASH)))
    yield case(
        "bob's folder above",
        secure(above=(replace(HOME, uid=1001, owner="bob"), SLASH)),
        (C.STATE_EXPOSED, FAIL),
        says="belongs to bob, who could replace the state folder",
    )
    settings = FileAccess("settings", "/etc/andon/andon.toml", "root", 0, 0o644)
    yield case("root's settings", secure(config=settings))
    yield case(
        "settings that others may change",
        secure(config=replace(settings, mode=0o664)),
        (C.CONFIG_EXPOSED, FAIL),
        says="commands run as alice|chmod go-w /etc/andon/andon.toml",
    )
    yield case(
        "settings of mallory's",
        secure(config=replace(settings, uid=1002, owner="mallory")),
        (C.CONFIG_EXPOSED, FAIL),
        says="belongs to mallory",
    )


# Servers, ports, the kernel.


def servers() -> Iterator[Case]:
    yield case("no server, a free port", secure(), says="port 26366 is free")
    yield case(
        "a server on loopback",
        secure(server=RUNNING, listeners=(MINE,)),
        says="your server listens on 127.0.0.1 port 26366, on loopback only",
    )
    everywhere = PortListener("0.0.0.0", 26366, "alice", 1000, loopback=False)
    yield case(
        "a server on every address, in clear text",
        secure(server=RUNNING, listeners=(MINE, everywhere)),
        (C.SERVER_WITHOUT_TLS, WARN),
        says="listens on 0.0.0.0 port 26366 without TLS|--tls-cert",
    )
    yield case(
        "a server on every address, with TLS",
        secure(server=replace(RUNNING, tls=True), listeners=(everywhere,)),
        says="0.0.0.0 port 26366 with TLS",
    )
    for name, changed in (
        ("its process is gone", {"server": replace(RUNNING, lives=False), "listeners": (MINE,)}),
        ("it listens no more", {"server": RUNNING, "listeners": ()}),
    ):
        yield case(
            f"a server of which {name}",
            secure(**changed),
            (C.SERVER_GONE, WARN),
            says=f"refers to a server that has ended|rm -f {STATE}/server.json",
        )
    stranger = PortListener("127.0.0.9", 26366, "mallory", 1002)
    yield case(
        "a stranger on the usual port",
        secure(listeners=(stranger,)),
        (C.PORT_FOREIGN, WARN),
        says="mallory (uid 1002) listens on 127.0.0.9 port 26366|--port 26367",
    )
    yield case(
        "a stranger beside one's own server",
        secure(server=RUNNING, listeners=(MINE, stranger)),
        (C.PORT_FOREIGN, WARN),
        says="your server listens on 127.0.0.1",
    )
    last = replace(stranger, port=65535)
    yield case("the last port", secure(listeners=(last,)), (C.PORT_FOREIGN, WARN), says="65534")
    system = PortListener("127.0.0.1", 26366, "root", 0)
    yield case("root's server", secure(listeners=(system,)), says="root listens on 127.0.0.1")
    yield case(
        "hard links are not guarded",
        secure(protected_hardlinks=False),
        (C.LINKS_UNPROTECTED, WARN),
        says="sysctl -w fs.protected_hardlinks=1",
    )
    yield case("the kernel does not say", secure(protected_hardlinks=None))
    closed = replace(secure(), kernel=replace(server().kernel, log_closed="not permitted"))
    yield case("the log is root's", closed, says="kernel.dmesg_restrict=1")
