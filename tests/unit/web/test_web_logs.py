"""The server's log: no caller can fill it, and no caller can forge a line of it."""

import io
import logging
from collections.abc import Iterator

import pytest

from andon.web.transport.logs import LogQuota, bounded, kind_of

log = logging.getLogger("andon.test")


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    with bounded(stream):
        yield stream


def fail(words: str) -> None:
    raise ValueError(words)


def test_errors_of_a_kind_are_logged_once(out: io.StringIO) -> None:
    for number in range(200):
        try:
            fail(f"a stranger says {number}")
        except ValueError:
            log.exception("an update failed for %d", number)
    assert out.getvalue().count("Traceback") == 1
    assert len(out.getvalue()) < 2_000


def test_other_kinds_are_not_held_back(out: io.StringIO) -> None:
    for _ in range(2):
        log.error("one")
        log.error("two")
    assert [line.rpartition(" ")[2] for line in out.getvalue().splitlines()] == ["one", "two"]


def test_what_was_held_back_is_told_with_its_count() -> None:
    now, stream = [0.0], io.StringIO()
    quota, handler = LogQuota(lambda: now[0]), logging.StreamHandler(stream)
    handler.addFilter(quota)
    log.addHandler(handler)
    try:
        for seconds in (0.0, 1.0, 60.0, 61.0):
            now[0] = seconds
            log.error("again")
        assert "(and 1 more like it within a minute)" in stream.getvalue()
        assert "logged at" not in stream.getvalue()
        now[0] = 120.0
        quota.report()
        assert "1 more like the message logged at" in stream.getvalue()
    finally:
        quota.close()
        log.removeHandler(handler)


def test_what_is_held_back_later_than_another_kind_is_told_too() -> None:
    now, stream = [0.0], io.StringIO()
    quota, handler = LogQuota(lambda: now[0]), logging.StreamHandler(stream)
    handler.addFilter(quota)
    log.addHandler(handler)
    try:
        for seconds, kind in ((0.0, "a"), (1.0, "a"), (40.0, "b"), (41.0, "b")):
            now[0] = seconds
            log.error("again", extra={"kind": kind})
        now[0] = 61.0
        quota.report()
        assert stream.getvalue().count("1 more like the message logged at") == 1
        assert quota._timer is not None
        now[0] = 121.0
        quota.report()
        assert stream.getvalue().count("1 more like the message logged at") == 2
        assert quota._timer is None
    finally:
        quota.close()
        log.removeHandler(handler)


def test_no_line_can_be_forged(out: io.StringIO) -> None:
    log.error(
        "Invalid session %s", "x\n2026-11-15 CRITICAL all is lost\x1b[31m\r\x9b\u2028\u202e\0"
    )
    try:
        fail("y\n2026-11-15 CRITICAL all is lost")
    except ValueError:
        log.exception("failed")
    lines = out.getvalue().splitlines()
    assert not [line for line in lines if line.startswith("2026-11-15 CRITICAL")]
    assert not [char for char in out.getvalue() if char != "\n" and not char.isprintable()]


def test_nothing_that_a_caller_says_is_part_of_a_kind() -> None:
    def record(words: str) -> logging.LogRecord:
        return logging.LogRecord("a", 40, "file.py", 7, "%s", (words,), None)

    assert kind_of(record("one")) == kind_of(record("two"))


def test_kinds_that_the_code_names_are_logged_apart(out: io.StringIO) -> None:
    for kind in ("binary data", "too large", "binary data"):
        log.warning("ignored: %s", kind, extra={"kind": kind})
    assert len(out.getvalue().splitlines()) == 2


def test_another_exception_is_written_at_once(out: io.StringIO) -> None:
    for error in (ValueError(), KeyError(), ValueError()):
        try:
            raise error
        except (ValueError, KeyError):
            log.exception("failed")
    assert out.getvalue().count("Traceback") == 2


def test_the_libraries_get_no_handler_of_their_own(out: io.StringIO) -> None:
    import socketio

    socketio.AsyncServer(async_mode="asgi")
    for name in ("engineio.server", "socketio.server"):
        logging.getLogger(name).error("their words")
    assert out.getvalue().count("their words") == 2
