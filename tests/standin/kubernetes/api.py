"""The API of the stand-in over HTTP: lists with pages, watches, changes, logs; and its faults."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from tests.standin.kubernetes.kubelet import Kubelet
from tests.standin.kubernetes.objects import KINDS, Object, Objects, Refused


class Faults:
    """What is wrong with the API at present."""

    away = False
    slow_seconds = 0.0
    refuse: dict[str, tuple[int, str, str]]
    """By a part of the path: code, reason and message."""
    busy = 0
    """So many requests are answered by 429."""
    again_after = 1
    """So many seconds are to be waited for then."""
    cut_after = 0
    """A watch ends in the middle of the line after so many events."""
    expire_pages = 0
    """So many pages after the first are answered by 410."""
    token = ""

    def __init__(self) -> None:
        self.refuse = {}


class ApiServer:
    """A running API on a port of loopback."""

    def __init__(
        self, objects: Objects, kubelet: Kubelet | None = None, certificate: Path | None = None
    ) -> None:
        self.objects, self.kubelet, self.faults = objects, kubelet, Faults()
        self.requests = list[str]()
        self.certificate = certificate
        outer = self

        class Handler(_Handler):
            api = outer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.scheme = "http"
        if certificate is not None:
            context, self.scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
            context.load_cert_chain(certificate, certificate.with_name("key.pem"))
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.closing = threading.Event()
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    @contextmanager
    def fault(self, **values: Any) -> Iterator[None]:
        """Makes it fail within a context."""
        for name, value in values.items():
            setattr(self.faults, name, value)
        try:
            yield
        finally:
            self.faults = Faults()


class _Handler(BaseHTTPRequestHandler):
    api: ApiServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        faults = self.api.faults
        self.api.requests.append(f"{method} {self.path}")
        body = self._body()
        if faults.away:
            self.close_connection = True
            return
        if faults.slow_seconds:
            self.api.closing.wait(faults.slow_seconds)
        try:
            self._refuse()
            self._act(method, body)
        except Refused as exc:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                      "reason": exc.reason, "message": exc.message, "code": exc.code}  # fmt: skip
            self._send(exc.code, json.dumps(status).encode(), exc.code == 429)
        except OSError:  # the client went away
            self.close_connection = True

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _refuse(self) -> None:
        faults = self.api.faults
        if faults.busy > 0:
            faults.busy -= 1
            raise Refused(429, "TooManyRequests", "the server has received too many requests")
        if faults.token and self.headers.get("Authorization") != f"Bearer {faults.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        for part, refusal in faults.refuse.items():
            if part in self.path:
                raise Refused(*refusal)

    def _act(self, method: str, body: bytes) -> None:
        place = urlsplit(self.path)
        if method == "GET" and (known := discovery(place.path.strip("/"))) is not None:
            self._json(200, known)
            return
        query = {name: values[-1] for name, values in parse_qs(place.query).items()}
        plural, namespace, name, below = _route(place.path)
        objects = self.api.objects
        if method == "GET" and below == "log":
            self._log(objects.get(plural, namespace, name), query)
        elif method == "GET" and name:
            self._json(200, objects.get(plural, namespace, name))
        elif method == "GET" and query.get("watch") in ("1", "true"):
            self._watch(plural, namespace, query)
        elif method == "GET":
            self._list(plural, namespace, query)
        elif method == "POST":
            self._json(201, objects.create(plural, json.loads(body), namespace))
        elif method == "PUT":
            self._json(200, objects.replace(plural, json.loads(body), below == "status"))
        elif method == "DELETE":
            self._json(200, self._delete(plural, namespace, name))

    def _delete(self, plural: str, namespace: str, name: str) -> Object:
        objects = self.api.objects
        if plural != "pods":
            return objects.remove(plural, namespace, name)
        return objects.change("pods", objects.get(plural, namespace, name), mark_deleted)

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> None:
        objects, faults = self.api.objects, self.api.faults
        objects.lists += 1
        found = objects.seen(
            plural, namespace, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        begin, version = 0, objects.version
        if token := query.get("continue"):
            begin, version = (int(part) for part in token.split("."))
            if faults.expire_pages > 0 or version < objects.oldest:
                faults.expire_pages -= 1
                raise Refused(410, "Expired", "The provided continue parameter is too old")
        limit = int(query.get("limit") or len(found) or 1)
        meta: dict[str, Any] = {"resourceVersion": str(version)}
        if begin + limit < len(found):
            meta |= {"continue": f"{begin + limit}.{version}",
                     "remainingItemCount": len(found) - begin - limit}  # fmt: skip
        group, kind = KINDS[plural]
        page = found[begin : begin + limit]
        self._json(
            200, {"kind": f"{kind}List", "apiVersion": group, "metadata": meta, "items": page}
        )

    def _watch(self, plural: str, namespace: str, query: dict[str, str]) -> None:
        objects, since = self.api.objects, int(query.get("resourceVersion") or 0)
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        from tests.standin.kubernetes.objects import matches

        self._begin()
        sent, until = 0, time.monotonic() + float(query.get("timeoutSeconds") or 3600)
        while not self.api.closing.is_set() and time.monotonic() < until:
            if self.api.faults.away:
                self.close_connection = True
                return
            try:
                for version, _, what, one in objects.follow(plural, since, 0.2):
                    since = version
                    there = not namespace or one["metadata"].get("namespace") == namespace
                    if not there or not matches(one, labels, ""):
                        continue
                    if not matches(one, "", fields):
                        what = "DELETED"
                    line = json.dumps({"type": what, "object": one}).encode() + b"\n"
                    if self.api.faults.cut_after and sent >= self.api.faults.cut_after:
                        self._chunk(line[: len(line) // 2])
                        self.close_connection = True
                        return
                    self._chunk(line)
                    sent += 1
                if since < objects.version and query.get("allowWatchBookmarks"):
                    since = max(since, self._bookmark(plural))
            except Refused as exc:
                status = {"kind": "Status", "code": exc.code, "reason": exc.reason,
                          "message": exc.message, "metadata": {}}  # fmt: skip
                self._chunk(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
                break
        self._end()

    def _bookmark(self, plural: str) -> int:
        objects = self.api.objects
        with objects.lock:
            behind = [row for row in objects.happened[-1:] if row[1] == plural]
            version = objects.version if not behind else 0
        if version:
            group, kind = KINDS[plural]
            mark = {"kind": kind, "apiVersion": group,
                    "metadata": {"resourceVersion": str(version)}}  # fmt: skip
            self._chunk(json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n")
        return version

    def _log(self, pod: Object, query: dict[str, str]) -> None:
        kubelet = self.api.kubelet
        if not pod["spec"].get("nodeName") or kubelet is None:
            raise Refused(400, "BadRequest", "pod does not have a host assigned")
        follow = query.get("follow") == "true"
        self._begin("text/plain")
        for piece in kubelet.output(pod["metadata"]["uid"], follow):
            if self.api.faults.away:
                self.close_connection = True
                return
            self._chunk(piece)
        self._end()

    def _json(self, code: int, value: object) -> None:
        self._send(code, msgspec.json.encode(value))

    def _send(self, code: int, body: bytes, again: bool = False) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if again:
            self.send_header("Retry-After", str(self.api.faults.again_after))
        self.end_headers()
        self.wfile.write(body)

    def _begin(self, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, piece: bytes) -> None:
        if piece:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    def _end(self) -> None:
        with suppress(OSError):
            self.wfile.write(b"0\r\n\r\n")


def discovery(path: str) -> Object | None:
    """Returns what tells a client which kinds there are; None for any other path."""
    groups = sorted({group for group, _ in KINDS.values() if "/" in group})
    if path == "version":
        return {"major": "1", "minor": "20", "gitVersion": "v1.20.2"}
    if path == "api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "apis":
        named = [{"groupVersion": one, "version": one.partition("/")[2]} for one in groups]
        rows = [{"name": one["groupVersion"].partition("/")[0], "versions": [one],
                 "preferredVersion": one} for one in named]  # fmt: skip
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": rows}
    version = path.removeprefix("apis/").removeprefix("api/")
    if version not in ("v1", *groups):
        return None
    found = [
        {"name": plural, "singularName": kind.lower(), "kind": kind, "verbs": ["get", "list"],
         "namespaced": plural not in ("nodes", "namespaces")}
        for plural, (group, kind) in KINDS.items() if group == version
    ]  # fmt: skip
    return {"kind": "APIResourceList", "groupVersion": version, "resources": found}


def mark_deleted(pod: Object) -> None:
    from tests.standin.kubernetes.objects import now

    pod["metadata"].setdefault("deletionTimestamp", now())


def _route(path: str) -> tuple[str, str, str, str]:
    """Returns the plural, the namespace, the name and what is below it."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts and parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    if not parts or parts[0] not in KINDS:
        raise Refused(404, "NotFound", "the server could not find the requested resource")
    plural, name, below = (*parts, "", "")[:3]
    return plural, namespace, name, below
