"""The route for what each user used: hours, energy and idle shares, by day."""

import time
from collections import defaultdict
from typing import Literal

from fastapi import APIRouter, Request, Response

from andon.history.rules.usage import UNKNOWN_USER, UsePeriod, by_day, renamed, summed
from andon.leases.policy_file import group_of, policy_state
from andon.model.shapes import to_json
from andon.node.past_use import day_of
from andon.node.port import NodePast
from andon.settings.resolution import Settings
from andon.web.answers.schemas import UserDay, UserShare, UserShares
from andon.web.route_parts import RouteParts
from andon.web.routes.api import ERRORS, Since, Until, span
from andon.web.routes.picked import Picked
from andon.web.routes.responses import dumped, sent

WEEK_SECONDS, MINUTE_SECONDS = 7 * 86_400.0, 60.0


def routes(parts: RouteParts) -> APIRouter:
    router = APIRouter(responses=ERRORS, tags=["board"])

    @router.get("/api/users")
    async def users(
        request: Request,
        node: Picked,
        start: Since = None,
        end: Until = None,
        by: Literal["user", "group"] = "user",
        each: Literal["day", "month"] = "day",
    ) -> Response:
        """What each user or group used of the devices; by default in the last seven days."""
        since, until = span(start, end, WEEK_SECONDS, step=MINUTE_SECONDS)

        def made() -> bytes:
            found = shares(node.past, since, until, parts.settings, by, each)
            return dumped(to_json(found))

        return sent(await parts.past.read(request, ("users", since, until, by, each), made))

    return router


def shares(
    past: NodePast,
    since: float,
    until: float,
    settings: Settings,
    by: str = "user",
    each: str = "day",
) -> UserShares:
    """Returns the shares of all users, from the intervals of use and the readings of devices."""
    # Nothing is recorded in the future, and empty buckets take time.
    period = UsePeriod.of(since, max(since, min(until, time.time() + MINUTE_SECONDS)))
    uses = past.usage(None, period.since, until)
    period = period.beginning_with(uses)
    read = {uuid: period.read(past, uuid) for uuid in {use.device for use in uses}}
    digits = len("2026-11" if each == "month" else "2026-11-09")
    days = by_day(uses, read, lambda at: day_of(at)[:digits])
    if by == "group":
        policy, _ = policy_state()
        days = renamed(days, lambda user: group_of(policy, user) or UNKNOWN_USER)
    of_user = defaultdict[str, list[UserDay]](list)
    for (day, user), used in sorted(days.items()):
        hours = round(used.device_seconds, 1)
        of_user[user].append(UserDay(day, hours, used.energy_joules, used.idle_share))
    price = settings.runs_price_per_kwh
    return UserShares(
        since=since,
        until=until,
        price_per_kwh=price or None,
        currency=settings.runs_currency or None if price else None,
        items=[
            UserShare(
                user=one.user,
                device_seconds=round(one.device_seconds, 1),
                idle_share=one.idle_share,
                held_idle_share=one.held_idle_share,
                energy_joules=one.energy_joules,
                days=of_user[one.user],
            )
            for one in summed(days.items())
        ],
    )
