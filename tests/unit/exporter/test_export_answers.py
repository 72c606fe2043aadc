"""What a receiver's answer means for what was sent."""

import pytest

from andon.exporter.rules.answers import LONGEST_WAIT_SECONDS, Verdict, judge

NOW = 1_763_170_867.0  # Sat, 15 Nov 2025 01:41:07 GMT


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, Verdict.ACCEPTED), (202, Verdict.ACCEPTED), (204, Verdict.ACCEPTED),
        (301, Verdict.AGAIN), (400, Verdict.REFUSED), (401, Verdict.AGAIN), (403, Verdict.AGAIN),
        (404, Verdict.AGAIN), (408, Verdict.AGAIN), (413, Verdict.REFUSED), (415, Verdict.REFUSED),
        (422, Verdict.REFUSED), (429, Verdict.AGAIN), (500, Verdict.AGAIN), (503, Verdict.AGAIN),
        (599, Verdict.AGAIN), (999, Verdict.AGAIN), (100, Verdict.AGAIN),
    ],
)  # fmt: skip
def test_only_what_can_never_be_taken_is_given_up(status: int, verdict: Verdict) -> None:
    found = judge(status, {}, b"", NOW)
    assert found.verdict is verdict
    assert (found.trouble is None) == (verdict is Verdict.ACCEPTED)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7), ("0", 0), ("999999999999999999", LONGEST_WAIT_SECONDS),
        ("Sat, 15 Nov 2025 01:41:17 GMT", 10), ("Sat, 15 Nov 2025 01:40:00 GMT", 0),
        ("Fri, 15 Nov 2999 01:40:00 GMT", LONGEST_WAIT_SECONDS), ("soon", 0), ("-3", 0), ("", 0),
        ("²", 0),
    ],
)  # fmt: skip
def test_the_receiver_says_how_long_to_wait(text: str, seconds: float) -> None:
    assert judge(429, {"retry-after": text}, b"", NOW).wait_seconds == seconds


def test_points_that_were_refused_among_accepted_ones_are_known() -> None:
    body = b'{"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too old"}}'
    found = judge(200, {}, body, NOW)
    assert found.verdict is Verdict.REFUSED
    assert found.trouble is not None
    assert found.trouble.reason == "refused 3 points: too old"


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"<html>", b"[1]", b"3", b'{"partialSuccess": {}}', b'{"partialSuccess": null}',
     b'{"partialSuccess": {"rejectedDataPoints": "0"}}', b"[" * 5000, b"\xff\xfe"],
)  # fmt: skip
def test_an_answer_that_says_nothing_of_points_is_an_acceptance(body: bytes) -> None:
    assert judge(200, {}, body, NOW).verdict is Verdict.ACCEPTED


def test_what_it_says_is_shortened_and_shows_no_secret() -> None:
    trouble = judge(400, {}, b"password=hunter2 \x1b[31m" + b"x" * 5000, NOW).trouble
    assert trouble is not None
    assert trouble.reason.startswith("answered 400: password=***")
    assert trouble.reason.isprintable()
    assert len(trouble.reason) < 300
