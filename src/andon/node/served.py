"""A node without access checks, as a server uses it.

Its parts are the ports and what a server needs beside them. `andon.node.seen` is in front of it.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from andon.jobs.rules.views import JobListing
from andon.node.exact_desk import OwnDesk
from andon.node.job_schemas import PageScope
from andon.node.watched.alerts import ServedAlerts
from andon.node.watched.leases import ServedLeases
from andon.node.watched.live import ServedLive
from andon.node.watched.past import ServedPast
from andon.node.watched.runs import ServedRuns
from andon.node.watched.users import SharedUsers


class JobsToShow(OwnDesk, Protocol):
    """The jobs of everyone; a number refers to a job of the server's own user."""

    own: OwnDesk
    scope: PageScope
    """Whose jobs `own` has: of the server's user, or of everyone on another machine."""
    users: SharedUsers | None
    """Set if root runs the server."""

    def of(self, user: str) -> OwnDesk | None:
        """Returns one user's jobs; None if none are known."""

    def on_clusters(self) -> JobListing: ...

    def why_not(self) -> str | None:
        """Returns why jobs may not be submitted over the network; None if they may."""

    def submit_document(self, document: dict[str, Any], /) -> Sequence[int]:
        """Queues the jobs in a job file's document; returns their numbers."""


class ServedNode(Protocol):
    name: str
    user: str | None
    simulated: bool
    recording: bool
    is_demo: bool
    """Whether devices, people and their work are simulated."""
    has_jobs: bool
    of_this_machine: bool
    """Whether its accounts are those of the machine that the server runs on."""

    @property
    def live(self) -> ServedLive: ...

    @property
    def alerts(self) -> ServedAlerts: ...

    @property
    def leases(self) -> ServedLeases: ...

    @property
    def past(self) -> ServedPast: ...

    @property
    def runs(self) -> ServedRuns: ...

    @property
    def jobs(self) -> JobsToShow: ...
