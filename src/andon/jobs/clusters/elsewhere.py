"""Submits a job of a host again to others, once it is known not to run there any more."""

import os
from collections.abc import Sequence

from msgspec.structs import replace

from andon.errors import Conflict, Gone, Invalid, Unavailable
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.clusters.notes import recent_notes
from andon.jobs.desk import JobDesk
from andon.jobs.submitting import PREFIXES, new_submission
from andon.model.job.desk import Accepted
from andon.units import sh


def submit_elsewhere(
    host: ClusterDesk, job: str, target: JobDesk, force: bool = False
) -> Sequence[Accepted]:
    """Submits the job to another desk; raises Conflict if it waits or runs on its host, and, unless
    it is to be forced, if the host does not say."""
    known = host.id_of(job)
    note = next((n for n in recent_notes(0.0) if (n.cluster, n.id) == (host.name, known)), None)
    if note is None:
        raise Gone(f"{job} was not submitted from here", hint="submit it again: andon submit")
    try:
        state = host.ask(lambda cluster: cluster.job(known)).state
    except Gone:
        state = None
    except Unavailable as error:
        if not force:
            why = f"whether {job} still runs is not known: {error.reason}"
            raise Conflict(why, hint="--force starts it again all the same") from error
        state = None
    if state is not None and not state.is_settled:
        raise Conflict(f"{job} is {state.text} there", hint=f"first: andon cancel {sh(job)}")
    given = note.submission
    if given.variables:
        why = f"the values of {', '.join(given.variables)} are not kept here"
        raise Invalid(f"{job} was not submitted again: {why}", hint="submit its file again")
    variables = {name: os.environ[name] for name in PREFIXES if name in os.environ}
    again = new_submission(replace(given.job, environment=variables))
    return target.submit(
        [replace(again, indices=given.indices, limit=given.limit, options=given.options)]
    )
