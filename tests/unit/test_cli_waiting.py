"""The line that a person sees while waiting."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from andon.cli.show.waiting import waiting_text
from andon.engine.sharing.availability import Availability, BookPages
from andon.engine.sharing.granter import Granter, Progress, Terms
from andon.model.device import Snapshot
from tests.support.lease_books import a_book
from tests.support.sharing_parts import gpu, need, owner, request, ticket


def test_the_line_says_how_long_who_is_in_front_and_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = a_book(tmp_path / "andon", monkeypatch)
    seen = Availability(lambda: Snapshot("n", time.time(), devices=(gpu(0), gpu(1))))
    held = Granter(book, seen).grant(request(2), Terms(), 0.0)
    hold = book.write_ticket(replace(ticket(wanted=need(2)), owner=owner("alice")))
    candidates = seen.candidates(seen.view(), BookPages.of(book), request(2), None, time.time())
    words = waiting_text(Progress(102.0, candidates))
    user = candidates.ahead[0].owner.user  # the file's owner, whatever the ticket says
    assert words == (
        f"waiting 1:42 · 2nd in queue behind {user} (2 GPUs) · 0 of 2 free · "
        f"GPU 0: held by lease {held.held.lease.id} ({user})"
    )
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
