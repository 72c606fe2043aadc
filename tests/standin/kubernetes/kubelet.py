"""A small kubelet: runs the command of each pod that is bound to a node as a process of this
machine, reports its status and keeps its output."""

import copy
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from tests.standin.kubernetes.objects import Object, now

MISSING = "missing/"
"""Images whose name begins so cannot be pulled."""


def expanded(text: str, known: Mapping[str, str]) -> str:
    """As a kubelet does it: two `$` are one, and `$(NAME)` is a value if there is one."""
    return re.sub(
        r"\$(?:\$|\(([^)]*)\))",
        lambda m: "$" if m[0] == "$$" else known.get(m[1], m[0]), text, flags=re.S,
    )  # fmt: skip


class PodApi(Protocol):
    """What a kubelet needs of the API."""

    def pods(self) -> list[Object]: ...

    def put_status(self, pod: Object) -> None:
        """Stores the status of a pod; one that is gone is no error."""

    def remove(self, pod: Object) -> None:
        """Removes a pod whose process has ended."""


class _Running:
    def __init__(self, process: "subprocess.Popen[bytes]", path: Path, pod: Object) -> None:
        self.process, self.path, self.began = process, path, time.monotonic()
        self.limit = pod["spec"].get("activeDeadlineSeconds")
        self.grace = pod["spec"].get("terminationGracePeriodSeconds") or 30
        self.started, self.reported, self.stopped = now(), False, 0.0
        self.reason = ""


class Kubelet:
    """Looks at its pods again and again, in a thread."""

    def __init__(self, api: PodApi) -> None:
        self._api, self._runs = api, dict[str, _Running]()
        self._folder = tempfile.TemporaryDirectory()
        self._stopped = threading.Event()
        self.paused = False
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(5)
        for run in self._runs.values():
            if run.process.poll() is None:
                run.process.kill()
                run.process.wait()
        self._folder.cleanup()

    def output(self, uid: str, follow: bool) -> Iterator[bytes]:
        """Yields the output of a pod; with `follow` until it ends."""
        run = self._runs.get(uid)
        if run is None:
            return
        with run.path.open("rb") as file:
            while not self._stopped.is_set():
                ended = run.process.poll() is not None
                while piece := file.read(1 << 16):
                    yield piece
                if ended or not follow:
                    return
                time.sleep(0.02)

    def _work(self) -> None:
        while not self._stopped.wait(0.03):
            if not self.paused:
                for pod in self._api.pods():
                    self._look(pod)

    def _look(self, pod: Object) -> None:
        uid, meta = pod["metadata"]["uid"], pod["metadata"]
        run = self._runs.get(uid)
        phase = (pod.get("status") or {}).get("phase")
        if run is None:
            if meta.get("deletionTimestamp"):
                self._api.remove(pod)
            elif pod["spec"].get("nodeName") and phase in (None, "", "Pending"):
                self._begin(pod)
            return
        code = run.process.poll()
        if code is None:
            self._end_if_due(run, bool(meta.get("deletionTimestamp")))
        elif meta.get("deletionTimestamp"):
            self._api.remove(pod)
        elif not run.reported:
            run.reported = True
            self._api.put_status(self._ended(pod, run, code))

    def _begin(self, pod: Object) -> None:
        container = pod["spec"]["containers"][0]
        if str(container["image"]).startswith(MISSING):
            wait = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
            if not (pod.get("status") or {}).get("containerStatuses"):
                self._api.put_status(with_container(pod, "Pending", {"waiting": wait}))
            return
        path = Path(self._folder.name, pod["metadata"]["uid"])
        given = dict[str, str]()
        for one in container.get("env") or ():
            given[one["name"]] = expanded(one.get("value", ""), given)
        with path.open("wb") as out:
            try:
                process = subprocess.Popen(
                    [expanded(word, given) for word in container["command"]],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    env={**os.environ, **given}, start_new_session=True, cwd="/",
                )  # fmt: skip
            except OSError as exc:
                out.write(f"{exc}\n".encode())
                process = subprocess.Popen(["sh", "-c", "exit 127"], start_new_session=True)
        run = self._runs[pod["metadata"]["uid"]] = _Running(process, path, pod)
        running = {"running": {"startedAt": run.started}}
        self._api.put_status(with_container(pod, "Running", running))

    def _end_if_due(self, run: _Running, deleted: bool) -> None:
        at = time.monotonic()
        late = run.limit is not None and at - run.began > run.limit
        if late:
            run.reason = "DeadlineExceeded"
        if not run.stopped and (deleted or late):
            run.stopped = at
            _signal(run, signal.SIGTERM)
        elif run.stopped and at - run.stopped > run.grace:
            _signal(run, signal.SIGKILL)

    def _ended(self, pod: Object, run: _Running, code: int) -> Object:
        exit_code = 128 - code if code < 0 else code
        end = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed",
               "startedAt": run.started, "finishedAt": now()}  # fmt: skip
        made = with_container(pod, "Failed" if exit_code else "Succeeded", {"terminated": end})
        if run.reason:
            made["status"] |= {"phase": "Failed", "reason": run.reason}
        return made


def with_container(pod: Object, phase: str, state: Object) -> Object:
    """Returns a pod with the status that a kubelet reports."""
    made = copy.deepcopy(pod)
    one = {"name": pod["spec"]["containers"][0]["name"], "state": state, "restartCount": 0,
           "ready": "running" in state, "image": pod["spec"]["containers"][0]["image"],
           "imageID": "", "started": "running" in state}  # fmt: skip
    status = made.setdefault("status", {})
    status |= {"phase": phase, "containerStatuses": [one]}
    return made


def _signal(run: _Running, number: int) -> None:
    if run.process.poll() is None:
        os.killpg(run.process.pid, number)
