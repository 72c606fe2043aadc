"""A dear answer is made once for all who ask before the next snapshot."""

import threading
from inspect import iscoroutinefunction

from fastapi.routing import APIRoute

from andon.access.roles import ALL_SEEING, BLIND
from andon.web.answers.single_flight import SingleFlight
from andon.web.routes import sharing


def test_one_answer_serves_all_until_the_next_snapshot() -> None:
    once, made, began, go_on = SingleFlight(), [], threading.Event(), threading.Event()

    def slowly() -> bytes:
        made.append("slowly")
        began.set()
        assert go_on.wait(60)
        return b"1"

    answers: list[bytes] = []
    ask = [threading.Thread(target=lambda: answers.append(once.answer(1.0, ALL_SEEING, slowly)))
           for _ in range(3)]  # fmt: skip
    for thread in ask:
        thread.start()
    assert began.wait(60)
    go_on.set()
    for thread in ask:
        thread.join(60)
    assert answers == [b"1"] * 3
    assert made == ["slowly"]
    assert once.answer(1.0, BLIND, lambda: b"for strangers") == b"for strangers"
    assert once.answer(2.0, ALL_SEEING, lambda: b"2") == b"2"


def test_an_address_is_drawn_beside_the_event_loop() -> None:
    """A long one takes 50 ms, and whoever may read can ask for it."""
    (route,) = sharing.routes().routes
    assert isinstance(route, APIRoute)
    assert not iscoroutinefunction(route.endpoint)
