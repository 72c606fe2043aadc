"""The page at /docs: every route of the OpenAPI description as plain HTML.

It says nothing about this server or its node, so that anyone may see it, as the board's own page.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

Part = Mapping[str, Any]

TITLES = {
    "watch": "Watch", "explain": "Explain", "share": "Share", "record": "Record", "fleet": "Fleet",
    "kept": "Stable summary routes", "board": "For charts and the board", "access": "Access",
    "machines": "For machines",
}  # fmt: skip
"""The sections, in this order; a tag that is not here follows under its own name."""
METHODS = ("get", "post", "put", "patch", "delete")
_CODE = re.compile(r"`([^`]+)`")
_REF = "#/components/schemas/"
_TYPES = {"integer": "whole number", "boolean": "true or false", "object": "object", "null": "null"}
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>andon API</title>
<link rel="icon" href="/favicon.ico" type="image/svg+xml">
<link rel="stylesheet" href="/docs/style.css">
<script src="/static/theme.js"></script></head><body>
"""


def api_page(description: Part) -> str:
    """The whole page of an OpenAPI document."""
    sections = _sections(description["paths"])
    return "".join(
        [
            _HEAD,
            '<header><a class="mark" href="/">andon</a><h1>API</h1>',
            '<a class="end" href="/openapi.json">openapi.json</a></header>',
            _contents(sections),
            "<main>",
            _introduction(),
            *(_section(title, routes) for title, routes in sections.items()),
            _schemas(description["components"]["schemas"]),
            "</main></body></html>\n",
        ]
    )


def _sections(paths: Part) -> dict[str, list[tuple[str, str, Part]]]:
    """Every route under the title of its tag, in the order of the titles."""
    found: dict[str, list[tuple[str, str, Part]]] = {title: [] for title in TITLES.values()}
    for path, methods in paths.items():
        for method in METHODS:
            if method in methods:
                tag = next(iter(methods[method].get("tags", ())), "other")
                title = TITLES.get(tag, tag.capitalize())
                found.setdefault(title, []).append((method, path, methods[method]))
    return {title: routes for title, routes in found.items() if routes}


def _contents(sections: Mapping[str, Sequence[tuple[str, str, Part]]]) -> str:
    lists = [
        f"<h2>{escape(title)}</h2><ul>"
        + "".join(
            f'<li><a href="#{_anchor(method, path)}">{_method(method)} {escape(path)}</a></li>'
            for method, path, _ in routes
        )
        + "</ul>"
        for title, routes in sections.items()
    ]
    return f'<nav aria-label="routes">{"".join(lists)}</nav>'


def _introduction() -> str:
    return (
        "<p>Answers are JSON; times are UTC seconds, sizes are bytes unless a name says otherwise, "
        "and <code>null</code> means that a value is not known. Every error is "
        '<code>{"error": {"kind", "reason", "hint"}}</code>. On this machine reading is free; '
        "from another one, and to change something, send "
        "<code>Authorization: Bearer TOKEN</code>.</p>"
    )


def _section(title: str, routes: Iterable[tuple[str, str, Part]]) -> str:
    return f"<h2>{escape(title)}</h2>" + "".join(_route(*route) for route in routes)


def _route(method: str, path: str, route: Part) -> str:
    parts = [
        f'<section class="route" id="{_anchor(method, path)}">',
        f"<h3>{_method(method)} <code>{escape(path)}</code>{_try(method, path, route)}</h3>",
        f"<p>{_as_html(route.get('description') or route.get('summary', ''))}</p>",
        _parameters(route.get("parameters", ())),
        _body(route),
        _answer(route),
        "</section>",
    ]
    return "".join(parts)


def _try(method: str, path: str, route: Part) -> str:
    """Returns a link to a route that needs no parameters."""
    wanted = any(one.get("required") for one in route.get("parameters", ()))
    if method != "get" or "{" in path or wanted:
        return ""
    return f' <a class="try" href="{escape(path)}">open</a>'


def _parameters(found: Sequence[Part]) -> str:
    rows = [
        (
            one["name"],
            "in the path" if one["in"] == "path" else _type(one["schema"]),
            _needed(bool(one.get("required")), one["schema"]),
            one.get("description") or one["schema"].get("description", ""),
        )
        for one in found
        if one["in"] in ("path", "query")
    ]
    return _table("Parameters", rows)


def _body(route: Part) -> str:
    content = route.get("requestBody", {}).get("content", {}).get("application/json")
    return "" if content is None else f"<p>Body: {_type(content['schema'])}</p>"


def _answer(route: Part) -> str:
    good = [(s, one) for s, one in route["responses"].items() if s.startswith("2")]
    schemas = [one.get("content", {}).get("application/json", {}).get("schema") for _, one in good]
    named = [_type(schema) for schema in schemas if schema and "$ref" in schema]
    return f"<p>Answer: {', '.join(named)}</p>" if named else ""


def _schemas(schemas: Mapping[str, Part]) -> str:
    shown = [
        f'<section class="shape" id="shape-{escape(name)}"><h3>{escape(name)}</h3>'
        f"<p>{_as_html(schema.get('description', ''))}</p>{_fields(schema)}</section>"
        for name, schema in sorted(schemas.items())
    ]
    return "<h2>Objects</h2>" + "".join(shown)


def _fields(schema: Part) -> str:
    if "enum" in schema:
        return f"<p>{_choices(schema['enum'])}</p>"
    known, required = schema.get("properties", {}), schema.get("required", ())
    names = [*(n for n in required if n in known), *(n for n in known if n not in required)]
    rows = [
        (
            name,
            _type(known[name]),
            "" if name in required else _needed(False, known[name]),
            known[name].get("description", ""),
        )
        for name in names
    ]
    return _table("Fields", rows)


def _table(caption: str, rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Returns a table; names and descriptions are escaped here, types are HTML already."""
    if not rows:
        return ""
    lines = [
        f"<tr><th scope=row><code>{escape(name)}</code></th><td>{kind}</td>"
        f"<td>{escape(needed)}</td><td>{_as_html(text)}</td></tr>"
        for name, kind, needed, text in rows
    ]
    return f"<table><caption>{caption}</caption>{''.join(lines)}</table>"


def _needed(required: bool, schema: Part) -> str:
    if required:
        return "required"
    default = schema.get("default")
    return "optional" if default is None else f"default {default}"


def _type(schema: Part) -> str:
    """Returns a schema as text; named objects are links to their definition."""
    if "$ref" in schema:
        name = escape(str(schema["$ref"]).removeprefix(_REF))
        return f'<a href="#shape-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "allOf" in schema:
        return " and ".join(_type(one) for one in schema["allOf"])
    if "const" in schema or "enum" in schema:
        return _choices(schema.get("enum") or [schema["const"]])
    return _simple(schema)


def _simple(schema: Part) -> str:
    kind = schema.get("type", "any value")
    more = schema.get("additionalProperties")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(more, Mapping) and more:
        return f"object of {_type(more)}"
    return _TYPES.get(kind, "text" if kind == "string" else escape(str(kind)))


def _as_html(text: str) -> str:
    """Returns a sentence as HTML; text in backticks is code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _choices(values: Iterable[object]) -> str:
    return ", ".join(f"<code>{escape(str(value))}</code>" for value in values)


def _anchor(method: str, path: str) -> str:
    return escape(f"{method}-{path.strip('/')}".replace("/", "-").replace("{", "").replace("}", ""))


def _method(method: str) -> str:
    return f'<span class="method {method}">{method.upper()}</span>'
