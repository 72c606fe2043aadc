"""Request and response types of the routes about leases, for OpenAPI."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from andon.core.sharing.requests import LONGEST_WAIT_SECONDS, MOST_GPUS
from andon.model.lease_list import BookRow, CordonRow, LeaseRow, WaitingRow
from andon.model.verdict import DeviceVerdict

SHORTEST_SECONDS, LONGEST_SECONDS = 10.0, 7 * 86_400.0
Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[list[Name], Field(max_length=64)]
Count = Annotated[int, Field(strict=True, ge=1, le=MOST_GPUS)]
Range = Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.\.[0-9]{1,4})?$")]
Lifetime = Annotated[float, Field(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)]
Fence = Annotated[int, Field(ge=0, lt=2**63)]


class LeaseRequest(BaseModel):
    """The requested devices, for how long, and how long to wait for them."""

    model_config = ConfigDict(extra="forbid")
    gpus: Count | Range = 1
    memory: Annotated[str, Field(max_length=40)] | None = None
    shared: bool = False
    models: Names = []
    labels: Names = []
    devices: Names = []
    exclude: Names = []
    prefer: Names = []
    pack: bool = False
    unbalanced: bool = False
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    seconds: Lifetime = 600.0
    wait_seconds: Annotated[float, Field(ge=0, le=LONGEST_WAIT_SECONDS)] = 0.0
    command: Annotated[str, Field(max_length=400)] = ""


class RenewRequest(BaseModel):
    """The new lifetime from now; a lease made over the network requires its fence."""

    model_config = ConfigDict(extra="forbid")
    seconds: Lifetime = 600.0
    fence: Fence | None = None


class CordonRequest(BaseModel):
    """Why a device is taken out of service."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[str, Field(max_length=200)] = ""


class LeaseListShape(BaseModel):
    """andon.leases/1."""

    schema_: Annotated[Literal["andon.leases/1"], Field(alias="schema")]
    timestamp: str
    at: float
    leases: list[LeaseRow]
    waiting: list[WaitingRow]
    cordons: list[CordonRow]
    book: BookRow | None
    note: str | None = Field(description="why the list is empty or unknown")
    devices: list[DeviceVerdict] = Field(description="whether each device is available")


@dataclass(frozen=True, slots=True)
class LeaseGrant(LeaseRow):
    """A lease, and the environment that makes only its devices visible to a process."""

    environment: dict[str, str]


class Released(BaseModel):
    """The lease that ended."""

    id: str
    released: bool


class CordonState(BaseModel):
    """Whether a device is out of service now."""

    uuid: str
    cordoned: bool
