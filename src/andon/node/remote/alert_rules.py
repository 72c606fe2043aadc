"""A server's rules and the results of its test messages: the fields that are known here."""

from typing import Annotated, Any, TypedDict

from msgspec import Meta

from andon.model.alert import Level
from andon.model.codec import Index, Name, Number, Text, Wrong, read
from andon.model.lamp import Lamp

Json = dict[str, Any]
LONGEST_SECONDS = 1e10
Seconds = (
    Annotated[int, Meta(ge=0, le=int(LONGEST_SECONDS))]
    | Annotated[float, Meta(ge=0.0, le=LONGEST_SECONDS)]
)


class RungJson(TypedDict):
    level: Level
    condition: Text
    for_seconds: Seconds
    clear_condition: Text
    clear_seconds: Seconds
    notify: bool
    lamp: Lamp | None


class RuleDeviceJson(TypedDict):
    uuid: Name
    index: Index
    label: Name
    threshold: Number | None
    limit: Number | None
    disabled: bool


class RuleActivity(TypedDict):
    active: bool
    inactive_reason: Text | None


class RuleJson(RuleActivity):
    """A rule in the list of all."""

    name: Name
    title: Text
    subject_kind: Name
    level: Level
    for_seconds: Seconds
    clear_seconds: Seconds
    threshold: Number | None
    unit: Name
    why: Text
    advice: Text
    levels: Annotated[list[RungJson], Meta(min_length=1)]
    devices: list[RuleDeviceJson]


class ExplainedJson(TypedDict):
    name: Name
    title: Text
    why: Text


class RulesJson(TypedDict):
    schema: Name
    rules: list[RuleJson]
    explained_only: list[ExplainedJson]


class FigureJson(TypedDict):
    name: Name
    setting: Name
    variable: Name
    help: Text
    value: Number | None
    default: Number | None
    least: Number | None
    most: Number | None
    can_be_off: bool
    unit: Name


class OverrideJson(TypedDict):
    uuid: Name
    label: Name
    figure: Name
    value: Number | None
    place: Text


class ReasonJson(TypedDict):
    code: Name
    means: Text
    problem: bool


class QueryJson(TypedDict):
    alert: Name
    level: Level
    query: Text


class RulePageJson(RuleActivity):
    """A rule in full."""

    schema: Name
    name: Name
    title: Text
    group: Name
    subject_kind: Name
    level: Level | None
    label: Name
    why: Text
    advice: Text
    levels: list[RungJson]
    behind: list[Name]
    figures: list[FigureJson]
    devices: list[RuleDeviceJson]
    overrides: list[OverrideJson]
    reasons: list[ReasonJson]
    queries: list[QueryJson]
    no_query_reason: Text | None


class ResultJson(TypedDict):
    notifier: Name
    ok: bool
    reason: Text
    hint: Text


class ResultsJson(TypedDict):
    results: list[ResultJson]
    note: Text | None


def rules_from_json(payload: Json) -> Json:
    """The rules, with the fields known here."""
    found = read(RulesJson, payload)
    for place, rule in enumerate(found["rules"]):
        _check_reason(rule, f"rules[{place}].")
    return {**found}


def rule_from_json(payload: Json) -> Json:
    """One rule in full, with the fields known here."""
    found = read(RulePageJson, payload)
    _check_reason(found, "")
    return {**found}


def results_from_json(payload: Json) -> Json:
    """The result of each test message."""
    return {**read(ResultsJson, payload)}


def _check_reason(rule: RuleActivity, place: str) -> None:
    if not rule["active"] and rule["inactive_reason"] is None:
        raise Wrong(f"{place}inactive_reason", "is None, not a string")
