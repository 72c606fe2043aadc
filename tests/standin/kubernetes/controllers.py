"""The controllers of the stand-in: Jobs make pods, and pods are bound to nodes with room."""

import threading
import time
import uuid
from contextlib import suppress
from typing import Any

from tests.standin.kubernetes.api import mark_deleted
from tests.standin.kubernetes.objects import Object, Objects, Refused, now

ENDED = ("Succeeded", "Failed")


class StoredPods:
    """Implements PodApi on the objects of the stand-in."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def pods(self) -> list[Object]:
        return self._objects.select("pods")

    def put_status(self, pod: Object) -> None:
        with suppress(Refused):
            self._objects.change("pods", pod, lambda one: one.update(status=pod["status"]))

    def remove(self, pod: Object) -> None:
        meta = pod["metadata"]
        with suppress(Refused):
            self._objects.remove("pods", meta["namespace"], meta["name"])


class Controllers:
    """Looks at Jobs and pods after every change, in a thread."""

    def __init__(self, objects: Objects) -> None:
        self._objects, self._stopped = objects, threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._failed = dict[str, float]()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def _work(self) -> None:
        while not self._stopped.wait(0.03):
            with self._objects.lock:
                pods = self._objects.select("pods")
                for job in self._objects.select("jobs"):
                    self._job(job, [pod for pod in pods if _owner(pod) == job["metadata"]["uid"]])
                self._schedule()

    def _job(self, job: Object, pods: list[Object]) -> None:
        spec, status = job["spec"], job.get("status") or {}
        if any(one["status"] == "True" for one in status.get("conditions") or ()):
            return
        if spec.get("suspend"):
            return
        began = status.get("startTime") or now()
        active = [p for p in pods if p.get("status", {}).get("phase") not in ENDED]
        living = [pod for pod in active if not pod["metadata"].get("deletionTimestamp")]
        done = [pod for pod in pods if pod.get("status", {}).get("phase") == "Succeeded"]
        failed = [pod for pod in pods if pod.get("status", {}).get("phase") == "Failed"]
        told: Object = {"startTime": began, "active": len(living), "succeeded": len(done),
                        "failed": len(failed)}  # fmt: skip
        wanted = spec.get("parallelism", 1)
        late = spec.get("activeDeadlineSeconds") is not None and self._is_late(job)
        if done:
            told |= {"completionTime": now(), "conditions": [_condition("Complete", "", "")]}
        elif late or len(failed) > spec.get("backoffLimit", 6):
            why = "DeadlineExceeded" if late else "BackoffLimitExceeded"
            words = (
                "Job was active longer than specified deadline"
                if late
                else ("Job has reached the specified backoff limit")
            )
            told["conditions"] = [_condition("Failed", why, words)]
            wanted = 0
        elif len(living) < wanted:
            self._make_pod(job)
        if len(living) > wanted:
            for pod in living:
                self._objects.change("pods", pod, mark_deleted)
        if told != {**status}:
            self._objects.change("jobs", job, lambda one: one.update(status=told))

    def _is_late(self, job: Object) -> bool:
        first = self._failed.setdefault(job["metadata"]["uid"], time.monotonic())
        return time.monotonic() - first > float(job["spec"]["activeDeadlineSeconds"])

    def _make_pod(self, job: Object) -> None:
        meta, template = job["metadata"], job["spec"]["template"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
        made: dict[str, Any] = {
            "metadata": {
                **template.get("metadata", {}),
                "name": f"{meta['name']}-{uuid.uuid4().hex[:5]}", "ownerReferences": [owner],
            },
            "spec": template["spec"], "status": {"phase": "Pending"},
        }  # fmt: skip
        made["metadata"]["labels"] = {**(made["metadata"].get("labels") or {}),
                                      "job-name": meta["name"]}  # fmt: skip
        self._objects.create("pods", made, meta["namespace"])

    def _schedule(self) -> None:
        pods, nodes = self._objects.select("pods"), self._objects.select("nodes")
        for pod in pods:
            if pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in ENDED:
                continue
            wants = _limits(pod)
            fit = [node for node in nodes if _fits(node, pods, wants)]
            if not fit:
                short = ", ".join(wants) or "resources"
                words = f"0/{len(nodes)} nodes are available: {len(nodes)} Insufficient {short}."
                self._unschedulable(pod, words)
                continue
            likes = _preferred(pod)
            fit.sort(key=lambda node: -likes.get(node["metadata"]["name"], 0))
            name = fit[0]["metadata"]["name"]
            pod["spec"]["nodeName"] = name
            bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}
            self._objects.change(
                "pods",
                pod,
                lambda one, n=name, b=bound: (  # type: ignore[misc]
                    one["spec"].update(nodeName=n),
                    one["status"].update(conditions=[b]),
                ),
            )

    def _unschedulable(self, pod: Object, words: str) -> None:
        known = pod.get("status", {}).get("conditions") or []
        if known and known[0].get("message") == words:
            return
        told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": words, "lastTransitionTime": now()}  # fmt: skip
        self._objects.change("pods", pod, lambda one: one["status"].update(conditions=[told]))
        self._objects.event(pod, "FailedScheduling", words)


def _owner(pod: Object) -> str:
    owners = pod["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid", ""))


def _condition(kind: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now()}  # fmt: skip


def _limits(pod: Object) -> dict[str, int]:
    found = dict[str, int]()
    for one in pod["spec"]["containers"]:
        for name, value in ((one.get("resources") or {}).get("limits") or {}).items():
            found[name] = found.get(name, 0) + int(value)
    return found


def _fits(node: Object, pods: list[Object], wants: dict[str, int]) -> bool:
    if node["spec"].get("unschedulable") or node["spec"].get("taints"):
        return False
    name, has = node["metadata"]["name"], node["status"]["allocatable"]
    used = dict[str, int]()
    for pod in pods:
        if pod["spec"].get("nodeName") == name and pod["status"].get("phase") not in ENDED:
            for resource, count in _limits(pod).items():
                used[resource] = used.get(resource, 0) + count
    return all(int(has.get(one, 0)) - used.get(one, 0) >= wants[one] for one in wants)


def _preferred(pod: Object) -> dict[str, int]:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    found = dict[str, int]()
    for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
        for field in term["preference"].get("matchFields") or ():
            for name in field["values"]:
                found[name] = term["weight"]
    return found
