"""A log that strangers can neither fill nor forge."""

import logging

from andon.web.transport.log_throttle import (
    EVERY_SECONDS,
    LONGEST_MESSAGE,
    MOST_KINDS,
    LogThrottle,
    escaped,
    throttled,
)


class Heard(logging.Handler):
    """What came through."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Made:
    """A logger with a throttle whose clock is ours."""

    def __init__(self) -> None:
        self.now = 0.0
        self.heard = Heard()
        self.log = logging.Logger("strangers")
        self.log.addFilter(LogThrottle(lambda: self.now))
        self.log.addHandler(self.heard)


def test_a_kind_is_written_once_a_minute_with_the_number_left_out() -> None:
    made = Made()
    for number in range(1000):
        made.log.warning("client %d is odd", number)
    made.now = EVERY_SECONDS
    made.log.warning("client %d is odd", 1)
    assert made.heard.lines == ["client 0 is odd", "client 1 is odd (999 more of this kind since)"]


def test_another_kind_or_another_exception_is_written_at_once() -> None:
    made = Made()
    for error in (ValueError(), KeyError(), ValueError()):
        try:
            raise error
        except Exception:
            made.log.exception("failed")
    made.log.warning("another")
    assert made.heard.lines == ["failed", "failed", "another"]


def test_kinds_that_a_client_makes_up_are_bounded_and_forgotten() -> None:
    made = Made()
    for number in range(1000):
        made.log.warning(f"made up {number}")
    assert len(made.heard.lines) == MOST_KINDS
    made.now = EVERY_SECONDS
    made.log.warning("made up 1000")
    assert made.heard.lines[-1] == "made up 1000"


def test_no_message_begins_a_line_or_moves_the_cursor() -> None:
    made = Made()
    made.log.warning("sid %s", "x\n2026-01-01 CRITICAL\r\x1b[31m\x9b\u2028\u202e\0" + "y" * 9000)
    (line,) = made.heard.lines
    assert line.isprintable()
    assert "\\n2026" in line
    assert len(line) < LONGEST_MESSAGE + 100
    assert escaped("plain – text") == "plain – text"


def test_the_text_of_an_exception_begins_no_line_either() -> None:
    made = Made()
    formatted = list[str]()
    made.log.addHandler(_Formatting(formatted))
    try:
        raise ValueError("x\n2026-01-01 CRITICAL FAKE\x1b[31m")
    except ValueError:
        made.log.exception("failed")
    first, *others = formatted[0].split("\n")
    assert first == "failed"
    assert any("FAKE" in line for line in others)
    assert all(line.startswith("  ") and line.isprintable() for line in others)


class _Formatting(logging.Handler):
    """What a file would hold."""

    def __init__(self, into: list[str]) -> None:
        super().__init__()
        self._into = into

    def emit(self, record: logging.LogRecord) -> None:
        self._into.append(self.format(record))


def test_a_message_that_cannot_be_formatted_is_still_one_line() -> None:
    made = Made()
    made.log.warning("100 % odd\n")
    assert made.heard.lines == ["100 % odd\\n"]


def test_a_logger_has_one_throttle_however_often_it_is_asked_for() -> None:
    first = throttled("andon.test.throttled")
    assert throttled("andon.test.throttled") is first
    assert len(first.filters) == 1
