"""A real API server, scheduler and controller manager, with the stand-in's kubelet behind them.

`dev/kubernetes` builds them. The API server fetches logs from the kubelet over TLS.
"""

import json
import os
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.conftest import REPOSITORY
from tests.standin.kubernetes.kubelet import Kubelet
from tests.standin.kubernetes.objects import Object, now
from tests.standin.kubernetes.standin import GPU, write_kubeconfig

BUILT = REPOSITORY / ".build/kubernetes/bin"
READY_SECONDS = 180.0
FIRST_PORT = int(os.environ.get("ANDON_TEST_PORT", "41500"))


class RealKubernetes:
    """The running cluster; implements PodApi for its kubelet."""

    def __init__(self, folder: Path, certificate: Path) -> None:
        self._folder, self._certificate, self._stack = folder, certificate, ExitStack()
        self.port, self._log_port = FIRST_PORT, FIRST_PORT + 5
        self.url = f"https://127.0.0.1:{self.port}"
        self._context = ssl.create_default_context(cafile=str(certificate))
        self.kubelet = Kubelet(self)
        self._uids = dict[tuple[str, str], str]()
        self.daemons = dict[str, subprocess.Popen[bytes]]()

    def start(self) -> None:
        key, client = self._certificate.with_name("key.pem"), FIRST_PORT + 1
        tokens = self._folder / "tokens.csv"
        tokens.write_text("secret,admin,1,system:masters\nlow,low,2,\n")
        account = [
            "openssl",
            "genrsa",
            "-traditional",
            "-out",
            str(self._folder / "account.pem"),
            "2048",
        ]
        subprocess.run(account, check=True, capture_output=True)
        self._daemon(
            "etcd", "--data-dir", str(self._folder / "etcd"), "--unsafe-no-fsync",
            "--listen-client-urls", f"http://127.0.0.1:{client}",
            "--advertise-client-urls", f"http://127.0.0.1:{client}",
            "--listen-peer-urls", f"http://127.0.0.1:{client + 1}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{client + 1}",
            "--initial-cluster", f"default=http://127.0.0.1:{client + 1}",
        )  # fmt: skip
        self._serve_logs(key)
        self.start_api()
        config = write_kubeconfig(self._folder / "admin", self.url, self._certificate)
        common = ("--kubeconfig", str(config), "--port=0", "--leader-elect=false")
        self._daemon(str(BUILT / "kube-scheduler"), *common, "--secure-port=0")
        self._daemon(
            str(BUILT / "kube-controller-manager"), *common, "--secure-port=0",
            "--controllers=job,deployment,replicaset,garbagecollector,namespace",
        )  # fmt: skip
        self.kubelet.start()

    def start_api(self) -> None:
        key, tokens = self._certificate.with_name("key.pem"), self._folder / "tokens.csv"
        account = self._folder / "account.pem"
        self._daemon(
            str(BUILT / "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{FIRST_PORT + 1}",
            f"--secure-port={self.port}", "--bind-address=127.0.0.1",
            f"--tls-cert-file={self._certificate}", f"--tls-private-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://t",
            f"--service-account-key-file={account}",
            f"--service-account-signing-key-file={account}",
            f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
        )  # fmt: skip
        until = time.monotonic() + READY_SECONDS
        while True:
            with suppress(OSError):
                self.ask("GET", "/readyz", raw=True)
                self.ask("GET", "/api/v1/namespaces/default")
                return
            assert time.monotonic() < until, "the API server never became ready"
            time.sleep(0.3)

    def stop_api(self) -> None:
        api = self.daemons["kube-apiserver"]
        api.kill()  # asked to end, it would wait for a minute for those who watch
        api.wait()

    def close(self) -> None:
        self.kubelet.close()
        self._stack.close()
        for one in reversed(list(self.daemons.values())):
            if one.poll() is None:
                one.kill()
                one.wait()

    def node(self, name: str, gpus: int) -> None:
        has = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(gpus)}
        made = self.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}})
        made["status"] = {
            "allocatable": has, "capacity": has,
            "conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "",
                            "lastHeartbeatTime": now(), "lastTransitionTime": now()}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._log_port}},
        }  # fmt: skip
        made = self.ask("PUT", f"/api/v1/nodes/{name}/status", made)
        made["spec"].pop("taints", None)
        self.ask("PUT", f"/api/v1/nodes/{name}", made)

    def ask(self, method: str, path: str, body: object = None, raw: bool = False) -> Any:
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, method=method)
        asked.add_header("Authorization", "Bearer secret")
        if data is not None:
            asked.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(asked, timeout=10, context=self._context) as answer:
            content = answer.read()
        return content if raw else json.loads(content)

    # For the kubelet.

    def pods(self) -> list[Object]:
        try:
            found: list[Object] = self.ask("GET", "/api/v1/pods")["items"]
        except OSError:
            return []
        for pod in found:
            meta = pod["metadata"]
            self._uids[meta["namespace"], meta["name"]] = meta["uid"]
        return found

    def put_status(self, pod: Object) -> None:
        made = {**pod, "metadata": {**pod["metadata"]}}
        made["metadata"].pop("resourceVersion", None)
        with suppress(OSError):
            self.ask("PUT", f"{_path(pod)}/status", made)

    def remove(self, pod: Object) -> None:
        with suppress(OSError):
            self.ask("DELETE", _path(pod), {"gracePeriodSeconds": 0})

    def _daemon(self, *command: str) -> None:
        name = Path(command[0]).name
        log = self._stack.enter_context((self._folder / f"{name}.log").open("ab"))
        self.daemons[name] = subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )

    def _serve_logs(self, key: Path) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                place = urlsplit(self.path)
                _, namespace, name, _ = place.path.strip("/").split("/")
                follow = parse_qs(place.query).get("follow") == ["true"]
                self.send_response(200)
                self.end_headers()
                for piece in outer.kubelet.output(outer._uids.get((namespace, name), ""), follow):
                    self.wfile.write(piece)
                    self.wfile.flush()

        server = ThreadingHTTPServer(("127.0.0.1", self._log_port), Handler)
        server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, key)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)


def _path(pod: Object) -> str:
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
