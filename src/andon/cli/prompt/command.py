"""`andon prompt`: one line for the prompt of a shell, a bar or an editor."""

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import msgspec

from andon.cli.options import chosen, shared
from andon.cli.prompt.line import PromptFacts, SharedDevices, prompt_facts
from andon.cli.terminal import Choices, Terminal
from andon.errors import AndonError
from andon.host.files import read_regular, replace_file
from andon.host.state.user_folder import is_own, node_path
from andon.model.codec import Json, document, read
from andon.node.usual_server import may_be_running

if TYPE_CHECKING:
    from andon.model.job.facts import Holdup

STORED_FILE = "prompt.json"
LEASES = "/api/leases"
ANSWER_SECONDS = 0.3  # a prompt must not wait for a server that hangs
MOST_BYTES = 65_536
UNANSWERED = (AndonError, OSError, ValueError, LookupError)


@click.command()
@click.option("--refresh", is_flag=True, help="Read the GPUs if no server runs, and keep the line.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for waybar and others.")
@shared
def prompt(refresh: bool, as_json: bool) -> int:
    """Print one short line: GPU 1 free · yours: 2 (87 %) · job 12 in 5 min

    It asks this machine's server at its local socket. Without one it prints nothing, or what
    --refresh stored within the last day, with its age. It reads no GPU and its exit code is 0,
    so that it can be part of any prompt; --refresh is for cron and timers.
    """
    choices = chosen()
    found, stored = _of_server(), False
    if found is None and refresh:
        with suppress(*UNANSWERED):
            found = _of_devices(choices)
            _keep(found)
    elif found is None:
        found, stored = _read_stored(), True
    now, terminal = time.time(), Terminal.of(choices)
    if as_json:
        terminal.show_json({"text": ""} if found is None else found.bar(now, stored))
    elif found is not None and (line := found.line(now, stored)):
        terminal.show(f"{line}\n")
    return 0


def _of_server() -> PromptFacts | None:
    """Returns what this machine's server says, within a moment; None if there is none."""
    with suppress(*UNANSWERED):
        if may_be_running():
            from andon.node.local_server import local_servers

            for server in local_servers((LEASES,), ANSWER_SECONDS):
                return _facts(server.get(LEASES))
    return None


def _of_devices(choices: Choices) -> PromptFacts:
    from andon.cli.sources import node_of

    return _facts(document(node_of(choices).leases.listing()[1]))


def _facts(answer: Json) -> PromptFacts:
    return prompt_facts(read(SharedDevices, answer), os.getuid(), *_next_job())


def _next_job() -> tuple[int | None, float | None]:
    """Returns the job of this user that starts next, as the dispatcher expects it."""
    from andon.jobs.folder import own_jobs_folder

    found: dict[int, Holdup] = {}
    with suppress(*UNANSWERED):
        found = own_jobs_folder().holdups()
    known = [(at, number) for number, one in found.items() if (at := one.expected_start)]
    return (min(known)[1], min(known)[0]) if known else (None, None)


def _keep(found: PromptFacts) -> None:
    from andon.host.state.node_folder import open_node_folder

    replace_file(open_node_folder() / STORED_FILE, msgspec.json.encode(found))


def _read_stored() -> PromptFacts | None:
    """Returns what --refresh stored, in a file of this user's own."""
    with suppress(*UNANSWERED, msgspec.MsgspecError):
        if is_own(node_path()):
            return msgspec.json.decode(
                read_regular(node_path() / STORED_FILE, MOST_BYTES, own=True), type=PromptFacts
            )
    return None
