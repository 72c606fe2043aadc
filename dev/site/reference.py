"""The pages of the site's reference that nobody writes: made from the code when it is built."""

import json
import re
from pathlib import Path

from dev.site.commands import command_pages
from dev.site.limits import limits_page
from dev.site.python_api import python_page

from andon.cli.catalogue import COMMANDS, EXIT_CODES
from andon.errors import AndonError
from andon.jobs.rules.file_keys import KEYS, REQUEST_KEYS
from andon.web.answers.api_page import api_page

REPOSITORY = Path(__file__).parents[2]
PROJECT = {name: f"project/{name.lower()}" for name in
           ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}  # fmt: skip
PROJECT["bench/README.md"] = "project/measurements.md"
"""Pages of the repository that are in the site, too."""


def made_pages() -> dict[str, str]:
    """Every generated page, by its place in the site."""
    project = {to: (REPOSITORY / name).read_text("utf-8") for name, to in PROJECT.items()}
    made = {place: make() for place, make in MAKERS.items()}
    return {**command_pages(), **made, **project}


def made_places() -> set[str]:
    """Where they are; nothing is made."""
    commands = {f"reference/commands/{name}.md" for name in ("index", *COMMANDS)}
    return commands | MAKERS.keys()


def rest_page() -> str:
    """The page `/docs` of a server, within the site: from the same description."""
    described = json.loads((REPOSITORY / "frontend/openapi.json").read_text("utf-8"))
    page = api_page(described)
    main = page[page.index("<main>") + len("<main>") : page.index("</main>")]
    main = re.sub(r' <a class="try"[^>]*>open</a>', "", main)
    main = re.sub(
        r'<section class="(\w+)" id="([^"]+)"><h3>', r'<section class="\1"><h3 id="\2">', main
    )
    words = "Every route of `andon serve`; a running server has this page at `/docs`, and\n"
    words += "`/openapi.json` for programs. [Examples of answers](payloads.md)."
    return f"# REST\n\n{words}\n\n{main}\n"


def payloads_page() -> str:
    """What the routes and the live events answer: the golden files that tests compare with."""
    parts = ["# Examples of answers\n\nOf the [REST routes](rest.md) and the live events "
             "(`event-…`), from the tests.\n"]  # fmt: skip
    for path in sorted((REPOSITORY / "tests/golden/api").glob("*.json")):
        lines = path.read_text("utf-8").splitlines()
        shown = lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "…"]
        parts.append(f"\n## {path.stem}\n\n```json\n" + "\n".join(shown) + "\n```\n")
    return "".join(parts)


MOST_LINES = 120


def exit_codes_page() -> str:
    """The codes of commands, with the error and the HTTP status that belong to each."""
    kinds = {one.exit_code: one for one in _kinds()}
    rows = [
        f"| {code} | {words} | {kinds[code].__name__ if code in kinds else ''} | "
        f"{kinds[code].http_status if code in kinds else ''} |\n"
        for code, words in EXIT_CODES
    ]
    return (
        "# Exit codes\n\n"
        "| code | meaning | in Python (`andon.errors`) | over REST |\n|---|---|---|---|\n"
        + "".join(rows)
        + "\n`andon run` and what starts a command as it does exit with the command's own code; "
        "125 means that andon itself failed, 126 and 127 that the command could not be started, "
        "128+n that signal n ended it.\n"
    )


def job_file_page() -> str:
    """Every key of a job in a job file, and those that choose its devices."""
    jobs = "".join(f"| `{row.key}` | {row.about} |\n" for row in KEYS.values())
    devices = "".join(f"| `{row.name}` | {row.help} |\n" for row in REQUEST_KEYS.values())
    head = "| key | meaning |\n|---|---|\n"
    return (
        "# Keys of a job file\n\n[Job files](../job-files.md) shows them in use.\n\n"
        f"{head}{jobs}\n## The devices\n\n{head}{devices}"
    )


def _kinds() -> list[type[AndonError]]:
    found = list(AndonError.__subclasses__())
    return [*found, *(below for one in found for below in one.__subclasses__())]


MAKERS = {
    "reference/rest.md": rest_page,
    "reference/payloads.md": payloads_page,
    "reference/python.md": python_page,
    "reference/job-file-keys.md": job_file_page,
    "reference/exit-codes.md": exit_codes_page,
    "reference/limits.md": limits_page,
}
