"""Payloads about leases, with and without what only callers with the token may see."""

from collections.abc import Mapping
from dataclasses import replace

from andon.model.lease_list import LeaseList, LeaseRow, list_to_json, row_to_json
from andon.model.wire import Json, dumps
from andon.web.answers.payloads import iso


def for_anonymous(found: LeaseList) -> LeaseList:
    """Without commands, and without the fences that prove ownership."""
    shown = tuple(replace(row, command=None, fence=None) for row in found.leases)
    return replace(found, leases=shown)


def leases(found: LeaseList, trusted: bool) -> Json:
    """`andon.leases/1`."""
    return list_to_json(found if trusted else for_anonymous(found), iso(found.at))


def grant(row: LeaseRow, environment: Mapping[str, str]) -> Json:
    """A lease as returned to its requester."""
    return {**row_to_json(row), "environment": dict(environment)}


def text(found: LeaseList, trusted: bool) -> str:
    """As JSON. A lease file may contain invalid UTF-8: that must not break a response."""
    return sendable(leases(found, trusted))


def sendable(value: Json) -> str:
    return dumps(value).encode("utf-8", "replace").decode()
