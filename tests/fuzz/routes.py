"""What the server can be asked, from its own description, and every single odd value for it."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tests.fuzz.chance import NUMBERS, TEXTS, Chance
from tests.fuzz.target import Target

PLAIN = {"string": "x", "integer": 1, "number": 10, "boolean": False, "array": []}
GOOD = {"metric": "power_watts", "metrics": "power_watts,sm_clock_mhz", "points": 20, "limit": 10}
"""What a query takes where the description does not say."""
ODD = (*NUMBERS, *TEXTS, None, [], {}, [[]], [None], ["x"] * 70, {"": 0}, ["\x00"], [1, "a", {}])


class Route(Struct, frozen=True):
    """One operation of the description."""

    method: str
    path: str
    queries: Mapping[str, Any]  # each with a value that is good, or None
    body: dict[str, Any] | None  # its fields, each with a value of the right type


class Odd(Struct, frozen=True):
    """One odd value for one field or query of a route."""

    route: Route
    name: str
    value: Any


def describe(target: Target) -> list[Route]:
    status, text = target.get("/openapi.json")
    assert status == 200, text
    found = json.loads(text)
    shapes = found["components"]["schemas"]
    return [
        _route(method.upper(), path, operation, shapes)
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
    ]


def _route(method: str, path: str, operation: dict[str, Any], shapes: dict[str, Any]) -> Route:
    asked = [p for p in operation.get("parameters", []) if p["in"] == "query"]
    queries = {p["name"]: GOOD.get(p["name"], _example(p["schema"], shapes)) for p in asked}
    content = operation.get("requestBody", {}).get("content", {})
    shape = content.get("application/json", {}).get("schema")
    return Route(method, path, queries, None if shape is None else _example(shape, shapes) or {})


def _example(shape: dict[str, Any], shapes: dict[str, Any]) -> Any:
    """A value that the description allows; the simplest one."""
    if "$ref" in shape:
        return _example(shapes[shape["$ref"].rpartition("/")[2]], shapes)
    if "default" in shape:
        return shape["default"]
    if "anyOf" in shape:
        return _example(shape["anyOf"][-1], shapes)  # null, where that is one of them
    if "enum" in shape:
        return shape["enum"][0]
    if shape.get("type") == "object":
        fields = shape.get("properties", {})
        return {name: _example(inner, shapes) for name, inner in fields.items()}
    return PLAIN.get(shape.get("type", ""))


def identifiers(target: Target) -> list[str]:
    """Names that exist: devices, the lease, a metric, alerts."""
    devices = json.loads(target.get("/api/devices")[1])["items"]
    alerts = json.loads(target.get("/api/alerts")[1])["alerts"]
    uuids = [device["uuid"] for device in devices[:3]]
    return [*uuids, "0", "1", "host", target.lease, "power_watts", *(a["id"] for a in alerts[:3])]


def sweep(routes: list[Route], seed: int) -> list[Odd]:
    """Every field and query with every odd value, in an order of chance."""
    found = [
        Odd(route, name, value)
        for route in routes
        for name in (*route.queries, *(route.body or ()))
        for value in ODD
    ]
    Chance(f"{seed}/sweep").shuffle(found)
    return found
