"""REST for calendars: a person's link, and the calendar that it opens."""

import time
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from andon.access.roles import ANONYMOUS
from andon.errors import Denied, Gone
from andon.leases.rules.icalendar import TYPE, calendar
from andon.node.seen.node import SeenNode
from andon.web.route_parts import RouteParts
from andon.web.routes.responses import sent_json
from andon.web.transport.auth import caller_of

CalendarKey = Annotated[str, Path(min_length=1, max_length=100)]


def calendar_routes(router: APIRouter, parts: RouteParts) -> None:
    keys = parts.keys.calendars

    @router.post("/api/calendar", tags=["share"], status_code=201)
    def new_link(request: Request) -> Response:
        """The path of your calendar: your reservations, for whoever has it. An earlier one ends."""
        uid, user = _person(request)
        return sent_json({"path": f"/calendar/{keys.make(uid, user)}.ics"}, 201)

    @router.delete("/api/calendar", tags=["share"])
    def end_link(request: Request) -> Response:
        """End the link of your calendar."""
        if not keys.revoke(_person(request)[0]):
            raise Gone("you have no calendar link", hint="POST /api/calendar makes one")
        return sent_json({"ended": True})

    @router.get("/calendar/{key}.ics", tags=["share"], response_class=Response)
    def own_calendar(key: CalendarKey, everyone: bool = False) -> Response:
        """The reservations of the person whose key it is, or everyone's, as iCalendar."""
        if (uid := keys.owner(key)) is None:
            raise Gone("there is no such calendar, or its link was ended", hint="make a new one")
        node = SeenNode(parts.node, ANONYMOUS)
        found = [one for one in node.leases.listed().reservations if everyone or one.uid == uid]
        text = calendar(found, node.live.latest().node, time.time())
        return Response(text, media_type=TYPE, headers={"cache-control": "no-store"})


def _person(request: Request) -> tuple[int, str]:
    who = caller_of(request.scope)
    if who.uid is None or who.user is None:
        raise Denied("a calendar belongs to an account of this machine", hint="andon open")
    return who.uid, who.user
