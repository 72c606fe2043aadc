"""`andon serve` and `andon hub`: serve this node's devices, and those of nodes that report."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from andon.app.history import store_url
from andon.app.settings import load_settings
from andon.cli.options import F, chosen, shared, store_option, thresholds_option, with_options
from andon.cli.show.text import styled
from andon.cli.sources import resolved_of, settings_of
from andon.cli.terminal import Choices, Terminal, notice
from andon.errors import Invalid, Unavailable
from andon.settings.table import PORT_VARIABLE, USUAL_PORT
from andon.units import counted, sh
from andon.web.listening import ServeOptions, Started

NEEDED = ("fastapi", "uvicorn", "socketio", "wsproto")
_FILE = click.Path(path_type=Path)


_PLACE = (
    click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve on."),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        envvar=PORT_VARIABLE,
        default=USUAL_PORT,
        show_default=True,
        help="The port; 0 takes a free one.",
    ),
    click.option("--tls-cert", type=_FILE, metavar="FILE", help="A certificate (PEM): HTTPS."),
    click.option("--tls-key", type=_FILE, metavar="FILE", help="Its key, if not in the same file."),
    click.option(
        "--allow-host",
        multiple=True,
        metavar="NAME",
        help="Also accept this host name (a proxy's).",
    ),
)


def _placed(command: F) -> F:
    """Adds the options for the address to serve on."""
    return with_options(command, *_PLACE)


@click.command()
@_placed
@store_option
@click.option("--no-history", is_flag=True, help="Keep nothing on disk.")
@click.option(
    "--hub",
    "reports_to",
    metavar="URL",
    help="Also report this machine to a hub; several of one database: A,B.",
)
@thresholds_option("Alert at this value, e.g. thermal_celsius=75; off turns the rule off.")
@shared
def serve(no_history: bool, reports_to: str | None, **place: Any) -> int:
    """Serve the web board, REST, live events and /metrics until Ctrl-C.

    On loopback anyone may read, and changing anything needs the token in the state folder
    (~/.local/state/andon/token). On any other address everything needs it. `andon open` signs
    a browser in.
    """
    return _serve(place, not no_history, reports_to)


@click.command()
@_placed
@store_option
@thresholds_option("Alert at this value, e.g. thermal_celsius=75; off turns the rule off.")
@shared
def hub(**place: Any) -> int:
    """Serve many machines in one place, until Ctrl-C.

    Machines report with `andon agent`; `andon nodes add` lets one. The store is a PostgreSQL
    database, which several hubs may share. It is the same server as andon serve.
    """
    if store_url(settings_of(chosen())).scheme != "postgresql":
        raise Invalid(
            "a hub keeps its nodes in PostgreSQL", hint="andon hub --store postgresql:///andon"
        )
    return _serve(place, history=True)


def _serve(given: dict[str, Any], history: bool, reports_to: str | None = None) -> int:
    check_packages()
    from andon.app.servers.serving import serve

    choices = chosen()
    resolved = resolved_of(choices)
    place = ServeOptions(
        given["host"],
        given["port"],
        given["tls_cert"],
        given["tls_key"],
        given["allow_host"],
        history,
        resolved.origin.get("simulate") == "flag",
        reports_to,
    )
    serve(
        resolved.settings,
        place,
        lambda started: _announce(started, choices),
        lambda: load_settings(choices.flags()).settings,
    )
    return 0


def check_packages() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"the server needs packages that are not installed: {', '.join(missing)}",
            hint="pip install 'andon[serve]'",
        )


def _announce(started: Started, choices: Choices) -> None:
    """Prints the address on standard output, separated by spaces so that scripts can find it."""
    terminal = Terminal.of(choices)
    terminal.print(
        styled("serving ") + styled(started.url, "bold") + styled(_about(started), "dim")
    )
    if choices.quiet:
        return
    terminal.print(styled(f"  sign a browser in   andon open --url {sh(started.url)}", "dim"))
    terminal.print(styled(f"  token               {started.token_file}", "dim"))
    if started.notifiers:
        terminal.print(styled(f"  alerts go to        {', '.join(started.notifiers)}", "dim"))
    tunnel = ssh_line(os.environ, started.port) if started.loopback else None
    if tunnel:
        terminal.print(styled("  from your machine   ", "dim") + styled(tunnel, "bold"))
    if not started.loopback and started.url.startswith("http:"):
        notice("the token is sent in clear text: use --tls-cert and --tls-key", choices)


def _about(started: Started) -> str:
    snapshot = started.snapshot
    if snapshot is None:
        return "  the devices have not responded yet"
    mark = "SIMULATED " if snapshot.simulated else ""
    return f"  {snapshot.node}: {counted(len(snapshot.devices), f'{mark}device')}"


def ssh_line(environment: Mapping[str, str], port: int) -> str | None:
    """The command to reach this server from the user's machine, if they came by SSH."""
    parts = environment.get("SSH_CONNECTION", "").split()
    if len(parts) != 4:
        return None
    user = environment.get("USER") or environment.get("LOGNAME")
    where = f"{user}@{parts[2]}" if user else parts[2]
    there = "" if parts[3] == "22" else f"-p {sh(parts[3])} "
    return f"ssh -N -L {port}:127.0.0.1:{port} {there}{sh(where)}"
