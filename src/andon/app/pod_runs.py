"""Records jobs of a cluster from outside: an agent samples the GPUs of their pods while they run.

andon need not be in their image, and the agent has no rights in the cluster: a pod of andon's is
known by its name, which has the label of its submission. How it ended only Kubernetes knows.
"""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from andon.errors import AndonError
from andon.host.rules.pod_resources import PodHolder, holders_of
from andon.host.state.user_folder import runs_folder
from andon.model.device import Snapshot
from andon.model.run.record import RunKind, RunState
from andon.runs.header import new_run
from andon.runs.opening import RunRecording
from andon.runs.record import RunOutcome, RunRecorder

_POD: Final = re.compile(r"(?P<job>andon-(?P<label>a[0-9a-f]{12}))-[a-z0-9]{1,10}")
ENDED: Final = "its pod ended: how, Kubernetes knows (andon jobs show)"
UNSEEN: Final = "the kubelet gave it devices that andon does not see"


class PodRuns:
    """Records the pods of andon's jobs on this node; it is called with each answer of the kubelet.
    A pod has ended when two answers in a row do not list it: a kubelet that restarts learns of its
    pods one by one."""

    def __init__(
        self,
        recording: RunRecording,
        latest: Callable[[], Snapshot],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`changed` is called when a run began or ended."""
        self._recording, self._latest, self._changed = recording, latest, changed
        self._running = dict[tuple[str, str], RunRecorder]()
        self._missing = dict[tuple[str, str], tuple[RunRecorder, float]]()
        self._over = set[tuple[str, str]]()

    def __call__(self, holders: Sequence[PodHolder]) -> None:
        now = {(one.namespace, one.pod) for one in holders if _POD.fullmatch(one.pod)}
        for key in self._missing.keys() & now:
            recorder, _ = self._missing.pop(key)
            recorder.follow()
            self._running[key] = recorder
        self._end_missing()
        for key in self._running.keys() - now:
            recorder = self._running.pop(key)
            self._missing[key] = recorder, time.time()
            with suppress(AndonError, OSError):  # devices that cannot be read any more
                recorder.read_last()
        self._over &= now
        for namespace, pod in sorted(now - self._running.keys() - self._over):
            self._begin(namespace, pod, [one for one in holders if one.pod == pod])

    def close(self) -> None:
        """Leaves the records of pods that run without an end: the next agent goes on with them."""
        self._end_missing()
        for one in self._running.values():
            one.pause()
        self._running = {}

    def _end_missing(self) -> None:
        while self._missing:
            _, (recorder, at) = self._missing.popitem()
            recorder.end(RunOutcome(RunState.ENDED, message=ENDED, at=at))
            self._changed()

    def _begin(self, namespace: str, pod: str, holders: Sequence[PodHolder]) -> None:
        found = _POD.fullmatch(pod)
        assert found is not None
        path = runs_folder() / f"{pod}.jsonl"
        if path.exists():
            known = self._recording.resume(path)
            if known is None:  # it ended before
                self._over.add((namespace, pod))
            else:
                self._running[namespace, pod] = known
            return
        snapshot = self._latest()
        given = [one for one in holders if one.namespace == namespace]
        uuids = list(holders_of([one.device for one in snapshot.devices], given))
        begin = new_run(
            RunKind.JOB, pod, snapshot, uuids, {}, id=found["label"], allocation_method="kubelet",
            params={"job": f"{namespace}/{found['job']}", "pod": pod},
        )  # fmt: skip
        # Whose processes it has is not known: it lives while its record grows.
        begin = replace(begin, user=None, working_directory=None, pid_namespace="pod")
        why_none = None if uuids else UNSEEN
        self._running[namespace, pod] = self._recording.open(begin, None, why_none, path=path)
        self._changed()
