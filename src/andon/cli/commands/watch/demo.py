"""`andon demo`: the board with a simulated lab, for people who want to see what andon shows."""

import os
import tempfile
import webbrowser
from pathlib import Path

import click

from andon.cli.commands.watch.serve import check_packages
from andon.cli.options import chosen, shared, whole
from andon.cli.show.text import styled
from andon.cli.terminal import Terminal
from andon.drivers.sim.rules.scenarios import DEMO, DEMO_DEVICES
from andon.errors import Invalid
from andon.settings.resolution import Settings
from andon.units import sh
from andon.web.demo.runs import NODE
from andon.web.listening import ServeOptions, Started


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="The port [a free one]."
)
@click.option("--seed", type=whole, default=1, show_default=True, metavar="N", help="Which lab.")
@click.option("--open", "opens", is_flag=True, help="Open a browser, signed in.")
@shared
def demo(port: int, seed: int, opens: bool) -> int:
    """Serve a board with a simulated lab until Ctrl-C: eight GPUs, five people and a day of
    history, jobs, runs, leases and alerts.

    Everything is marked SIMULATED, made from the seed, and kept in a temporary folder that is
    removed at the end. No GPU, job or setting of this machine is read.
    """
    check_packages()
    if chosen().simulate is not None or chosen().replay is not None:
        raise Invalid("andon demo brings its own devices", hint="andon serve --simulate 4")
    with tempfile.TemporaryDirectory(prefix="andon-demo-", ignore_cleanup_errors=True) as folder:
        _move_into(Path(folder))
        _serve(Path(folder), port, seed, opens)
    return 0


def _move_into(folder: Path) -> None:
    """Lets this process find a state folder, a lease book and settings of its own only."""
    for name in [name for name in os.environ if name.startswith("ANDON_")]:
        if name != "ANDON_COLOR":
            del os.environ[name]
    os.environ |= {
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "ANDON_LEASE_DIR": str(folder / "book"),
    }


def _serve(folder: Path, port: int, seed: int, opens: bool) -> None:
    from andon.app.servers.serving import serve_demo

    settings = Settings(
        simulate=DEMO_DEVICES,
        simulate_scenario=DEMO,
        simulate_seed=seed,
        history_store=str(folder / "lab.db"),
        node=NODE,
        runs_price_per_kwh=0.30,
        runs_currency="EUR",
    )

    def announce(started: Started) -> None:
        terminal, link = Terminal.of(chosen()), f"{started.url}/#code={started.code}"
        about = f"  a SIMULATED lab with {DEMO_DEVICES} GPUs; Ctrl-C ends it"
        terminal.print(styled("serving ") + styled(started.url, "bold") + styled(about, "dim"))
        if not terminal.quiet:
            once = "  to change things in it, sign in once   "
            terminal.print(styled(once, "dim") + styled(link))
        terminal.remark(f"  or at any time   andon open --url {sh(started.url)}", "dim")
        if opens:
            webbrowser.open(link)

    serve_demo(settings, ServeOptions("127.0.0.1", port, lends_simulated=True), announce)
