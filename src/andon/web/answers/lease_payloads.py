"""Payloads about leases."""

from collections.abc import Mapping

from andon.model.lease_list import LeaseList, LeaseRow, list_to_json
from andon.model.shapes import to_json
from andon.model.wire import Json, dumps
from andon.node.seen.texts import sendable
from andon.web.answers.payloads import iso


def leases(found: LeaseList) -> Json:
    """`andon.leases/1`."""
    return list_to_json(found, iso(found.at))


def grant(row: LeaseRow, environment: Mapping[str, str]) -> Json:
    """A lease as returned to its requester."""
    return {**to_json(row), "environment": dict(environment)}


def text(found: LeaseList) -> str:
    """Returns the list as JSON; invalid UTF-8 in a lease file must not break a response."""
    return sendable(dumps(leases(found)))
