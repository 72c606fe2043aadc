"""Benchmarks in a job file: how the server under test is started, when it is ready, its loads."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from andon.errors import Invalid
from andon.runs.rules.reports.sweep import parse_limit
from andon.units import has_unit, parse_seconds
from andon.work.rules.genai_bench import each_load
from andon.work.rules.load import route_of

HEALTH = "http://127.0.0.1:{port}/health"
URL = "http://127.0.0.1:{port}/v1"
READY_SECONDS = 600.0
MOST_LOADS = 100
SERVER_KEYS = ("command", "image", "health", "url", "ready_timeout")
LOAD_KEYS = frozenset(
    (
        "model", "rate", "concurrency", "constant", "seconds", "requests", "warm_up",
        "input_tokens", "output_tokens", "prompts", "chat", "stream", "timeout", "seed", "clients",
        "slo",
    )
)  # fmt: skip


class ServerTrial(Struct, frozen=True):
    """The server and loads of one job of a benchmark; `{port}` stands in `command` and the URLs.
    With an image, the command is only its arguments, if any."""

    command: tuple[str, ...]
    image: str = ""
    health: str = HEALTH
    url: str = URL
    ready_seconds: float = READY_SECONDS
    loads: tuple[Mapping[str, Any], ...] = ()
    name: str = "benchmark"
    group: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    simulate: int | None = None


def server_of(value: Any) -> ServerTrial:
    """Parses the table `server`; ValueError for a mistake."""
    image = value.get("image", "") if isinstance(value, Mapping) else ""
    given = value.get("command", [] if image else None) if isinstance(value, Mapping) else None
    if not isinstance(given, list):
        raise ValueError('not a table with a command: write command = ["python", "serve.py"]')
    if unknown := sorted(set(value) - set(SERVER_KEYS)):
        raise ValueError(f"there is no key {unknown[0]!r}: {', '.join(SERVER_KEYS)}")
    if not isinstance(image, str) or image.startswith("-") or "\0" in image:
        raise ValueError("image is not the name of an image")
    command = tuple(str(word) for word in given)
    if (not image and not (command and command[0])) or any("\0" in word for word in command):
        raise ValueError("the command is empty")
    if not image and not any("{port}" in word for word in command):
        raise ValueError("the command does not use {port}, which andon chooses")
    ready = value.get("ready_timeout", "600s")
    if not isinstance(ready, str) or not has_unit(ready):
        raise ValueError('ready_timeout is not a duration with a unit: write "10m"')
    urls = {name: value.get(name, usual) for name, usual in (("health", HEALTH), ("url", URL))}
    for name, url in urls.items():
        if not isinstance(url, str) or not url.startswith("http://"):
            raise ValueError(f"{name} is not a URL that begins with http://")
        try:
            route_of(url.replace("{port}", "1"))
        except Invalid as wrong:
            raise ValueError(f"{name}: {wrong.reason}") from wrong
    return ServerTrial(command, image, urls["health"], urls["url"], parse_seconds(ready))


def loads_of(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Parses the tables `load`: a rate or concurrency with a list is a load for each value."""
    if not isinstance(value, list) or not value or not all(isinstance(v, Mapping) for v in value):
        raise ValueError("not a list of loads: write [[load]]")
    try:
        out = [one for load in value for one in each_load(load)]
        for limit in (limit for load in out for limit in load.get("slo", ())):
            parse_limit(limit)
    except Invalid as wrong:
        raise ValueError(wrong.reason) from wrong
    for load in out:
        if unknown := sorted(set(load) - LOAD_KEYS):
            raise ValueError(f"there is no key {unknown[0]!r} of a load")
        if (load.get("rate") is None) == (load.get("concurrency") is None) or not (
            {"seconds", "requests"} & load.keys()
        ):
            raise ValueError("a load needs one of rate and concurrency, and seconds or requests")
    if len(out) > MOST_LOADS:
        raise ValueError(f"{len(out)} loads; at most {MOST_LOADS}")
    return tuple(out)
