"""What the routes about leases say and do, over a real book and devices that are only described."""

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from andon.access.roles import ANONYMOUS
from andon.errors import Conflict, Unavailable
from andon.host.processes.kin import myself
from andon.host.users import user_name
from andon.leases import listing, releaser
from andon.leases import network as lender_module
from andon.leases.book import files
from andon.leases.book.holder import HolderProcess
from andon.leases.book.lease_book import Book
from andon.leases.rules.rights import LeaseRequester
from andon.leases.rules.rows import cordon_rows, lease_rows, waiting_rows
from andon.leases.rules.verdict import verdicts
from andon.model.codec import document
from andon.model.device import Process, Snapshot
from andon.model.lease import Cordon, LeaseKind, LeaseState, PidScope
from andon.model.lease_list import BookRow, LeaseList
from andon.node.seen.sights import leases_seen_by
from andon.node.watched.node import WatchedNode
from andon.settings.resolution import Settings
from andon.units import GIB
from andon.web.answers.description import ANSWERS, LEASE_LIST
from andon.web.answers.payloads import grant
from andon.web.answers.problems import problem_of
from andon.web.app import build
from andon.web.blocking_pool import BlockingPool, Visit
from andon.web.live.watch import prepared
from tests.support.described import check
from tests.support.replaced import answers, constants, fails
from tests.support.rows import rows
from tests.support.sharing_parts import capacities_of, claim, gpu, kin, lease, need, owner, ticket
from tests.support.snapshots import AT, assert_golden
from tests.support.web_parts import BEARER, HOME, Caller, Parts, end_holders, served

NODE = Snapshot("node17", AT, devices=tuple(gpu(i) for i in range(4)))


@pytest.fixture
def parts(tmp_path: Path, book: Book) -> Parts:
    return Parts(tmp_path, [NODE])


@pytest.fixture
def client(parts: Parts, book: Book, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    with served(parts) as found:
        yield found
        monkeypatch.undo()
        end_holders(book)


def lend(client: Caller, **asked: object) -> dict[str, Any]:
    answer = client.post("/api/leases", json=asked, headers=BEARER)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_without_the_token_nothing_is_lent_moved_ended_or_withheld(
    client: Caller, book: Book
) -> None:
    held = book.write_lease(lease(0, owner=myself(), until=time.time() + 60))
    for method, path, body in (
        ("POST", "/api/leases", {}),
        ("POST", "/api/leases/k7qm2/renew", {"seconds": 600}),
        ("DELETE", "/api/leases/k7qm2", None),
        ("PUT", "/api/devices/0/cordon", {}),
        ("DELETE", "/api/devices/0/cordon", None),
    ):
        answer = client.request(method, path, json=body)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (401, "denied")
    assert len(book.entries()) == 1
    assert book.cordons() == ()
    held.release()


@rows(
    "body",
    [
        {"gpus": 0},
        {"gpus": -1},
        {"gpus": True},
        {"gpus": 1.5},
        {"gpus": "many"},
        {"gpus": "4..2"},
        {"gpus": 2000},
        {"memory": "a lot"},
        {"memory": "0"},
        {"memory": "1e400"},
        {"shared": True},
        {"seconds": 9},
        {"seconds": 8 * 86_400},
        {"seconds": "long"},
        {"wait_seconds": 31},
        {"wait_seconds": -1},
        {"priority": 1001},
        {"models": "H100"},
        {"models": [""]},
        {"command": "x" * 401},
        {"more": 1},
        [],
    ],
)
def test_nonsense_is_refused_and_leaves_nothing(client: Caller, book: Book, body: object) -> None:
    answer = client.post("/api/leases", json=body, headers=BEARER)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (422, "invalid")
    assert book.entries() == []


@pytest.mark.parametrize(
    "body",
    [{"seconds": 9}, {"fence": -1}, {"fence": 2**63}, {"fence": "old"}, {"more": 1}, {}],
)
def test_a_renewal_that_makes_no_sense_is_refused(client: Caller, body: dict[str, Any]) -> None:
    made = lend(client)
    answer = client.post(f"/api/leases/{made['id']}/renew", json=body, headers=BEARER)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (422, "invalid")
    wrong = client.delete(f"/api/leases/{made['id']}", params={"fence": "x"}, headers=BEARER)
    assert wrong.status_code == 422


def test_what_was_lent_is_written_down(client: Caller, parts: Parts) -> None:
    made = lend(client, gpus=2, seconds=60)
    client.delete(f"/api/leases/{made['id']}", params={"fence": made["fence"]}, headers=BEARER)
    log = [json.loads(line) for line in parts.audit.path.read_text().splitlines()]
    assert [line["event"] for line in log] == ["requested", "done", "requested", "done"]
    assert (log[1]["lease"], log[1]["devices"], log[1]["seconds"]) == (
        made["id"],
        [device["uuid"] for device in made["devices"]],
        60.0,
    )
    assert log[3]["lease"] == made["id"]


@rows(
    ("asked", "status", "words"),
    [
        ({"gpus": 5}, 409, "5 GPUs requested, only 4 visible"),
        ({"memory": "9TiB"}, 409, "no GPU can satisfy this"),
        ({"models": ["B200"]}, 404, "no device here is of model 'B200'"),
        ({"devices": ["9"]}, 404, "there is no device '9'"),
    ],
)
def test_what_can_never_be_met_is_refused_although_the_caller_would_wait(
    client: Caller, book: Book, asked: dict[str, Any], status: int, words: str
) -> None:
    wanted = {**asked, "wait_seconds": 30}
    answer = client.post("/api/leases", json=wanted, headers=BEARER)
    assert answer.status_code == status
    assert words in answer.json()["error"]["reason"]
    assert book.entries() == []


def test_devices_of_different_sizes_are_lent_together_only_where_that_is_said(
    tmp_path: Path, book: Book
) -> None:
    mixed = Snapshot("node17", AT, devices=(gpu(0), gpu(1, total=24 << 30)))
    with served(Parts(tmp_path, [mixed])) as client:
        refused = client.post("/api/leases", json={"gpus": 2}, headers=BEARER)
        assert refused.status_code == 409
        assert "unbalanced" in refused.json()["error"]["hint"]
        assert len(lend(client, gpus=2, unbalanced=True)["devices"]) == 2
        end_holders(book)


def test_another_users_lease_is_refused_with_who_to_ask(
    client: Caller, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = book.write_lease(lease(0, until=time.time() + 600))
    for module in (releaser, listing):
        answers(monkeypatch, module, "this_requester", LeaseRequester(54321, PidScope()))
    [entry] = book.entries()
    answer = client.delete("/api/leases/k7qm2", headers=BEARER)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "denied")
    assert answer.json()["error"]["reason"] == f"lease k7qm2 belongs to {entry.user}"
    assert "ask " in answer.json()["error"]["hint"]
    [row] = client.get("/api/leases").json()["leases"]
    assert row["releasable"] is False
    assert row["not_releasable_reason"].startswith(f"lease k7qm2 belongs to {entry.user}: ask ")
    held.release()


@pytest.mark.parametrize("path", ["/api/leases/zzzzz/renew", "/api/leases/..%2f..%2fx/renew"])
def test_a_lease_that_is_not_there_is_gone(client: Caller, path: str) -> None:
    answer = client.post(path, json={"seconds": 60, "fence": 1}, headers=BEARER)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (404, "gone")


def test_the_beginning_of_an_id_is_not_enough(client: Caller) -> None:
    made = lend(client)
    answer = client.delete(
        f"/api/leases/{made['id'][:3]}", params={"fence": made["fence"]}, headers=BEARER
    )
    assert answer.status_code == 404
    assert len(client.get("/api/leases").json()["leases"]) == 1


def test_a_lease_without_an_end_cannot_be_moved(client: Caller, book: Book) -> None:
    held = book.write_lease(lease(0, owner=myself()))
    answer = client.post("/api/leases/k7qm2/renew", json={"seconds": 60}, headers=BEARER)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "conflict")
    held.release()


def test_a_book_that_cannot_be_written_refuses_and_nothing_is_half_done(
    client: Caller, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch, files, "_write", OSError(28, "No space left on device"))
    answer = client.post("/api/leases", json={}, headers=BEARER)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "unavailable")
    assert "No space left" in answer.json()["error"]["reason"]
    assert list((book.path / "leases").iterdir()) == []


def test_a_holder_that_does_not_take_the_lease_costs_it(
    client: Caller, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, HolderProcess, "has_taken", False)
    answer = client.post("/api/leases", json={}, headers=BEARER)
    assert answer.status_code == 503
    assert book.entries() == []


def test_more_holders_than_a_machine_should_have_are_refused(
    client: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, lender_module, MOST_LENT=1)
    lend(client)
    answer = client.post("/api/leases", json={}, headers=BEARER)
    assert answer.status_code == 409
    assert "network leases" in answer.json()["error"]["reason"]


def test_a_book_that_cannot_be_read_is_told_and_is_no_error(
    client: Caller, parts: Parts, book: Book
) -> None:
    (book.path / "leases").rename(book.path / "away")
    said = client.get("/api/leases").json()
    why = f"the lease book {book.path} has no folder leases"
    assert (said["leases"], said["note"]) == ([], why)
    (book.path / "away").rename(book.path / "leases")
    assert said["book"] == {"path": str(book.path), "owner": user_name(os.getuid())}


def test_a_server_that_lends_nothing_says_so(parts: Parts) -> None:
    runs = parts.node.runs
    past = parts.node.past
    node = WatchedNode("node", Settings(), parts.live, past, parts.watcher, runs)
    app = build(replace(parts.shop, node=node), HOME, parts.audit)
    caller = Caller(app, "127.0.0.1", "localhost")
    assert caller.get("/api/features").json()["features"]["leases"] is False
    assert caller.get("/api/leases").status_code == 503
    parts.close()


# The desk.


def test_the_desk_serves_only_so_many_and_the_rest_are_told() -> None:
    async def busy() -> None:
        desk, go, request = BlockingPool("estimate", 2, 1), threading.Event(), endless()
        work = [
            asyncio.ensure_future(desk.do(request, lambda _: go.wait(30), wait)) for wait in (1, 0)
        ]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="too many estimate requests at once"):
            await desk.do(request, lambda _: None)
        with pytest.raises(Unavailable, match="waiting for devices"):
            await desk.do(request, lambda _: None, 1.0)
        go.set()
        assert await asyncio.gather(*work) == [True, True]
        await asyncio.sleep(0)
        assert await desk.do(request, lambda _: 7) == 7

    asyncio.run(busy())


def test_who_leaves_the_desk_is_worked_for_no_longer() -> None:
    gone: Queue[str] = Queue()

    def work(visit: Visit) -> None:
        try:
            while True:
                visit.go_on()
                time.sleep(0.001)
        except Exception as error:
            gone.put(str(error))
            raise

    async def leaving() -> None:
        desk = BlockingPool("lease")
        task = asyncio.ensure_future(desk.do(endless(), work))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(Exception, match="disconnected"):
            await desk.do(endless(ends=True), work)

    asyncio.run(leaving())
    told = [gone.get(timeout=120) for _ in range(2)]
    assert told == ["the client disconnected"] * 2


def endless(ends: bool = False) -> Any:
    """A request whose connection stays, or is closed at once."""

    async def receive() -> dict[str, str]:
        if not ends:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    return SimpleNamespace(receive=receive)


# The payloads.


def a_list() -> LeaseList:
    """Three users on four devices, one in line, one device withheld."""
    here, alice = PidScope("b", "n"), LeaseRequester(1000, PidScope("b", "n"))
    network = lease(
        0, 1, name="k7qm2", kind=LeaseKind.NETWORK, command="train.py", fence=1763170867000000,
        since=AT - 600, until=AT + 600,
    )  # fmt: skip
    bobs = lease(2, name="p3xw9", memory_gib=10, since=AT - 60, command="serve.py",
                 owner=owner("bob", 1001, 300), fence=1763170867000001)  # fmt: skip
    claims = [
        claim(network),
        replace(claim(bobs, user="bob"), uid=1001, file="p3xw9.lease"),
        replace(claim(None, LeaseState.UNREADABLE, "eve"), uid=1002, file="x.lease"),
    ]
    statuses = [
        gpu(0, 20, 90, processes=[Process(7, memory_bytes=20 * GIB)]),
        gpu(1, busy=50),
        gpu(2, 9, 40, processes=[Process(8, memory_bytes=9 * GIB)]),
        gpu(3),
    ]
    family = {7: kin(7), 8: kin(8, uid=1001)}
    line = [ticket(since=AT - 30, wanted=need(4, memory_bytes=40 * GIB), user="carol")]
    cordons = (Cordon("GPU-3", AT - 3600, "root", "new fan"),)
    found = capacities_of(statuses, *claims, kin=family, scope=here, cordons=cordons)
    return LeaseList(
        AT,
        lease_rows(claims, found, alice),
        waiting_rows(line),
        cordon_rows(cordons, [gpu(3).device]),
        BookRow("/run/andon", "root"),
        devices=verdicts(found, {}),
    )


def refused() -> Conflict:
    lines = ("GPU 0: held by lease k7qm2 (alice), until about 01:51", "GPU 3: cordoned by root")
    return Conflict(
        "2 GPUs requested, 0 available", hint="see who holds them: andon leases", mistakes=lines
    )


def test_the_golden_payloads_are_what_is_said() -> None:
    found = a_list()
    mask = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-0,GPU-1"}
    golden = {
        "leases": document(found),
        "leases-without-token": document(leases_seen_by(ANONYMOUS, found)),
        "lease-lent": grant(found.leases[0], mask | {"ANDON_LEASE": "k7qm2"}),
        "lease-refused": json.loads(problem_of(refused())),
        "event-leases": json.loads(prepared(document(leases_seen_by(ANONYMOUS, found)))),
    }
    for name, said in golden.items():
        text = json.dumps(said, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        assert_golden(f"api/{name}.json", text)


def test_the_list_is_what_the_description_says(client: Caller) -> None:
    check(lend(client), ANSWERS["post", "/api/leases"])
    check(client.get("/api/leases", headers=BEARER).json(), LEASE_LIST)
    check(document(leases_seen_by(ANONYMOUS, a_list())), LEASE_LIST)


def test_what_is_no_text_is_replaced_and_ends_nothing() -> None:
    [row, *_] = a_list().leases
    odd = replace(a_list(), leases=(replace(row, command="\ud800"),))
    assert json.loads(prepared(document(odd)))["leases"][0]["command"] == "?"


def test_the_servers_own_changes_are_told_with_the_whole_list(client: Caller, parts: Parts) -> None:
    heard: list[LeaseList] = []
    leave = parts.lender.subscribe(heard.append)
    made = lend(client)
    client.delete(f"/api/leases/{made['id']}", params={"fence": made["fence"]}, headers=BEARER)
    refused = client.delete("/api/leases/zzzzz", headers=BEARER)
    assert refused.status_code == 404
    parts.lender.changed()
    assert [[row.id for row in one.leases] for one in heard] == [[made["id"]], []]
    leave()
    told = len(heard)
    lend(client)
    assert len(heard) == told
