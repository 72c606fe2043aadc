"""The line that a person sees while waiting."""

import time

import pytest
from msgspec.structs import replace

from andon.cli.main import run
from andon.cli.show.waiting import queue_line, waiting_text
from andon.leases.availability import Availability, BookContents
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms, Progress
from andon.model.device import Process, ProcessKind, Snapshot
from andon.model.lease_list import WaitingRow
from andon.units import GIB
from tests.support.sharing_parts import gpu, need, owner, request, ticket


def test_the_line_says_how_long_who_is_in_front_and_what_is_missing(book: Book) -> None:
    seen = Availability(lambda: Snapshot("n", time.time(), devices=(gpu(0), gpu(1))))
    held = Granter(book, seen).grant(request(2), LeaseTerms(), 0.0)
    hold = book.write_ticket(replace(ticket(wanted=need(2)), owner=owner("alice")))
    candidates = seen.candidates(seen.view(), BookContents.of(book), request(2), None, time.time())
    words = waiting_text(Progress(102.0, candidates))
    user = candidates.ahead[0].owner.user  # the file's owner, whatever the ticket says
    assert words == (
        f"waiting 1:42 · 2nd in queue behind {user} (2 GPUs) · 0 of 2 free, 2 needed · "
        f"GPU 0: held by lease {held.held.lease.id} ({user})"
    )
    assert waiting_text(Progress(0.4, candidates)).startswith("waiting · 2nd in queue")
    assert waiting_text(Progress(3.0, candidates, "the book is locked")).endswith(
        "the book is locked"
    )
    for width in range(20, 120):
        text = waiting_text(Progress(102.0, candidates), width)
        assert len(text) <= max(width, len("waiting 1:42 · 2nd in queue"))
        assert text.count("(") == text.count(")"), "no name is cut"
    assert waiting_text(Progress(102.0, candidates), 79).endswith(f"GPU 0: {user}")
    hold.release()
    held.held.release()


def test_of_two_devices_without_an_end_the_leased_one_is_expected_first(book: Book) -> None:
    stranger = Process(77, ProcessKind.COMPUTE, GIB, name="python", user="carol")
    devices = (gpu(0, 1, processes=(stranger,)), gpu(1))
    seen = Availability(lambda: Snapshot("n", time.time(), devices=devices))
    held = Granter(book, seen).grant(request(1), LeaseTerms(), 0.0).held
    candidates = seen.candidates(seen.view(), BookContents.of(book), request(1), None, time.time())
    assert f"GPU 1: held by lease {held.lease.id}" in waiting_text(Progress(1.0, candidates))
    held.release()


def test_a_place_in_the_queue_says_what_tells_it_from_the_next_one() -> None:
    first = WaitingRow(1, "dora", 1, None, 100.0, 0)
    assert queue_line(first, 108.0) == "queue 1: dora, 1 GPU, waiting 8 s"
    second = WaitingRow(2, "dora", 2, 20 * GIB, 103.0, -1, jobs_behind=1)
    words = "queue 2: dora, 2 GPUs with 20.0 GiB, priority -1, waiting 5 s, 1 more job behind it"
    assert queue_line(second, 108.0) == words


@pytest.mark.process
def test_leases_and_who_show_several_requests_of_one_user_in_their_order(
    book: Book, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    holds = [
        book.write_ticket(replace(ticket(name, priority=priority), simulated=True))
        for name, priority in (("t1", -3), ("t2", 0))
    ]
    for command in (["leases"], ["leases", "--mine"], ["who"]):
        assert run([*command, "--simulate", "2"]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if "queue" in line]
        assert ["priority -3" in line for line in lines] == [False, True], command
        assert [line.partition(":")[0] for line in lines] == ["queue 1", "queue 2"]
    for hold in holds:
        hold.release()
