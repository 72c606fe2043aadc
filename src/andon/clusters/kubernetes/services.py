"""Finds Deployments and InferenceServices that a submission made, while they have no pod."""

import time
from collections.abc import Container
from contextlib import suppress
from typing import Final

from andon.clusters.kubernetes.listing import parsed
from andon.clusters.kubernetes.rules import manifest as made
from andon.clusters.kubernetes.rules.objects import BatchJob
from andon.clusters.kubernetes.rules.states import service_job
from andon.clusters.kubernetes.transport import ApiTransport
from andon.errors import AndonError, Denied, Gone
from andon.jobs.clusters.notes import recent_notes
from andon.jobs.rules.polling import PAST_SECONDS
from andon.model.job.cluster import ClusterJob

KINDS: Final = ("deployment", "inferenceservice")


def service_of(transport: ApiTransport, namespace: str, name: str) -> tuple[str, BatchJob] | None:
    """Returns the path of a Deployment or InferenceService that andon made, and the object."""
    for kind in KINDS:
        path = made.path_of(kind, namespace, name)
        with suppress(Gone, Denied):
            found: BatchJob = parsed(BatchJob, transport.ask("GET", path))
            if found.metadata.label(made.JOB_LABEL):
                return path, found
    return None


def services_without_pods(
    cluster: str,
    options: made.KubernetesOptions,
    transport: ApiTransport,
    listed: Container[str | None],
) -> list[ClusterJob]:
    """Returns the services that were submitted from here and are not listed by a pod."""
    found = list[ClusterJob]()
    with suppress(AndonError):
        for note in recent_notes(time.time() - PAST_SECONDS):
            submitted = note.submission
            if note.cluster != cluster or note.id is None or submitted.label in listed:
                continue
            with suppress(AndonError):
                if made.with_job_options(options, submitted.options).kind in KINDS:
                    namespace, _, name = note.id.partition("/")
                    if (service := service_of(transport, namespace, name)) is not None:
                        found.append(service_job(service[1]))
    return found
