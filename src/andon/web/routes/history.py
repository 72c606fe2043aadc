"""REST for notes on times of the history, and for what else changed in a range."""

import time
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from andon.errors import Invalid
from andon.history.rules.notes import HistoryNote, NoteList
from andon.history.rules.series import HOST
from andon.model.codec import document, to_json
from andon.node.changes import changes_of
from andon.units import printable
from andon.web.answers.requests import NoteRequest
from andon.web.route_parts import RouteParts
from andon.web.routes.api import ERRORS, Since, Until, device_uuid, span
from andon.web.routes.picked import Picked
from andon.web.routes.responses import dumped, sent, sent_json, shaped
from andon.web.transport.auth import add_notes

AROUND_SECONDS = 600.0
NamedDevice = Annotated[str, Query(max_length=200, description='a GPU, or "host"')]
AnyDevice = Annotated[str | None, Query(max_length=200)]
NoteId = Annotated[str, Path(max_length=64)]


def routes(parts: RouteParts) -> APIRouter:
    """All of /api/history but the list of devices."""
    router = APIRouter(responses=ERRORS, tags=["watch"])

    @router.get("/api/history/changes")
    async def changes(
        request: Request, node: Picked, device: NamedDevice, start: Since = None, end: Until = None
    ) -> Response:
        """andon.changes/1: what changed most against the range before; by default in the last ten
        minutes."""
        since, until = span(start, end, AROUND_SECONDS)

        def made() -> bytes:
            return dumped(document(changes_of(node, device_uuid(node, device), since, until)))

        key = ("changes", device, since, until, node.sight)
        return sent(await parts.past.read(request, key, made))

    @router.get("/api/history/notes")
    async def notes(
        request: Request,
        node: Picked,
        device: AnyDevice = None,
        start: Since = None,
        end: Until = None,
    ) -> Response:
        """The notes that touch a range, of a device and the node, or of all, and the leases that
        ended in it; the last day."""
        since, until = span(start, end)

        def made() -> bytes:
            uuid = None if device is None else device_uuid(node, device)
            notes, leases = node.past.notes, node.past.ended_leases
            both = tuple(notes(uuid, since, until)), tuple(leases(uuid, since, until))
            return shaped(NoteList(*both))

        key = ("notes", device, since, until)
        return sent(await parts.past.read(request, key, made))

    @router.post("/api/history/notes")
    def add_note(request: Request, node: Picked, given: NoteRequest) -> Response:
        """Write a note on a time range of a device or, without one, of the node; needs a key."""
        text, device = printable(given.text).strip(), given.device
        if not text:
            raise Invalid("the note has no text", hint="text is one sentence")
        uuid = None if device in (None, HOST) else device_uuid(node, str(device))
        note = HistoryNote("new", time.time(), given.since, given.until, text, uuid, given.by)
        added = node.past.add_note(note)
        add_notes(request.scope, note=added.id)
        return sent_json(to_json(added))

    @router.delete("/api/history/notes/{note}")
    def remove_note(node: Picked, note: NoteId) -> Response:
        """Remove a note; needs a key. A user removes only their own."""
        node.past.remove_note(note)
        return sent_json({"ended": True})

    return router
