"""A dear answer is made once for all who ask before the next snapshot."""

import threading

from msgspec.structs import fields, replace

from andon.access.roles import ALL_SEEING, BLIND
from andon.history.rules.series import Bucket
from andon.web.answers.sights import SingleFlight
from andon.web.server_history import _bucket
from tests.support import snapshots as drawn


def test_one_answer_serves_all_until_the_next_snapshot() -> None:
    once, made, began, go_on = SingleFlight(), [], threading.Event(), threading.Event()
    first = drawn.farm()

    def slowly() -> bytes:
        made.append("slowly")
        began.set()
        assert go_on.wait(60)
        return b"1"

    answers: list[bytes] = []
    ask = [threading.Thread(target=lambda: answers.append(once.answer(first, ALL_SEEING, slowly)))
           for _ in range(3)]  # fmt: skip
    for thread in ask:
        thread.start()
    assert began.wait(60)
    go_on.set()
    for thread in ask:
        thread.join(60)
    assert answers == [b"1"] * 3
    assert made == ["slowly"]
    assert once.answer(first, BLIND, lambda: b"for strangers") == b"for strangers"
    assert once.answer(replace(first), ALL_SEEING, lambda: b"2") == b"2"


def test_a_bucket_is_told_whole() -> None:
    assert _bucket(Bucket(1.0, 2.0, 3, 4.0, 5.0, 6.0)) == {
        "since": 1.0, "until": 2.0, "count": 3, "min": 4.0, "mean": 5.0, "max": 6.0,
    }  # fmt: skip
    assert list(_bucket(Bucket(1.0, 2.0))) == [field.name for field in fields(Bucket)]
