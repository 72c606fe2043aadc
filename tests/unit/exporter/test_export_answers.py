"""What a receiver's answer means for what was sent."""

import pytest

from andon.exporter.rules.answers import LONGEST_WAIT_SECONDS, SendVerdict, judge

NOW = 1_763_170_867.0  # Sat, 15 Nov 2025 01:41:07 GMT


@pytest.mark.parametrize(
    ("verdict", "statuses"),
    [
        (SendVerdict.ACCEPTED, (200, 202, 204)),
        (SendVerdict.REFUSED, (400, 413, 415, 422)),
        (SendVerdict.AGAIN, (100, 301, 401, 403, 404, 408, 429, 500, 503, 599, 999)),
    ],
)
def test_only_what_can_never_be_taken_is_given_up(
    verdict: SendVerdict, statuses: tuple[int, ...]
) -> None:
    for status in statuses:
        found = judge(status, {}, b"", NOW)
        assert found.verdict is verdict, status
        assert (found.trouble is None) == (verdict is SendVerdict.ACCEPTED)


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
    assert found.verdict is SendVerdict.REFUSED
    assert found.trouble is not None
    assert found.trouble.reason == "refused 3 points: too old"


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"<html>", b"[1]", b"3", b'{"partialSuccess": {}}', b'{"partialSuccess": null}',
     b'{"partialSuccess": {"rejectedDataPoints": "0"}}', b"[" * 5000, b"\xff\xfe"],
)  # fmt: skip
def test_an_answer_that_says_nothing_of_points_is_an_acceptance(body: bytes) -> None:
    assert judge(200, {}, body, NOW).verdict is SendVerdict.ACCEPTED


def test_what_it_says_is_shortened_and_shows_no_secret() -> None:
    trouble = judge(400, {}, b"password=hunter2 \x1b[31m" + b"x" * 5000, NOW).trouble
    assert trouble is not None
    assert trouble.reason.startswith("answered 400: password=***")
    assert trouble.reason.isprintable()
    assert len(trouble.reason) < 300
