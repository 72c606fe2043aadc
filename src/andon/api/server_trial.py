"""The process `server-trial`: starts a server on the devices of its job, drives loads at it, and
stops it.

It is the command of a job: the queue has taken the lease, and what the server prints is the output
of the job, so that its end is judged like any other's, out-of-memory errors included.
"""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from andon.api import watch as library
from andon.api.benchmark import BenchmarkResult, DevicesUnderTest, order_of, run_load
from andon.errors import AndonError, Unavailable
from andon.host.processes.child_output import die_with_parent
from andon.jobs.rules.server_trial import ServerTrial
from andon.leases.own import own_leases
from andon.model.codec import prepared
from andon.model.device import Device, Snapshot
from andon.model.execution import UNLEASED, ContainerOptions
from andon.model.shapes import to_json
from andon.node.calls import CallLimits, SentRequest, Target, call
from andon.node.connection import FAILURES, plain_message
from andon.runs.rules.sampled import run_devices
from andon.units import human_seconds
from andon.work.containers.task import clean_command, task_command
from andon.work.preparing import free_port
from andon.work.probe.trial_readings import MemoryReturn
from andon.work.rules.shell_text import filled

POLL_SECONDS = 0.2
ANSWER_LIMITS = CallLimits(timeout_seconds=5.0, most_bytes=1 << 20)  # of one health check
GRACE_SECONDS = 10.0


class TrialServer:
    """The server under test; a context manager that always stops it."""

    def __init__(self, trial: ServerTrial, port: int, devices: Sequence[Device] = ()) -> None:
        known = {"port": str(port)}
        self._trial = trial
        self._health, self.url = filled(trial.health, known), filled(trial.url, known)
        command, self._label = [filled(word, known) for word in trial.command], ""
        if trial.image:
            self._label = _label()
            command = contained_command(trial.image, self._label, devices, port, command)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PORT": str(port)},
            process_group=0,
            preexec_fn=die_with_parent(),
        )

    def __enter__(self) -> "TrialServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_ready(self) -> None:
        """Waits until the health check succeeds; raises Unavailable if it never does."""
        place = urlsplit(self._health)
        request = SentRequest(
            "GET", (place.path or "/") + (f"?{place.query}" if place.query else "")
        )
        until, last = time.monotonic() + self._trial.ready_seconds, "no answer"
        while time.monotonic() < until:
            self.check_alive("before it was ready")
            try:
                answer = call(Target(f"{place.scheme}://{place.netloc}"), request, ANSWER_LIMITS)
                if answer.status == 200:
                    return
                last = f"HTTP {answer.status}"
            except FAILURES as error:
                last = plain_message(error)
            time.sleep(POLL_SECONDS)
        waited = human_seconds(self._trial.ready_seconds)
        raise Unavailable(f"the server was not ready within {waited}: {last}")

    def check_alive(self, when: str) -> None:
        code = self._process.poll()
        if code is not None:
            raise Unavailable(f"the server ended {when}, with exit code {code}")

    def stop(self) -> None:
        """Ends the server and what it started: SIGTERM, then SIGKILL."""
        for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                break
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # what the server left behind
        if self._label:
            subprocess.run(clean_command(self._label), stdin=subprocess.DEVNULL)


def contained_command(
    image: str, label: str, devices: Sequence[Device], port: int, command: Sequence[str]
) -> list[str]:
    """Returns the command of a server in a container, on this machine's network: its port is the
    one that was chosen, and the variable PORT."""
    options = to_json(ContainerOptions(image, options=("--network=host",)))
    return task_command(options, label, devices, {"PORT": str(port)}, command)


def _label() -> str:
    """Returns the id of the job's lease, by which its container is found."""
    found = own_leases()
    return found[0].id if found else f"{UNLEASED}{os.getpid()}"


def main(arguments: list[str]) -> int:
    trial = msgspec.json.decode(arguments[0].encode(), type=prepared(ServerTrial))
    if trial.simulate is not None:
        os.environ["ANDON_SIMULATE"] = str(trial.simulate)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        return _tried(trial)
    except AndonError as error:
        print(f"andon: {error.reason}", flush=True)
        return 1
    except KeyboardInterrupt:
        return 130


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _tried(trial: ServerTrial) -> int:
    port = free_port()
    if port is None:
        raise Unavailable("no free port for the server")
    snapshot, uuids = _devices()
    devices = run_devices(snapshot, uuids)
    memory = MemoryReturn(library.shared(), devices, snapshot.simulated)
    given = [status.device for status in snapshot.devices if status.device.uuid in uuids]
    with TrialServer(trial, port, () if snapshot.simulated else given) as server:
        server.wait_ready()
        results = [_loaded(trial, server, dict(load), uuids) for load in trial.loads]
    if left := memory.wait():
        print(f"andon: {left}", flush=True)
    return 0 if all(one.measured.done for one in results) else 1


def _loaded(
    trial: ServerTrial, server: TrialServer, load: dict[str, Any], uuids: tuple[str, ...]
) -> BenchmarkResult:
    order = order_of(server.url, load)
    names = ("rate", "concurrency", "model")
    varied: dict[str, Any] = {name: load[name] for name in names if name in load}
    found = run_load(
        order,
        DevicesUnderTest(uuids),
        name=trial.name,
        params={**trial.params, **varied},
        group=trial.group,
        tags=trial.tags,
        clients=int(load.get("clients", 1)),
    )
    measured = found.measured
    errors = "".join(f", {count} {kind}" for kind, count in measured.errors.items())
    rate = f"{measured.tokens_per_second:.4g} tokens/s"
    print(f"andon: {order.label}: {measured.done} of {measured.sent}, {rate}{errors}", flush=True)
    server.check_alive("during the load")
    return found


def _devices() -> tuple[Snapshot, tuple[str, ...]]:
    """The devices that this process sees: those of the job's lease."""
    snapshot = library.shared().once(with_host=False)
    return snapshot, tuple(s.device.uuid for s in snapshot.devices if s.visible)
