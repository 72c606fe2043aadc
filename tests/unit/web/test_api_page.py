"""The page at /docs: complete, escaped, and loaded from this server alone."""

import json
import re
from typing import Any

from andon.web.answers.api_page import METHODS, TITLES, api_page
from andon.web.transport.headers import SECURITY_HEADERS
from tests.conftest import REPOSITORY

SCHEMA: dict[str, Any] = json.loads((REPOSITORY / "frontend/openapi.json").read_text())
PAGE = api_page(SCHEMA)
HOSTILE = "<script>alert(1)</script>"


def described(**route: Any) -> dict[str, Any]:
    """A description of one route."""
    return {
        "paths": {"/api/x": {"get": {"tags": ["watch"], "responses": {}, **route}}},
        "components": {"schemas": {}},
    }


def test_every_route_and_every_object_is_on_it_and_every_link_leads_somewhere() -> None:
    for path, methods in SCHEMA["paths"].items():
        assert PAGE.count(f"<code>{path}</code>") == sum(one in methods for one in METHODS), path
    places = re.findall(r'id="([^"]+)"', PAGE)
    assert len(places) == len(set(places))
    assert set(re.findall(r'href="#([^"]+)"', PAGE)) <= set(places)
    assert {f"shape-{name}" for name in SCHEMA["components"]["schemas"]} <= set(places)


def test_every_tag_has_a_title() -> None:
    tags = {r["tags"][0] for methods in SCHEMA["paths"].values() for r in methods.values()}
    assert tags == set(TITLES)


def test_nothing_comes_from_another_host_and_the_policy_allows_all_of_it() -> None:
    assert not re.findall(r'(?:src|href)="(?![/#])', PAGE)
    assert not re.findall(r'(?:src|href)="//', PAGE)
    policy = dict(SECURITY_HEADERS)[b"content-security-policy"]
    assert b"'unsafe-inline'" not in policy
    assert "<style" not in PAGE
    assert " style=" not in PAGE
    assert not re.findall(r"<script(?! src=)", PAGE)
    assert not re.findall(r"\son\w+=", PAGE)


def test_parameters_say_what_they_are_and_whether_they_are_needed() -> None:
    parameters = [
        {"name": "metric", "in": "query", "required": True, "schema": {"type": "string"}},
        {"name": "points", "in": "query", "schema": {"type": "integer", "default": 300}},
        {"name": "token", "in": "header", "schema": {"type": "string"}},
    ]
    page = api_page(described(parameters=parameters))
    assert "<code>metric</code></th><td>text</td><td>required</td>" in page
    assert "<code>points</code></th><td>whole number</td><td>default 300</td>" in page
    assert "<code>token</code>" not in page


def test_only_what_needs_no_parameter_can_be_opened() -> None:
    assert 'href="/api/x">open</a>' in api_page(described())
    needed = [{"name": "m", "in": "query", "required": True, "schema": {"type": "string"}}]
    assert ">open</a>" not in api_page(described(parameters=needed))


def test_what_a_description_contains_is_escaped() -> None:
    hostile = described(
        description=HOSTILE,
        tags=[HOSTILE],
        parameters=[
            {"name": HOSTILE, "in": "query", "description": HOSTILE, "schema": {"enum": [HOSTILE]}}
        ],
    )
    hostile["paths"][f"/api/{HOSTILE}"] = hostile["paths"]["/api/x"]
    hostile["components"]["schemas"] = {
        HOSTILE: {"description": HOSTILE, "properties": {HOSTILE: {"type": HOSTILE}}}
    }
    assert "<script>" not in api_page(hostile)
