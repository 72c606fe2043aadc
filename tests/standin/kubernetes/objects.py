"""The objects of the stand-in: kept with versions, selected, and reported to watchers."""

import copy
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

Object = dict[str, Any]
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
QUANTITY = re.compile(r"[+-]?\d+(\.\d*)?(m|k|[KMGTPE]i?|[eE]\d+)?")
KINDS = {
    "nodes": ("v1", "Node"), "pods": ("v1", "Pod"), "events": ("v1", "Event"),
    "namespaces": ("v1", "Namespace"), "jobs": ("batch/v1", "Job"),
    "deployments": ("apps/v1", "Deployment"),
    "inferenceservices": ("serving.kserve.io/v1beta1", "InferenceService"),
}  # fmt: skip


class Refused(Exception):
    """An answer that is no success: a Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Objects:
    """All objects by plural, namespace and name, and what happened to them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._all = dict[tuple[str, str, str], Object]()
        self.version, self.oldest = 100, 0
        self.happened = list[tuple[int, str, str, Object]]()
        self.lists = 0
        self.create("namespaces", {"metadata": {"name": "default"}})

    def create(self, plural: str, given: Object, namespace: str = "") -> Object:
        with self.lock:
            name = str(given.get("metadata", {}).get("name") or "")
            if namespace and ("namespaces", "", namespace) not in self._all:
                raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
            if (plural, namespace, name) in self._all:
                raise Refused(409, "AlreadyExists", f'{_full(plural)} "{name}" already exists')
            made = copy.deepcopy(given)
            check(plural, made)
            version, kind = KINDS[plural]
            meta = made.setdefault("metadata", {})
            meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
            if namespace:
                meta["namespace"] = namespace
            made |= {"apiVersion": version, "kind": kind}
            return self._store(plural, "ADDED", made)

    def get(self, plural: str, namespace: str, name: str) -> Object:
        with self.lock:
            found = self._all.get((plural, namespace, name))
            if found is None:
                raise Refused(404, "NotFound", f'{_full(plural)} "{name}" not found')
            return copy.deepcopy(found)

    def replace(self, plural: str, given: Object, status: bool = False) -> Object:
        """Replaces an object; one that names another version than the present is a conflict."""
        with self.lock:
            meta = given["metadata"]
            known = self.get(plural, meta.get("namespace", ""), meta["name"])
            wanted = meta.get("resourceVersion")
            if wanted and wanted != known["metadata"]["resourceVersion"]:
                raise Refused(
                    409, "Conflict",
                    f'Operation cannot be fulfilled on {_full(plural)} "{meta["name"]}": '
                    "the object has been modified",
                )  # fmt: skip
            if status:
                made = {**known, "status": copy.deepcopy(given.get("status", {}))}
            else:
                made = {**copy.deepcopy(given), "status": known.get("status", {})}
                if plural == "jobs" and made["spec"]["template"] != known["spec"]["template"]:
                    raise Refused(
                        422, "Invalid",
                        f'Job.batch "{meta["name"]}" is invalid: spec.template: field is immutable',
                    )  # fmt: skip
                for fixed in ("uid", "creationTimestamp"):
                    made["metadata"][fixed] = known["metadata"][fixed]
            check(plural, made)
            return self._store(plural, "MODIFIED", made)

    def change(self, plural: str, one: Object, act: Callable[[Object], object]) -> Object:
        """Changes an object as a controller does, whatever its version."""
        with self.lock:
            meta = one["metadata"]
            known = self.get(plural, meta.get("namespace", ""), meta["name"])
            act(known)
            return self._store(plural, "MODIFIED", known)

    def remove(self, plural: str, namespace: str, name: str) -> Object:
        with self.lock:
            found = self.get(plural, namespace, name)
            del self._all[plural, namespace, name]
            self.version += 1
            found["metadata"]["resourceVersion"] = str(self.version)
            self._tell(plural, "DELETED", found)
            return found

    def select(
        self, plural: str, namespace: str = "", labels: str = "", fields: str = ""
    ) -> list[Object]:
        with self.lock:
            return copy.deepcopy(self.seen(plural, namespace, labels, fields))

    def seen(
        self, plural: str, namespace: str = "", labels: str = "", fields: str = ""
    ) -> list[Object]:
        """Returns the objects themselves, in order."""
        with self.lock:
            return [
                one
                for (kind, place, _), one in sorted(self._all.items(), key=lambda row: row[0])
                if kind == plural
                and (not namespace or place == namespace)
                and matches(one, labels, fields)
            ]

    def follow(
        self, plural: str, since: int, wait: float
    ) -> Iterator[tuple[int, str, str, Object]]:
        """Yields what happened since a version; waits for the next if there is nothing."""
        with self.changed:
            if since < self.oldest:
                raise Refused(410, "Expired", "too old resource version")
            told = [row for row in self.happened if row[0] > since and row[1] == plural]
            if not told:
                self.changed.wait(wait)
                told = [row for row in self.happened if row[0] > since and row[1] == plural]
        yield from told

    def forget_past(self) -> None:
        """Lets every watch and every page of before expire."""
        with self.lock:
            self.oldest = self.version + 1
            self.version += 1

    def event(self, about: Object, reason: str, message: str) -> None:
        meta = about["metadata"]
        self.create(
            "events",
            {
                "metadata": {"name": f"e{uuid.uuid4().hex[:12]}"},
                "involvedObject": {"name": meta["name"], "kind": about["kind"]},
                "type": "Warning", "reason": reason, "message": message, "lastTimestamp": now(),
            },
            meta["namespace"],
        )  # fmt: skip

    def _store(self, plural: str, what: str, made: Object) -> Object:
        meta = made["metadata"]
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        self._all[plural, meta.get("namespace", ""), meta["name"]] = made
        self._tell(plural, what, made)
        return copy.deepcopy(made)

    def _tell(self, plural: str, what: str, made: Object) -> None:
        self.happened.append((self.version, plural, what, copy.deepcopy(made)))
        del self.happened[:-5000]
        self.changed.notify_all()


def _full(plural: str) -> str:
    group = KINDS[plural][0].partition("/")
    return f"{plural}.{group[0]}" if group[1] else plural


def check(plural: str, one: Object) -> None:
    """Refuses what the real API refuses of the things that andon sends."""
    meta, wrong = one.get("metadata", {}), list[str]()
    if NAME.fullmatch(str(meta.get("name", ""))) is None:
        wrong.append("metadata.name: Invalid value")
    for key, value in (meta.get("labels") or {}).items():
        if LABEL.fullmatch(str(value)) is None or len(str(value)) > 63:
            wrong.append(f"metadata.labels: Invalid value: {key}: must be 63 characters or less")
    pod = one.get("spec", {}) if plural == "pods" else {}
    if plural in ("jobs", "deployments"):
        pod = one["spec"]["template"]["spec"]
    for container in pod.get("containers") or ():
        wrong += _wrong_container(container)
    if plural == "jobs" and pod.get("restartPolicy") not in ("Never", "OnFailure"):
        wrong.append('spec.template.spec.restartPolicy: Unsupported value: "Always"')
    if wrong:
        kind = KINDS[plural][1]
        raise Refused(422, "Invalid", f'{kind} "{meta.get("name")}" is invalid: {wrong[0]}')


def _wrong_container(container: Object) -> list[str]:
    wrong = list[str]()
    if not container.get("image"):
        wrong.append("spec.template.spec.containers[0].image: Required value")
    for value in ((container.get("resources") or {}).get("limits") or {}).values():
        if QUANTITY.fullmatch(str(value)) is None:
            wrong.append("resources.limits: quantities must match the regular expression")
    return wrong


def matches(one: Object, labels: str, fields: str) -> bool:
    known = one["metadata"].get("labels") or {}
    for term in filter(None, labels.split(",")):
        name, sign, value = term.partition("=")
        if not (name in known if not sign else known.get(name) == value.lstrip("=")):
            return False
    return all(
        (_at(one, name) == value) is not (sign == "!=") for name, sign, value in _terms(fields)
    )


@cache
def _terms(fields: str) -> list[tuple[tuple[str, ...], str, str]]:
    found = [re.split(r"(!=|==?)", one, maxsplit=1) for one in fields.split(",") if one]
    return [(tuple(name.split(".")), sign, value) for name, sign, value in found]


def _at(one: Object, name: tuple[str, ...]) -> str:
    found: Any = one
    for part in name:
        found = found.get(part, "") if isinstance(found, dict) else ""
    return str(found)
