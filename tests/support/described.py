"""Holds JSON against the schema that OpenAPI gives of it: every member declared, and no other."""

import json
from functools import cache
from typing import Any

import jsonschema_rs

from andon.model import wire
from andon.model.shapes import REF, JsonShape, Schemas
from andon.web.answers.description import KNOWN


def check(value: object, shape: JsonShape) -> None:
    """Raises where the value, as it is sent, is not what is described."""
    schemas = Schemas(KNOWN, closed=True)
    root = schemas.ref(shape)
    text = json.dumps({**root, "$defs": schemas.definitions}).replace(REF, "#/$defs/")
    _validator(text).validate(json.loads(wire.dumps(value)))


@cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.validator_for(json.loads(schema))
