"""What reading and following a cluster takes: `python -m bench.kubernetes`.

500 nodes and 10,000 pods on the stand-in of Kubernetes, in a process of its own; the client is this
process, inside the cluster and by kubectl, whose own requests are beside it.
"""

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from msgspec.structs import replace
from tests.integration.serving import make_certificate
from tests.standin.kubernetes.standin import GPU, KubernetesStandin, write_kubeconfig
from tests.support.kubelet_socket import KubeletSocket

from andon.clusters.kubernetes import KubernetesCluster, transport
from andon.clusters.kubernetes.listing import PAGE, list_all
from andon.clusters.kubernetes.rules.capacity import capacities_of, placement
from andon.clusters.kubernetes.rules.objects import ApiPod, KubernetesNode
from andon.clusters.kubernetes.transport import InsideTransport
from andon.host import pod_resources
from andon.host.pod_resources import KUBELET_SOCKET, PodDevices
from andon.host.rules.pod_resources import PodHolder
from andon.jobs.rules.best_nodes import IdleLimits
from andon.model.device import Device, DeviceStatus, State
from andon.settings.clusters import ClusterSettings

ROUNDS, DESCRIBED, HURRY = 5, 10, 100


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificate = make_certificate(folder)[0]
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        server = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(theirs, certificate, options.nodes, options.pods), daemon=True
        )
        server.start()
        port = int(ours.recv())
        try:
            _measure(options, folder, certificate, port, ours)
        finally:
            ours.send("end")
            server.join(10)


def _measure(
    options: argparse.Namespace, folder: Path, certificate: Path, port: int, server: Connection
) -> None:
    files = {"token": "secret", "namespace": "default", "ca.crt": certificate.read_text()}
    for name, text in files.items():
        (folder / name).write_text(text)
    inside = InsideTransport("127.0.0.1", port, 60.0, folder)
    before = _rss()
    began, spent = time.monotonic(), time.process_time()
    nodes = list_all(inside, "/api/v1/nodes", KubernetesNode)[0]
    pods = list_all(inside, "/api/v1/pods", ApiPod)[0]
    capacities = capacities_of(nodes, pods)
    _say(f"{len(nodes)} nodes and {len(pods)} pods read", time.monotonic() - began, 2.0, "s")
    _say("  of it this process's CPU", time.process_time() - spent, None, "s")
    _say("  memory more than before", _rss() - before, 100.0, "MB")
    plain = [capacity.of(GPU) for capacity in capacities]
    seen = [replace(one, utilization_percent=5.0, memory_percent=10.0) for one in plain]
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        placement(seen, 2, IdleLimits())
        taken.append(time.perf_counter() - began)
    _say("the best of them chosen", min(taken) * 1000, 10.0, "ms")
    _kubelet(options.seconds / 2, folder)
    _follow(options.seconds, folder, port, server)
    _kubectl(folder, certificate, port, options.pods)


def _follow(seconds: float, folder: Path, port: int, server: Connection) -> None:
    """Follows all pods while ten of them change each second, and looks every five seconds."""
    setattr(transport, "ACCOUNT", folder)  # noqa: B010 - it is final for everyone else
    os.environ |= {transport.HOST: "127.0.0.1", transport.PORT: str(port)}
    cluster = KubernetesCluster(ClusterSettings("k8s", "k8s", 60.0, {}))
    cluster.nodes()
    cluster.nodes()
    server.send("lists")
    lists, spent, began = int(server.recv()), time.process_time(), time.monotonic()
    server.send("change")
    while time.monotonic() - began < seconds:
        time.sleep(5.0)
        cluster.nodes()
    server.send("lists")
    lasted = time.monotonic() - began
    asked = int(server.recv()) - lists
    share = 100 * (time.process_time() - spent) / lasted
    _say(
        f"followed for {lasted:.0f} s, 10 changes and 0.2 looks a second", share, 1.0, "% of a core"
    )
    _say("  lists meanwhile", asked, 0, "")


def _kubelet(seconds: float, folder: Path) -> None:
    """Asks a kubelet with 110 pods as an agent does, and marks eight devices each second: both a
    hundred times as often, because the cost of one is small beside the noise of this machine."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    path = folder / KUBELET_SOCKET
    kubelet = multiprocessing.get_context("spawn").Process(
        target=_serve_kubelet, args=(theirs, path), daemon=True
    )
    kubelet.start()
    ours.recv()
    gpus = [Device(f"GPU-{place}", place, "sim", "H100") for place in range(8)]
    rows = tuple(DeviceStatus(one, State.OK, 0.0) for one in gpus)
    resident, asked = _rss(), 0

    def count(_: object) -> None:
        nonlocal asked
        asked += 1

    setattr(pod_resources, "CHECK_SECONDS", pod_resources.CHECK_SECONDS / HURRY)  # noqa: B010
    pods = PodDevices(folder, pod_resources.EVERY_SECONDS / HURRY)
    pods.listen(count)
    pods.start()
    while not any(one.pods for one in pods.marked(rows)):
        time.sleep(0.1)
    began, asked, marking = time.monotonic(), 0, 0.0
    spent = time.process_time() - time.thread_time()  # of the thread that asks
    while time.monotonic() - began < seconds:
        time.sleep(1.0 / HURRY)
        marks = time.thread_time()
        pods.marked(rows)
        marking += time.thread_time() - marks
    spent = time.process_time() - time.thread_time() - spent + marking
    lasted = time.monotonic() - began
    pods.close()
    ours.send("end")
    kubelet.join(10)
    _say("an agent with pod resources", 100 * spent / lasted / HURRY, 0.02, "% of a core more")
    _say(f"  of {asked} asks, with looks and marks between them", 1e6 * spent / asked, None, "µs")
    _say("  memory more than before", _rss() - resident, None, "MB")


def _serve_kubelet(pipe: Connection, path: Path) -> None:
    kubelet = KubeletSocket(path)
    kubelet.holders = [
        PodHolder("team", f"pod-{place}", "main", (f"GPU-{place}",)) for place in range(110)
    ]
    pipe.send("ready")
    pipe.recv()
    kubelet.close()


def _kubectl(folder: Path, certificate: Path, port: int, pods: int) -> None:
    config = write_kubeconfig(folder / "config", f"https://127.0.0.1:{port}", certificate)
    (folder / "andon.toml").write_text('[clusters.k8s]\nkind = "k8s"\ntimeout = 120\n')
    env = {**os.environ, "KUBECONFIG": str(config), "ANDON_CONFIG": str(folder / "andon.toml"),
           "XDG_STATE_HOME": str(folder)}  # fmt: skip
    env.pop(transport.HOST)
    began = time.monotonic()
    andon = [sys.executable, "-m", "andon.cli", "nodes", "--on", "k8s"]
    subprocess.run(andon, env=env, check=True, capture_output=True)
    whole, began = time.monotonic() - began, time.monotonic()
    for path in ("nodes", *(f"pods?limit={PAGE}&continue={at}.1" for at in range(0, pods, PAGE))):
        words = ["kubectl", "get", "--raw", f"/api/v1/{path.removesuffix('&continue=0.1')}"]
        subprocess.run(words, env=env, check=True, capture_output=True)
    own = time.monotonic() - began
    _say("andon nodes --on k8s by kubectl", whole, None, "s")
    _say("  beyond the same requests by kubectl alone", whole - own, 1.0, "s")
    began = time.monotonic()
    few = [f"n{place:03}" for place in range(DESCRIBED)]
    subprocess.run(["kubectl", "describe", "nodes", *few], env=env, check=True, capture_output=True)
    took = time.monotonic() - began
    _say(f"kubectl describe nodes, {DESCRIBED} of them: it asks for each one's", took, None, "s")


def _serve(pipe: Connection, certificate: Path, nodes: int, pods: int) -> None:
    standin = KubernetesStandin(controlled=False, certificate=certificate)
    for place in range(nodes):
        standin.node(f"n{place:03}", 8)
    for place in range(pods):
        standin.pod(f"p{place:05}", f"n{place % nodes:03}", int(place < nodes * 4))
    pipe.send(standin.api.url.rpartition(":")[2])
    changing, place = False, 0
    while True:
        if pipe.poll(0.1 if changing else None):
            match pipe.recv():
                case "lists":
                    pipe.send(standin.objects.lists)
                case "change":
                    changing = True
                case _:
                    standin.close()
                    return
        elif changing:
            pod = standin.objects.get("pods", "default", f"p{place % pods:05}")
            standin.objects.change("pods", pod, lambda one: one)
            place += 1


def _say(what: str, value: float, limit: float | None, unit: str) -> None:
    told = "" if limit is None else f"  (at most {limit:g})"
    print(f"{what:<62}{value:>9.{3 if value < 0.1 else 2}f} {unit}{told}", flush=True)


def _rss() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.kubernetes", description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
