"""Payloads about leases, each as its caller may see it."""

from collections.abc import Mapping

from msgspec.structs import replace

from andon.access.roles import Action, Identity, Role, refusal_for
from andon.model.lease_list import LeaseList, LeaseRow, list_to_json, row_to_json
from andon.model.wire import Json, dumps
from andon.web.answers.payloads import iso
from andon.web.answers.texts import sendable


def shown_to(who: Identity, found: LeaseList, server_user: str | None = None) -> LeaseList:
    """The list without other users' commands, and without the fences that prove ownership."""
    return replace(found, leases=tuple(_shown(who, row, server_user) for row in found.leases))


def leases(found: LeaseList) -> Json:
    """`andon.leases/1`."""
    return list_to_json(found, iso(found.at))


def grant(row: LeaseRow, environment: Mapping[str, str]) -> Json:
    """A lease as returned to its requester."""
    return {**row_to_json(row), "environment": dict(environment)}


def text(found: LeaseList) -> str:
    """Returns the list as JSON; invalid UTF-8 in a lease file must not break a response."""
    return sendable(dumps(leases(found)))


def _shown(who: Identity, row: LeaseRow, server_user: str | None) -> LeaseRow:
    own = who.uid is not None and who.uid == row.uid
    if refusal_for(who, Action.SEE_COMMANDS, own) is not None:
        row = replace(row, command=None, fence=None)
    if who.role is not Role.USER:
        return row  # whether the server itself can end it
    refused = refusal_for(who, Action.RELEASE, own, row.user)
    if refused is not None:
        reason = f"{refused.reason}: {refused.hint}"
        return replace(row, releasable=False, not_releasable_reason=reason)
    if row.releasable or row.id is None:
        return row
    reason = f"{server_user or 'another user'} runs this server and cannot end it: andon release "
    return replace(row, not_releasable_reason=reason + row.id)
