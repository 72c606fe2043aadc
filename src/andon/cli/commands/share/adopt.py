"""`andon lease adopt`: takes over a lease whose `andon run` was killed while its container runs."""

import os
from collections.abc import Sequence
from functools import partial

import click

from andon.app.engines import open_engine
from andon.cli.commands.completing import complete_lease
from andon.cli.commands.share.run import ended
from andon.cli.options import chosen, shared
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices, notice
from andon.leases.book.lease_book import Book
from andon.model.execution import ContainerOptions
from andon.runs.rules.oom import Verdict, verdict
from andon.work.containers.adoption import AdoptedWork
from andon.work.containers.adoption import adopt as take_over
from andon.work.containers.running import ContainedCommand, follow_container
from andon.work.launcher import CommandEnd, Launcher
from andon.work.lease_watch import LeaseWatch


@click.command()
@click.argument("lease_id", metavar="ID", shell_complete=complete_lease)
@shared
def adopt(lease_id: str) -> int:
    """Take over an orphaned lease of yours, and wait for its container.

    Holds its devices again, passes on the container's output from now on, and exits with its exit
    code. Ctrl-C, andon release and the lease's end stop the container.
    """
    choices = chosen()
    adopted = take_over(Book(make=False), open_engine(), lease_id, os.getuid())
    notice(f"adopted lease {adopted.held.lease.id} with container {adopted.work.id[:12]}", choices)
    return ended(_followed(adopted, choices), choices)


def _followed(adopted: AdoptedWork, choices: Choices) -> tuple[int, Verdict]:
    """Wait for the container, and release the lease whatever happens."""
    held, notify = adopted.held, partial(notice, choices=choices)
    watch = LeaseWatch(held, notify)
    contained = ContainedCommand(adopted.engine, ContainerOptions(adopted.work.image), ())
    contained.adopt(adopted.work)
    grace = settings_of(choices).work_grace_seconds

    def launch(client: Sequence[str]) -> CommandEnd:
        launcher = Launcher(
            client, os.environ, grace, held.hold, tapped=True,
            stopped_by=watch.released, elsewhere=contained.send,
        )  # fmt: skip
        return launcher.run(watch.check, notify)

    try:
        end, killed = follow_container(contained, launch, contained.follow(adopted.since))
    finally:
        held.release()
    judged = verdict(end.code, end.signal, end.tail, (), 0, end.ended_for, end.interrupted, killed)
    return end.code, judged
