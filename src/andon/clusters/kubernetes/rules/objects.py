"""The parts of Kubernetes' objects that andon reads, as its API writes them."""

from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct, field

T = TypeVar("T")
Quantities = dict[str, str | int | float]


class ApiObject(Struct, frozen=True, rename="camel"):
    """Base of all objects; fields have the API's names, and unknown ones are ignored."""


class OwnerReference(ApiObject, frozen=True, rename="camel"):
    kind: str = ""
    name: str = ""


class ObjectMeta(ApiObject, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    def label(self, name: str) -> str:
        return (self.labels or {}).get(name, "")

    def note(self, name: str) -> str:
        return (self.annotations or {}).get(name, "")


class ResourceNeeds(ApiObject, frozen=True, rename="camel"):
    limits: Quantities | None = None
    requests: Quantities | None = None
    claims: list[dict[str, str]] | None = None


class PodContainer(ApiObject, frozen=True, rename="camel"):
    name: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    resources: ResourceNeeds = ResourceNeeds()
    restart_policy: str | None = None


class PodSpec(ApiObject, frozen=True, rename="camel"):
    node_name: str = ""
    containers: list[PodContainer] | None = None
    init_containers: list[PodContainer] | None = None
    resource_claims: list[dict[str, object]] | None = None


class RunningState(ApiObject, frozen=True, rename="camel"):
    """The state of a container: how it runs, waits or ended; each has some of these fields."""

    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(ApiObject, frozen=True, rename="camel"):
    waiting: RunningState | None = None
    running: RunningState | None = None
    terminated: RunningState | None = None


class ContainerStatus(ApiObject, frozen=True, rename="camel"):
    name: str = ""
    state: ContainerState = ContainerState()


class ApiCondition(ApiObject, frozen=True, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(ApiObject, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[ApiCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class ApiPod(ApiObject, frozen=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def owner(self) -> str:
        """The name of the Job that made the pod; empty if something else did."""
        owners = self.metadata.owner_references or []
        return next((one.name for one in owners if one.kind == "Job"), "")

    @property
    def place(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


class NodeTaint(ApiObject, frozen=True, rename="camel"):
    key: str = ""
    effect: str = ""


class NodeSpec(ApiObject, frozen=True, rename="camel"):
    unschedulable: bool = False
    taints: list[NodeTaint] | None = None


class NodeStatus(ApiObject, frozen=True, rename="camel"):
    allocatable: Quantities | None = None
    conditions: list[ApiCondition] | None = None


class KubernetesNode(ApiObject, frozen=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PodTemplate(ApiObject, frozen=True, rename="camel"):
    spec: PodSpec = PodSpec()


class BatchSpec(ApiObject, frozen=True, rename="camel"):
    parallelism: int | None = None
    suspend: bool | None = None
    backoff_limit: int | None = None
    template: PodTemplate = PodTemplate()


class BatchStatus(ApiObject, frozen=True, rename="camel"):
    active: int = 0
    failed: int = 0
    completion_time: str | None = None
    conditions: list[ApiCondition] | None = None


class BatchJob(ApiObject, frozen=True, rename="camel"):
    """A Kubernetes Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BatchSpec = BatchSpec()
    status: BatchStatus = BatchStatus()


class ApiEvent(ApiObject, frozen=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None


class ListMeta(ApiObject, frozen=True, rename="camel"):
    resource_version: str = ""
    next: str = field(default="", name="continue")


class ListOf(ApiObject, Generic[T], frozen=True, rename="camel"):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class WatchEvent(ApiObject, Generic[T], frozen=True, rename="camel"):
    """One line of a watch."""

    type: str
    object: T


def seconds_of(text: str | None) -> float | None:
    """Returns a time of the API as UTC seconds; None if it is not one."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def condition_of(conditions: list[ApiCondition] | None, kind: str) -> ApiCondition | None:
    return next((one for one in conditions or () if one.type == kind), None)
