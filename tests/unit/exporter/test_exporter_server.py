"""The exporter's HTTP server: answers everybody, waits for nobody, and ends."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

import andon
from andon.errors import AndonError, Conflict, Denied, Invalid, Unavailable
from andon.exporter import server as serving
from andon.exporter.server import MetricsServer, is_loopback
from andon.exporter.spreads import Service
from andon.testing.mock import MockGpuBackend
from tests.support.exposition import parse
from tests.support.replaced import fails
from tests.support.surroundings import fresh_library
from tests.support.waiting import wait_for

Start = Callable[..., MetricsServer]


class Hasty(MetricsServer):
    """To stop a server takes a poll."""

    poll_seconds = 0.002


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers on free ports, and ends them."""
    begun: list[MetricsServer] = []

    def begin(
        text: serving.Text = lambda service: "x 1\n",
        host: str = "127.0.0.1",
        kind: type[MetricsServer] = Hasty,
    ) -> MetricsServer:
        server = kind(host, 0)
        begun.append(server)
        server.start(text, lambda: 0)
        return server

    yield begin
    for server in begun:
        server.stop()


def ask(
    server: MetricsServer, path: str = "/metrics", method: str = "GET", host: str | None = None
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        connection.close()


def test_the_text_comes_with_the_content_type_of_the_format(start: Start) -> None:
    status, body, headers = ask(start())
    assert (status, body) == (200, "x 1\n")
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["Content-Length"] == "4"
    assert headers["Server"] == f"andon/{andon.__version__}"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_the_length_is_that_of_the_bytes(start: Start) -> None:
    assert ask(start(lambda service: "é\n"))[2]["Content-Length"] == "3"


def test_every_scrape_makes_the_text_anew_and_counts_the_ones_before(start: Start) -> None:
    server = start(lambda service: f"x {service.scrapes}\n")
    assert [ask(server)[1] for _ in range(3)] == ["x 0\n", "x 1\n", "x 2\n"]


def test_head_gives_the_length_and_no_body(start: Start) -> None:
    status, body, headers = ask(start(), method="HEAD")
    assert (status, body, headers["Content-Length"]) == (200, "", "4")


def test_health_is_open_and_says_only_ok(start: Start) -> None:
    server = start()
    assert ask(server, "/healthz", host="evil.example")[:2] == (200, "ok\n")
    assert server.service().scrapes == 0


def test_another_path_gets_a_hint(start: Start) -> None:
    status, body, _ = ask(start(), "/")
    assert status == 404
    assert "/metrics" in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(start: Start, method: str) -> None:
    status, _, headers = ask(start(), method=method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:26367", "localhost.evil.example",
                                  "127.0.0.1.evil.example", "", "192.0.2.7"])  # fmt: skip
def test_a_name_that_is_not_ours_is_refused(start: Start, host: str) -> None:
    status, body, _ = ask(start(), host=host)
    assert status == 403
    assert "x 1" not in body


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:9", "127.8.8.8"]
)
def test_our_own_names_are_welcome(start: Start, host: str) -> None:
    assert ask(start(), host=host)[0] == 200


def test_bound_elsewhere_any_name_may_be_used(start: Start) -> None:
    server = start(host="0.0.0.0")
    assert not server.local_only
    assert ask(server, host="node17.example")[0] == 200


def test_an_error_is_told_with_its_hint_and_counted(start: Start) -> None:
    def fail(service: Service) -> str:
        raise Unavailable("nothing yet", hint="wait")

    server = start(fail)
    assert ask(server)[:2] == (503, "nothing yet\nhint: wait\n")
    assert server.service().failures == 1


def test_a_mistake_of_ours_is_an_answer_too(start: Start) -> None:
    def fail(service: Service) -> str:
        raise KeyError("secret")

    status, body, _ = ask(start(fail))
    assert status == 500
    assert "secret" not in body


def test_silent_clients_do_not_keep_others_waiting(start: Start) -> None:
    server = start()
    address = ("127.0.0.1", server.port)
    idle = [socket.create_connection(address) for _ in range(serving.PLACES + 8)]
    for connection in idle:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
    assert ask(server)[:2] == (200, "x 1\n")
    first = idle[0]
    first.settimeout(20)
    assert first.recv(1) == b"", "the oldest gave up its place"
    for connection in idle:
        connection.close()


def test_a_client_that_never_reads_does_not_keep_others_waiting(start: Start) -> None:
    server = start(lambda service: "x 1\n" * 2_000_000)
    with socket.create_connection(("127.0.0.1", server.port)) as stuck:
        stuck.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert stuck.recv(8) == b"HTTP/1.1"
        assert ask(server, "/healthz")[:2] == (200, "ok\n")


def test_a_client_that_dribbles_is_ended(start: Start) -> None:
    class Strict(Hasty):
        deadline_seconds = 0.0

    server = start(kind=Strict)
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as slow:
        slow.sendall(b"GET /metrics HT")
        assert slow.recv(1) == b""


@pytest.mark.slow
def test_however_many_come_threads_and_connections_are_bounded(start: Start) -> None:
    ready = threading.Event()

    def slow(service: Service) -> str:
        ready.wait(30)
        return "x 1\n"

    before = threading.active_count()
    server = start(slow)
    address, scrapes = ("127.0.0.1", server.port), serving.MOST_OPEN + 8
    clients = []
    for _ in range(scrapes):  # one after another: a full backlog is the kernel's affair
        client = socket.create_connection(address, timeout=120)
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        clients.append(client)
    assert clients[-1].recv(1) == b"", "refused: all threads are busy, and all who wait are many"
    assert threading.active_count() - before <= serving.PLACES + 1  # and the one that listens
    assert len(server._connections()) == serving.MOST_OPEN
    ready.set()
    for client in clients:
        client.close()
    wait_for(lambda: not server._connections())
    assert ask(server)[:2] == (200, "x 1\n")


@pytest.mark.parametrize("sent", [
    b"\r\n\r\n", b"GET /metrics\r\n\r\n", b"GET /metrics HTTP/2\r\n\r\n",
    b"GET http://127.0.0.1/metrics HTTP/1.1\r\n\r\n", b"GET " + b"x" * 70_000 + b"\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n folded: 1\r\n\r\n",
])  # fmt: skip
def test_what_is_no_request_is_refused(start: Start, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", start().port), timeout=120) as client:
        client.sendall(sent)
        assert client.recv(12) == b"HTTP/1.1 400"


def test_a_second_request_on_a_connection_is_not_answered(start: Start) -> None:
    one = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
    with socket.create_connection(("127.0.0.1", start().port), timeout=120) as client:
        client.sendall(one)
        with client.makefile("rb") as file:
            whole = file.read()
    assert whole.count(b"HTTP/1.1 200") == 1
    assert b"\r\nConnection: close\r\n" in whole


def test_many_scrapes_at_once_are_all_answered(start: Start) -> None:
    server = start()
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(ask(server)[0])) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 16


def test_a_system_without_a_free_thread_costs_no_connection_for_good(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, begin = start(), threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name == "metrics worker":
            raise RuntimeError("can't start new thread")
        begin(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        for _ in range(3):
            with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
                ask(server)
        wait_for(lambda: not server._open)
    assert ask(server)[0] == 200


def test_a_port_in_use_is_a_conflict_with_a_hint(start: Start) -> None:
    taken = start().port
    with pytest.raises(Conflict) as told:
        MetricsServer("127.0.0.1", taken)
    assert str(taken) in told.value.reason
    assert "--port" in told.value.hint


@pytest.mark.parametrize(
    ("host", "port"), [("203.0.113.9", 0), ("no.such.host.invalid", 0), ("127.0.0.1", 70000)]
)
def test_an_address_that_cannot_be_is_told(host: str, port: int) -> None:
    with pytest.raises(AndonError) as told:
        MetricsServer(host, port)
    assert isinstance(told.value, Invalid)
    assert told.value.hint


def test_a_stopped_server_frees_its_port_and_may_be_stopped_again(start: Start) -> None:
    server = start()
    server.stop()
    server.stop()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", server.port))


def test_it_listens_on_ipv6_too(start: Start) -> None:
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    try:
        server = start(host="::1")
    except Invalid:
        pytest.skip("this machine has no IPv6")
    assert server.url == f"http://[::1]:{server.port}/metrics"
    connection = http.client.HTTPConnection("::1", server.port, timeout=120)
    connection.request("GET", "/metrics")
    assert connection.getresponse().read() == b"x 1\n"
    connection.close()


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost", "localhost.", "127.1.2.3")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "", "example.org")))


def test_the_kept_exporter_serves_what_is_registered() -> None:
    backend = MockGpuBackend().with_device(0, "x").with_temperature(75)
    exporter = andon.PrometheusExporter().with_prefix("lab").with_port(0)
    exporter.register_gpu_metrics(backend)
    exporter.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", exporter.port, timeout=120)
        connection.request("GET", "/metrics")
        found = parse(connection.getresponse().read().decode())
        connection.close()
        backend.with_temperature(80)
        assert list(found["lab_gpu_temperature_celsius"].series.values()) == [75]
        again = parse(exporter.render())
        assert list(again["lab_gpu_temperature_celsius"].series.values()) == [80]
        with pytest.raises(Conflict):
            exporter.start()
    finally:
        exporter.stop()
        exporter.stop()


def test_the_kept_exporter_takes_prefix_and_port_from_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fresh_library(monkeypatch)
    monkeypatch.setenv("ANDON_EXPORTER_PREFIX", "lab")
    monkeypatch.setenv("ANDON_EXPORTER_PORT", "9700")
    backend = MockGpuBackend().with_device(0, "x").with_temperature(75)
    exporter = andon.PrometheusExporter().register_gpu_metrics(backend)
    assert exporter.port == 9700
    assert "\nlab_gpu_temperature_celsius{" in exporter.render()


def test_the_kept_exporter_wants_something_to_export() -> None:
    with pytest.raises(Invalid):
        andon.PrometheusExporter().start()
    with pytest.raises(Invalid):
        andon.PrometheusExporter().render()
    with pytest.raises(Invalid):
        andon.PrometheusExporter().register_gpu_metrics(object())  # type: ignore[arg-type]


def test_a_port_that_belongs_to_root_is_denied_to_others() -> None:
    error = serving._why_not("127.0.0.1", 80, PermissionError(13, "Permission denied"))
    assert isinstance(error, Denied)


def test_a_start_that_fails_does_not_keep_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh_library(monkeypatch)
    fails(monkeypatch, "andon.api.compat.exporter", "WatchedLive", Unavailable("no reader"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    exporter = andon.PrometheusExporter(port=port).register_gpu_metrics(andon.get_gpu_monitor())
    kept = []
    for _ in range(2):
        with pytest.raises(Unavailable, match="no reader") as failed:
            exporter.start()
        kept.append(failed.value)
