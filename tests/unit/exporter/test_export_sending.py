"""One export and a receiver that fails in every way: nothing is lost, and nothing sent again."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.errors import Unavailable
from andon.exporter.exports import MOST_IN_MEMORY, Export, packer
from andon.exporter.receiver import Receiver as Address
from andon.failures.rules.backoff import BackOff
from andon.sampling.bus import Subscription
from andon.settings.exports import OTLP, ExportSettings, SecretSource
from tests.support.disks import file_limit
from tests.support.full_snapshot import FULL
from tests.support.receiving import Receiver, raw, receiving, status
from tests.support.waiting import wait_for

SECRET = "hunter2hunter2"


class Running:
    """An export whose snapshots are numbered; the body of a request is the number."""

    def __init__(self, export: Export, session: Subscription) -> None:
        self.export, self._session = export, session

    def tick(self, *numbers: int) -> None:
        for number in numbers:
            self._session.put(replace(FULL, at=float(number)), float(number))

    def wait(self, **counts: object) -> None:
        wait_for(lambda: counts.items() <= self.counts.items(), what=f"{counts}")

    @property
    def counts(self) -> dict[str, object]:
        return self.export.health()


@contextmanager
def exporting(
    folder: Path, port: int, seconds: float = 5.0, **settings: object
) -> Iterator[Running]:
    url = f"http://127.0.0.1:{port}/v1/metrics?key={SECRET}"
    given = replace(ExportSettings("lab", OTLP, url, timeout_seconds=seconds), **settings)
    session = Subscription(1.0, False, 64, leave=lambda: None)
    export = Export(
        given, session, lambda one: "", lambda text, at: b"%d" % at, Address(given, {}), folder,
        BackOff(0.02, 0.1, at_once=0),
    )  # fmt: skip
    try:
        yield Running(export, session)
    finally:
        export.end()
        export.join(10)


def numbers(receiver: Receiver) -> list[int]:
    return [int(body) for body in receiver.bodies]


def test_each_is_sent_once_and_in_order(tmp_path: Path) -> None:
    with receiving() as receiver, exporting(tmp_path, receiver.port) as running:
        running.tick(1, 2, 3)
        running.wait(sent=3, waiting=0)
        assert numbers(receiver) == [1, 2, 3]
        assert running.export.health().items() >= {"ok": True, "refused": 0, "dropped": 0}.items()
        assert SECRET not in str(running.export.health())


def test_what_is_refused_is_counted_and_not_sent_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replies = [status(400, b"out of order sample"), status(400, b"out of order sample"),
               status(204)]  # fmt: skip
    with receiving(*replies) as receiver, exporting(tmp_path, receiver.port) as running:
        running.tick(1, 2, 3)
        running.wait(sent=1, refused=2, waiting=0)
        assert numbers(receiver) == [1, 2, 3]
    assert caplog.text.count("answered 400: out of order sample; it is not sent again") == 1
    assert SECRET not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "reply",
    [
        status(429), status(503, Retry_After="0"), status(500, b"<html>oops"), status(404),
        status(302, Location="http://127.0.0.1:9/"), raw(b""), raw(b"\x00\xff nonsense\r\n\r\n"),
        raw(b"HTTP/1.1 204 " + b"x" * 100_000), raw(b"HTTP/1.1 20"),
    ],
)  # fmt: skip
def test_what_got_no_proper_answer_is_sent_again(
    tmp_path: Path, reply: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    with (
        receiving(reply, reply, reply, status(204)) as receiver,
        exporting(tmp_path, receiver.port) as running,
    ):
        running.tick(1, 2)
        running.wait(sent=2, failures=3, refused=0, waiting=0)
        assert numbers(receiver) == [1, 1, 1, 1, 2]
    assert caplog.text.count("/v1/metrics") == 2, "when it began, and when it was over"


def test_an_answer_that_is_cut_off_after_its_status_is_one(tmp_path: Path) -> None:
    half = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    with receiving(half) as receiver, exporting(tmp_path, receiver.port) as running:
        running.tick(1, 2)
        running.wait(sent=2, failures=0, waiting=0)


def test_a_receiver_that_asks_for_time_gets_it(tmp_path: Path) -> None:
    with (
        receiving(status(429, Retry_After="3600"), status(204)) as receiver,
        exporting(tmp_path, receiver.port) as running,
    ):
        running.tick(1, 2)
        running.wait(failures=1, waiting=2)
        assert running.export.health()["reason"] == "answered 429"
    assert numbers(receiver) == [1]


@pytest.mark.slow
def test_one_that_answers_too_slowly_is_given_up_and_tried_again(tmp_path: Path) -> None:
    free = threading.Event()

    def silent(_: object) -> None:
        free.wait()

    with (
        receiving(silent, status(204)) as receiver,
        exporting(tmp_path, receiver.port, seconds=0.2) as running,
    ):
        running.tick(1)
        running.wait(sent=1, failures=1)
        free.set()
        assert numbers(receiver) == [1, 1]


def test_what_waits_survives_a_restart_and_what_was_acknowledged_is_never_sent_again(
    tmp_path: Path,
) -> None:
    with receiving(status(204), status(204), status(503)) as receiver:
        with exporting(tmp_path, receiver.port) as running:
            running.tick(1, 2, 3, 4)
            running.wait(sent=2, waiting=2)
        port = receiver.port
    with exporting(tmp_path, port) as running:  # now it is away
        running.tick(5)
        running.wait(waiting=3, reason="cannot be reached: Connection refused")
        with receiving(port=port) as receiver:
            running.wait(sent=3, waiting=0)
            assert numbers(receiver) == [3, 4, 5]


def test_a_queue_that_cannot_be_written_is_replaced_by_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    many = MOST_IN_MEMORY + 5
    with receiving(status(503)) as receiver, exporting(tmp_path, receiver.port) as running:
        running.tick(1, 2)
        running.wait(waiting=2)
        with file_limit(max(one.stat().st_size for one in tmp_path.iterdir())):
            running.tick(*range(3, 3 + many))
            running.wait(waiting=2 + MOST_IN_MEMORY, dropped=5)
            assert running.export.health()["ok"] is False
        running.tick(99)
        running.wait(dropped=6)
        receiver.replies[:] = [status(204)]
        running.wait(sent=2 + MOST_IN_MEMORY, waiting=0)
        running.tick(100)
        running.wait(sent=3 + MOST_IN_MEMORY, waiting=0)
        taken = numbers(receiver)
        assert sorted(taken) == taken
        assert {*range(1, 3), *range(9, 3 + many), 99, 100} == set(taken)
        assert running.export.health()["ok"] is True
    assert caplog.text.count("File too large") == 1
    assert caplog.text.count("its queue can be written again") == 1


def test_a_folder_that_cannot_be_used_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a file")
    with receiving() as receiver, exporting(tmp_path / "x" / "q", receiver.port) as running:
        running.tick(1)
        running.wait(sent=1, waiting=0)
        assert "cannot be used" in str(running.export.health()["reason"])


def test_a_secret_is_read_when_it_is_needed_and_never_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    with (
        receiving() as receiver,
        exporting(tmp_path / "q", receiver.port, secret=SecretSource(str(file))) as running,
    ):
        running.tick(1)
        wait_for(lambda: running.export.counts().failures)
        assert f"{file} cannot be read" in str(running.export.health()["reason"])
        file.write_text(f"{SECRET}\n")
        running.wait(sent=1)
        file.write_text("renewed\n")
        running.tick(2)
        running.wait(sent=2)
        file.write_text("two\nlines " + SECRET)
        running.tick(3)
        running.wait(waiting=1, ok=False)
        assert SECRET not in str(running.export.health())
    sent = [one.headers.get("authorization") for one in receiver.got]
    assert sent == [f"Bearer {SECRET}", "Bearer renewed"]
    assert SECRET not in caplog.text


def test_a_password_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_PASSWORD", "open sesame")
    secret = SecretSource(variable="LAB_PASSWORD")
    with (
        receiving() as receiver,
        exporting(tmp_path, receiver.port, user="ada", secret=secret, headers={"X-Org": "7"}) as on,
    ):
        on.tick(1)
        on.wait(sent=1)
        (got,) = receiver.got
    assert got.headers["authorization"] == "Basic YWRhOm9wZW4gc2VzYW1l"
    assert got.headers["x-org"] == "7"
    assert got.path == f"/v1/metrics?key={SECRET}"


def test_a_snapshot_that_cannot_be_packed_does_not_stop_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving() as receiver:
        given = ExportSettings("lab", OTLP, f"http://127.0.0.1:{receiver.port}/")
        session = Subscription(1.0, False, 64, leave=lambda: None)

        def pack(text: str, at: float) -> bytes:
            return b"%d" % (1 / (at - 1))

        export = Export(given, session, lambda one: "", pack, Address(given, {}), tmp_path)
        running = Running(export, session)
        running.tick(1, 2)
        running.wait(sent=1)
        export.end()
        export.join(10)
    assert "export lab failed; continuing" in caplog.text


def test_remote_write_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cramjam", None)
    with pytest.raises(Unavailable) as caught:
        packer(ExportSettings("lab", "remote-write", "http://h/"), "andon", "n1")
    assert caught.value.hint == "pip install 'andon[export]'"
