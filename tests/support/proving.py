"""A server in a thread that proves whatever the test wants, and remembers what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from andon.access.server_proof import PATH, place_of, proof_key, prove, token_hash

TOKEN = "t" * 43


class Proving(ThreadingHTTPServer):
    """Answers with what it is given; proves with `token`, for `place` or where it really is."""

    daemon_threads = True
    body, status = b"{}", 200
    token: str | None = TOKEN
    place: str | None = None
    odd_proof: bytes | None = None  # instead of a proof
    closes = False  # after each answer
    more: tuple[tuple[str, str], ...] = ()  # headers of every answer

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.proofs = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def statement(self, query: str) -> bytes:
        if self.odd_proof is not None:
            return self.odd_proof
        nonce = bytes.fromhex(parse_qs(query)["nonce"][0])
        place = self.place or place_of("127.0.0.1", self.server_port)
        said = prove(proof_key(token_hash(self.token or "")), nonce, place)
        return json.dumps({"address": said.place, "proof": said.proof}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Proving
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        if where.path == PATH and self.server.token is not None:
            self.server.proofs += 1
            self._answer(200, self.server.statement(where.query))
            return
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self._answer(self.server.status, self.server.body)

    def do_POST(self) -> None:
        self.do_GET()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), *self.server.more):
            self.send_header(name, value)
        if self.server.closes:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
        return


@contextmanager
def proving() -> Iterator[Proving]:
    made = Proving()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.002})
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        thread.join()
        made.server_close()
