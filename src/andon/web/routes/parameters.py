"""Refuses query parameters that a route does not know: a misspelt filter must not be ignored."""

from fastapi import Request
from fastapi.routing import APIRoute

from andon.errors import Invalid

API = "/api/"
"""/metrics and /healthz are asked by programs that add parameters of their own."""
LONGEST, MOST = 60, 8


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency of every route; raises Invalid and names the parameters."""
    query = request.query_params
    if not query or not request.url.path.startswith(API):
        return
    route = request.scope.get("route")
    known = [p.alias for p in route.dependant.query_params] if isinstance(route, APIRoute) else []
    unknown = [name[:LONGEST] for name in query if name not in known]
    if unknown:
        raise Invalid(refused(unknown[:MOST]), hint=known_hint(known))


def refused(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names)
    return f"unknown parameter{'s' if len(names) > 1 else ''} {shown}"


def known_hint(known: list[str]) -> str:
    return f"the parameters are: {', '.join(known)}" if known else "this route has no parameters"
