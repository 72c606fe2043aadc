"""Parses a server's rules and the results of its test messages, field by field."""

from typing import Any

from andon.model import wire
from andon.model.alert import Level
from andon.model.json_fields import (
    NAME,
    Wrong,
    choice_in,
    each_in,
    flag_in,
    number_in,
    some_text_in,
    text_in,
    text_of,
    whole_in,
)
from andon.model.lamp import Lamp

Json = dict[str, Any]
LONGEST_SECONDS = 1e10


def rules_from_json(payload: Json) -> Json:
    """The rules, with the fields known here."""
    if "rules" not in payload:
        raise Wrong("rules", "is missing")
    return {
        "schema": text_in(payload, "schema", NAME),
        "rules": each_in(payload, "rules", _rule),
        "explained_only": each_in(payload, "explained_only", _explained),
    }


def rule_from_json(payload: Json) -> Json:
    """One rule in full, with the fields known here."""
    return {
        "schema": text_in(payload, "schema", NAME),
        "name": text_in(payload, "name", NAME),
        "title": text_in(payload, "title"),
        "group": text_in(payload, "group", NAME),
        "subject_kind": text_in(payload, "subject_kind", NAME),
        "level": None if payload.get("level") is None else str(choice_in(payload, "level", Level)),
        "label": text_in(payload, "label", NAME),
        "why": text_in(payload, "why"),
        "advice": text_in(payload, "advice"),
        **_activity(payload),
        "levels": each_in(payload, "levels", _rung),
        "behind": _names(payload, "behind"),
        "figures": each_in(payload, "figures", _figure),
        "devices": each_in(payload, "devices", _on_device),
        "overrides": each_in(payload, "overrides", _override),
        "reasons": each_in(payload, "reasons", _reason),
        "queries": each_in(payload, "queries", _query),
        "no_query_reason": some_text_in(payload, "no_query_reason"),
    }


def results_from_json(payload: Json) -> Json:
    """The result of each test message."""
    if "results" not in payload:
        raise Wrong("results", "is missing")
    return {"results": each_in(payload, "results", _result), "note": some_text_in(payload, "note")}


def _rule(value: Json) -> Json:
    rungs = each_in(value, "levels", _rung)
    if not rungs:
        raise Wrong("levels", "is empty")
    return {
        "name": text_in(value, "name", NAME),
        "title": text_in(value, "title"),
        "subject_kind": text_in(value, "subject_kind", NAME),
        "level": str(choice_in(value, "level", Level)),
        "for_seconds": _seconds(value, "for_seconds"),
        "clear_seconds": _seconds(value, "clear_seconds"),
        "threshold": number_in(value, "threshold"),
        "unit": text_in(value, "unit", NAME),
        "why": text_in(value, "why"),
        "advice": text_in(value, "advice"),
        **_activity(value),
        "levels": rungs,
        "devices": each_in(value, "devices", _on_device),
    }


def _names(value: Json, name: str) -> list[str]:
    found = value.get(name)
    if not isinstance(found, list):
        raise Wrong(name, "is not a list")
    return [text_of(one, f"{name}[{place}]", NAME) for place, one in enumerate(found)]


def _explained(value: Json) -> Json:
    names = ("title", "why")
    return {"name": text_in(value, "name", NAME)} | {name: text_in(value, name) for name in names}


def _activity(value: Json) -> Json:
    active = flag_in(value, "active")
    read = some_text_in if active else text_in
    return {"active": active, "inactive_reason": read(value, "inactive_reason")}


def _figure(value: Json) -> Json:
    numbers = ("value", "default", "least", "most")
    return {
        "name": text_in(value, "name", NAME),
        "setting": text_in(value, "setting", NAME),
        "variable": text_in(value, "variable", NAME),
        "help": text_in(value, "help"),
        **{name: number_in(value, name) for name in numbers},
        "can_be_off": flag_in(value, "can_be_off"),
        "unit": text_in(value, "unit", NAME),
    }


def _override(value: Json) -> Json:
    return {
        "uuid": text_in(value, "uuid", NAME),
        "label": text_in(value, "label", NAME),
        "figure": text_in(value, "figure", NAME),
        "value": number_in(value, "value"),
        "place": text_in(value, "place"),
    }


def _reason(value: Json) -> Json:
    return {
        "code": text_in(value, "code", NAME),
        "means": text_in(value, "means"),
        "problem": flag_in(value, "problem"),
    }


def _query(value: Json) -> Json:
    return {
        "alert": text_in(value, "alert", NAME),
        "level": str(choice_in(value, "level", Level)),
        "query": text_in(value, "query"),
    }


def _rung(value: Json) -> Json:
    return {
        "level": str(choice_in(value, "level", Level)),
        "condition": text_in(value, "condition"),
        "for_seconds": _seconds(value, "for_seconds"),
        "clear_condition": text_in(value, "clear_condition"),
        "clear_seconds": _seconds(value, "clear_seconds"),
        "notify": flag_in(value, "notify"),
        "lamp": None if value.get("lamp") is None else str(choice_in(value, "lamp", Lamp)),
    }


def _on_device(value: Json) -> Json:
    return {
        "uuid": text_in(value, "uuid", NAME),
        "index": whole_in(value, "index", wire.MOST_INDEX),
        "label": text_in(value, "label", NAME),
        "threshold": number_in(value, "threshold"),
        "limit": number_in(value, "limit"),
        "disabled": flag_in(value, "disabled"),
    }


def _result(value: Json) -> Json:
    return {
        "notifier": text_in(value, "notifier", NAME),
        "ok": flag_in(value, "ok"),
        "reason": some_text_in(value, "reason") or "",
        "hint": some_text_in(value, "hint") or "",
    }


def _seconds(value: Json, name: str) -> float:
    found = number_in(value, name, 0, LONGEST_SECONDS)
    if found is None:
        raise Wrong(name, "is missing")
    return float(found) if type(found) is float else found
