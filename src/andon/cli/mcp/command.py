"""`andon mcp`: answers an assistant on standard input and output."""

import click

from andon.cli.main import run
from andon.cli.mcp.calling import Calls
from andon.cli.mcp.far import FarActs
from andon.cli.mcp.tools import tools
from andon.cli.options import above_zero, at_server, chosen, shared
from andon.errors import Unavailable

LONGEST = "60"


@click.command()
@click.option(
    "--allow",
    type=click.Choice(["act"]),
    help="Also submit, cancel, release and reserve, of your own.",
)
@click.option(
    "--timeout", "seconds", type=above_zero, default=LONGEST, show_default=True, metavar="TIME",
    help="The longest time for one answer.",
)  # fmt: skip
@at_server
@shared
def mcp(allow: str | None, seconds: float) -> int:
    """Answer an assistant's questions about the GPUs, over the Model Context Protocol (stdio).

    The assistant starts this command itself: its documentation has the line for each. Its tools
    are andon's own commands: status, free, why, who, leases, alerts, history, runs, jobs, logs,
    estimate, doctor and checks. They change nothing without --allow act; what they change then is
    in andon audit, and never of another user.
    """
    choices = chosen()
    try:
        from andon.cli.mcp.server import serve
    except ImportError as lacking:
        if lacking.name is None or lacking.name.partition(".")[0] not in (
            "mcp",
            "mcp_types",
            "anyio",
        ):
            raise
        raise Unavailable(
            "andon mcp needs the mcp package", hint="pip install 'andon[mcp]'"
        ) from lacking
    more = [f"--simulate={choices.simulate}"] * (choices.simulate is not None)
    more += [f"--replay={choices.replay}"] * (choices.replay is not None)
    more += [f"{option}={value}" for option, value in choices.machine().values()]
    url = choices.url
    far = FarActs(url, choices.token_file) if allow and url is not None else None
    serve(tools(url, allow is not None), more, Calls(run, seconds), far)
    return 0
