"""OpenAPI with the type of every response."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from andon.model.shapes import Schemas
from andon.web.answers.shapes import ANSWERS, KNOWN

_SCHEMAS = "#/components/schemas/"
PROBLEMS = {"$ref": f"{_SCHEMAS}Problems"}
_OF_PROBLEMS: dict[str, Any] = {
    "Problem": {
        "properties": {
            "kind": {"type": "string", "title": "Kind"},
            "reason": {"type": "string", "title": "Reason"},
            "hint": {"type": "string", "title": "Hint"},
            "details": {
                "anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}],
                "title": "Details",
                "description": "one sentence each, for example per device",
            },
        },
        "type": "object",
        "required": ["kind", "reason", "hint"],
        "title": "Problem",
        "description": "What went wrong, and what to do.",
    },
    "Problems": {
        "properties": {"error": {"$ref": f"{_SCHEMAS}Problem"}},
        "type": "object",
        "required": ["error"],
        "title": "Problems",
        "description": "The format of every error.",
    },
}


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
    schemas = Schemas(KNOWN)
    for (method, path), shape in ANSWERS.items():
        responses = found["paths"][path][method]["responses"]
        good = next(answer for status, answer in responses.items() if status.startswith("2"))
        good["content"] = {"application/json": {"schema": schemas.ref(shape)}}
    found["components"]["schemas"] |= _OF_PROBLEMS | schemas.definitions
    return found
