"""OpenAPI with the type of every response, from a table of routes and types."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from andon.web.answers import schemas

ANSWERS: dict[str, type[BaseModel]] = {
    "/api/snapshot": schemas.Snapshot,
    "/api/health": schemas.Health,
    "/api/features": schemas.Features,
    "/api/recent": schemas.Recent,
    "/api/devices/{device}/why": schemas.Why,
    "/api/devices/{device}/charts": schemas.Charts,
    "/api/devices/{device}/usage": schemas.Usage,
}
"""The responses to GET; the board's types are generated from these."""
_REF = "#/components/schemas/{model}"


def describe(api: FastAPI) -> None:
    """Add the response types to /openapi.json."""

    def openapi() -> dict[str, Any]:
        if api.openapi_schema is None:
            api.openapi_schema = described(api)
        return api.openapi_schema

    setattr(api, "openapi", openapi)  # noqa: B010 (an instance's method)


def described(api: FastAPI) -> dict[str, Any]:
    """The complete OpenAPI document."""
    found = get_openapi(
        title=api.title, version=api.version, description=api.description, routes=api.routes
    )
    models = sorted(set(ANSWERS.values()), key=lambda model: model.__name__)
    _, made = models_json_schema([(m, "serialization") for m in models], ref_template=_REF)
    found["components"]["schemas"] |= made["$defs"]
    for path, model in ANSWERS.items():
        answer = found["paths"][path]["get"]["responses"]["200"]
        answer["content"] = {
            "application/json": {"schema": {"$ref": _REF.format(model=model.__name__)}}
        }
    return found
