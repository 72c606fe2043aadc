"""Routes for runs: the list, one run, what happened in it, and its record."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from andon.model.run.record import RunState
from andon.model.shapes import to_json
from andon.node.watched.run_list import MOST_LISTED, MOST_OFFSET
from andon.node.watched.users import PIECE_BYTES, Download
from andon.runs.rules.matching import RunQuery
from andon.web.answers.requests import RunRemarks
from andon.web.history_reader import HistoryReader
from andon.web.routes.picked import Picked
from andon.web.routes.responses import sent, sent_json, shaped
from andon.web.transport.auth import add_notes

_Text = Annotated[str, Query(max_length=200)]
_RunName = Annotated[str, Path(max_length=64, description="an id, or its prefix")]


def run_routes(router: APIRouter, reader: HistoryReader) -> None:
    """Adds the routes of runs; a hung folder delays only requests for runs."""

    @router.get("/api/runs", tags=["record"])
    async def run_list(
        request: Request,
        own: Picked,
        search: _Text = "",
        node: _Text = "",
        model: _Text = "",
        tag: _Text = "",
        group: _Text = "",
        state: Annotated[RunState | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
        offset: Annotated[int, Query(ge=0, le=MOST_OFFSET)] = 0,
    ) -> Response:
        """The runs, the latest first; `choices` is what they can be filtered by."""
        runs = own.runs
        query = RunQuery(
            tag=tag or None, group=group or None, state=state, model=model or None,
            node=node or None, limit=limit, offset=offset,
        )  # fmt: skip
        key = ("runs", own.sight, query, search)
        return sent(await reader.read(request, key, lambda: shaped(runs.page(query, search))))

    @router.get("/api/run-courses", tags=["record"])
    async def run_courses(
        request: Request,
        node: Picked,
        runs: Annotated[str, Query(max_length=8000, description="ids, with commas")],
    ) -> Response:
        """The utilisation of up to 100 runs over their time, in at most 48 points each."""
        read, names = node.runs, tuple(filter(None, runs.split(",")))
        key = ("courses", node.sight, names)
        return sent(await reader.read(request, key, lambda: shaped(read.courses(names))))

    @router.get("/api/runs/{run}", tags=["record"])
    async def run_details(request: Request, node: Picked, run: _RunName) -> Response:
        """One run: what it was, its devices, what it used, and its readings over time."""
        runs, key = node.runs, ("run", node.sight, run)
        return sent(await reader.read(request, key, lambda: shaped(runs.details(run))))

    @router.patch("/api/runs/{run}", tags=["record"])
    async def remark(request: Request, node: Picked, run: _RunName, given: RunRemarks) -> Response:
        """Pin a run, so that it is listed first, or write a note on it; needs a key of its user."""
        runs = node.runs
        entry = await reader.do(lambda: runs.annotate(run, given.pinned, given.note))
        add_notes(request.scope, run=entry.id, pinned=given.pinned, note=given.note)
        return sent_json(to_json(entry))

    @router.get("/api/runs/{run}/events", tags=["record"])
    async def run_events(request: Request, node: Picked, run: _RunName) -> Response:
        """What happened during a run: its events, items and alerts."""
        runs, key = node.runs, ("run events", node.sight, run)
        return sent(await reader.read(request, key, lambda: shaped(runs.marks(run))))

    @router.get(
        "/api/runs/{run}/record",
        tags=["record"],
        response_class=StreamingResponse,
        responses={200: {"content": {"application/x-ndjson": {}}}},
    )
    async def run_record(request: Request, node: Picked, run: _RunName) -> Response:
        """The record itself, andon.run/1, for those who may see the run's command."""
        runs = node.runs
        runs.check_signed_in()
        record = await reader.do(lambda: runs.download(run))
        named = f"attachment; filename*=UTF-8''{quote(record.name)}"
        return StreamingResponse(
            _pieces(record, reader),
            media_type="application/x-ndjson",
            headers={"Content-Disposition": named, "Content-Length": str(record.size)},
        )


async def _pieces(record: Download, reader: HistoryReader) -> AsyncIterator[bytes]:
    """Yields the record as it was at the request; later lines are left out."""
    left = record.size
    try:
        while left > 0:
            piece = await reader.do(partial(record.file.read, min(PIECE_BYTES, left)))
            if not piece:
                break  # it was cut meanwhile: the client notices by the length
            left -= len(piece)
            yield piece
    finally:
        record.file.close()
