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
    whole_in,
)

Json = dict[str, Any]
LONGEST_SECONDS = 1e10


def rules_from_json(payload: Json) -> list[Json]:
    """The rules, with the fields known here."""
    if "rules" not in payload:
        raise Wrong("rules", "is missing")
    return each_in(payload, "rules", _rule)


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
        "active": flag_in(value, "active"),
        "inactive_reason": (some_text_in if flag_in(value, "active") else text_in)(
            value, "inactive_reason"
        ),
        "levels": rungs,
        "devices": each_in(value, "devices", _on_device),
    }


def _rung(value: Json) -> Json:
    return {
        "level": str(choice_in(value, "level", Level)),
        "condition": text_in(value, "condition"),
        "for_seconds": _seconds(value, "for_seconds"),
        "clear_condition": text_in(value, "clear_condition"),
        "clear_seconds": _seconds(value, "clear_seconds"),
        "notify": flag_in(value, "notify"),
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
