"""OpenAPI with the type of every response."""

from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from msgspec.structs import replace

from andon.alerts.rules import rule_page
from andon.alerts.rules.overview import Outcomes
from andon.estimate.rules.fits import GpuFit, SmallestSize
from andon.estimate.rules.wire import EstimateAnswer
from andon.explain.wire import REASON_SHAPE, WHY, Explained, ExplainedReason
from andon.fleet.rules.items import FleetItems
from andon.fleet.rules.states import NodeList
from andon.history.rules.changes import ChangeList
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.notes import HistoryNote, NoteList
from andon.leases.rules.occupants import Holder
from andon.model.alert import Alert, Silence
from andon.model.check import CheckList, FleetChecks
from andon.model.device import SNAPSHOT, Device, DeviceStatus, Process, Sample, Snapshot
from andon.model.job.facts import JobView
from andon.model.lease import Reservation
from andon.model.lease_list import LeaseList, LeaseRow, ReservationList
from andon.model.shapes import JsonShape, Member, Schemas, members_of, shape_of
from andon.model.wire import (
    COMPUTED,
    PROCESS_ORDER,
    PROGRAM,
    SAMPLE_ORDER,
    SHARES,
    STATUS_ORDER,
)
from andon.node import job_schemas, run_schemas
from andon.web.answers import schemas
from andon.web.answers.estimates import EstimateNames
from andon.web.fleet.courses import NodeCourses

# The type of every response, derived from the values that are encoded.

STATUS = shape_of(DeviceStatus, more={**members_of(Device), **COMPUTED}, order=STATUS_ORDER)
RESERVATION = JsonShape("Reservation", Reservation.__doc__ or "", members_of(Reservation))
"""As it stands in a list, which names the schema."""
KNOWN: dict[type, JsonShape] = {
    Reservation: RESERVATION,
    Sample: shape_of(
        Sample, more={name: share.member for name, share in SHARES.items()}, order=SAMPLE_ORDER
    ),
    DeviceStatus: STATUS,
    Process: shape_of(Process, more={"program": PROGRAM}, order=PROCESS_ORDER),
    ExplainedReason: REASON_SHAPE,
    UsageInterval: shape_of(UsageInterval, "UsageRow", without=schemas.USAGE_WITHOUT),
    schemas.BoardDevice: shape_of(schemas.BoardDevice, "LampShape"),
    Holder: shape_of(Holder, "HolderShape"),
    GpuFit: shape_of(GpuFit, "EstimatedFit"),
    SmallestSize: shape_of(SmallestSize, "EstimatedSize"),
}
"""The values whose JSON is not simply their fields, or whose type has another name."""
SNAPSHOT_SHAPE = shape_of(Snapshot, schema=SNAPSHOT, without=("events",))
WHY_SHAPE = JsonShape(
    "Why",
    "andon.why/1.",
    {"schema": Member(Literal[WHY]), **members_of(schemas.About), **members_of(Explained)},
)
HEALTH = replace(shape_of(schemas.Health), is_open=True)
ALERT, SILENCE = shape_of(Alert), shape_of(Silence)
ALERT_LIST = shape_of(schemas.AlertAnswer, "AlertList")
LEASE_LIST = shape_of(
    LeaseList,
    "LeaseListShape",
    more={"timestamp": Member(str, "`at` in readable form")},
)
SILENCE_LIST = JsonShape("SilenceList", "The active silences.", {"silences": Member(list[Silence])})
ACKNOWLEDGED = "/api/alerts/{alert}/acknowledge"
RESERVED = "/api/reservations/{reservation}"
CORDON, CORDON_STATE = "/api/devices/{device}/cordon", shape_of(schemas.CordonState)

JOB_ACTS = ("cancel", "retry", "requeue", "move", "hold", "resume")

ANSWERS: dict[tuple[str, str], JsonShape] = {
    ("get", "/api/snapshot"): SNAPSHOT_SHAPE,
    ("get", "/api/health"): HEALTH,
    ("get", "/api/features"): shape_of(schemas.Features),
    ("get", "/api/nodes"): shape_of(NodeList),
    ("get", "/api/nodes/items"): shape_of(FleetItems),
    ("get", "/api/nodes/courses"): shape_of(NodeCourses),
    ("get", "/api/checks"): shape_of(CheckList),
    ("get", "/api/checks/fleet"): shape_of(FleetChecks),
    ("get", "/api/session"): shape_of(schemas.SessionState),
    ("get", "/api/recent"): shape_of(schemas.Recent),
    ("get", "/api/devices/{device}/why"): WHY_SHAPE,
    ("get", "/api/devices/{device}/charts"): shape_of(schemas.Charts),
    ("get", "/api/charts"): shape_of(schemas.NodeCharts),
    ("get", "/api/history/changes"): shape_of(ChangeList),
    ("get", "/api/history/notes"): shape_of(NoteList),
    ("post", "/api/history/notes"): shape_of(HistoryNote),
    ("delete", "/api/history/notes/{note}"): shape_of(schemas.Ended),
    ("get", "/api/users"): shape_of(schemas.UserShares),
    ("get", "/api/devices/{device}/usage"): shape_of(schemas.Usage),
    ("get", "/api/board"): shape_of(schemas.Board, "BoardShape"),
    ("get", "/api/alerts"): ALERT_LIST,
    ("get", "/api/alerts/rules"): shape_of(rule_page.RuleList),
    ("get", "/api/alerts/rules/{name}"): shape_of(rule_page.RulePage),
    ("get", "/api/alerts/{alert}"): ALERT,
    ("post", ACKNOWLEDGED): ALERT,
    ("delete", ACKNOWLEDGED): ALERT,
    ("post", "/api/alerts/test"): shape_of(Outcomes),
    ("get", "/api/silences"): SILENCE_LIST,
    ("post", "/api/silences"): SILENCE,
    ("delete", "/api/silences/{silence}"): shape_of(schemas.Ended),
    ("get", "/api/leases"): LEASE_LIST,
    ("post", "/api/leases"): shape_of(schemas.LeaseGrant),
    ("post", "/api/leases/{lease}/renew"): shape_of(LeaseRow),
    ("delete", "/api/leases/{lease}"): shape_of(schemas.Released),
    ("get", "/api/reservations"): shape_of(ReservationList, "ReservationListShape"),
    ("post", "/api/reservations"): RESERVATION,
    ("patch", RESERVED): RESERVATION,
    ("delete", RESERVED): RESERVATION,
    ("post", "/api/calendar"): shape_of(schemas.CalendarLink),
    ("delete", "/api/calendar"): shape_of(schemas.Ended),
    ("get", "/api/estimate"): shape_of(EstimateNames),
    ("post", "/api/estimate"): shape_of(EstimateAnswer),
    ("get", "/api/runs"): shape_of(run_schemas.RunPage),
    ("get", "/api/run-courses"): shape_of(run_schemas.RunCourses),
    ("get", "/api/runs/{run}"): shape_of(run_schemas.RunDetails),
    ("get", "/api/runs/{run}/events"): shape_of(run_schemas.RunMarks),
    ("get", "/api/jobs"): shape_of(job_schemas.JobPage),
    ("get", "/api/jobs/{job}"): shape_of(JobView),
    ("get", "/api/jobs/{job}/log"): shape_of(job_schemas.JobLog),
    **{("post", f"/api/jobs/{{job}}/{act}"): shape_of(job_schemas.JobDone) for act in JOB_ACTS},
    ("post", "/api/jobs"): shape_of(job_schemas.JobsQueued),
    ("put", CORDON): CORDON_STATE,
    ("delete", CORDON): CORDON_STATE,
}
"""The answer to each request; the board's types are generated from these."""


_SCHEMAS = "#/components/schemas/"
PROBLEMS = {"$ref": f"{_SCHEMAS}Problems"}
_OF_PROBLEMS: dict[str, Any] = {
    "Problem": {
        "properties": {
            "kind": {"type": "string", "title": "Kind"},
            "reason": {"type": "string", "title": "Reason"},
            "hint": {"type": "string", "title": "Hint"},
            "details": {
                "anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}],
                "title": "Details",
                "description": "one sentence each, for example per device",
            },
        },
        "type": "object",
        "required": ["kind", "reason", "hint"],
        "title": "Problem",
        "description": "What went wrong, and what to do.",
    },
    "Problems": {
        "properties": {"error": {"$ref": f"{_SCHEMAS}Problem"}},
        "type": "object",
        "required": ["error"],
        "title": "Problems",
        "description": "The format of every error.",
    },
}


def describe(api: FastAPI) -> None:
    """Add the response types to /openapi.json."""

    def openapi() -> dict[str, Any]:
        if api.openapi_schema is None:
            api.openapi_schema = described(api)
        return api.openapi_schema

    setattr(api, "openapi", openapi)  # noqa: B010 (an instance's method)


def described(api: FastAPI) -> dict[str, Any]:
    """The complete OpenAPI document."""
    found = get_openapi(
        title=api.title, version=api.version, description=api.description, routes=api.routes
    )
    schemas = Schemas(KNOWN)
    for (method, path), shape in ANSWERS.items():
        responses = found["paths"][path][method]["responses"]
        good = next(answer for status, answer in responses.items() if status.startswith("2"))
        good["content"] = {"application/json": {"schema": schemas.ref(shape)}}
    found["components"]["schemas"] |= _OF_PROBLEMS | schemas.definitions
    return found
