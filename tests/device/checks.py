"""All checks by name: idle and under load, once only, and under load only."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from tests.device import (
    contract,
    estimates,
    events,
    probing,
    recording,
    second_opinion,
    sharing,
    surfaces,
    traffic,
    training,
    working,
)
from tests.device.scenes import Scene


class Check(Struct, frozen=True):
    """One check; `run` raises AssertionError or Skipped, and returns what it found."""

    name: str
    run: Callable[[Scene], str]


def _check(run: Callable[[Scene], str]) -> Check:
    return Check(run.__name__.replace("_", " "), run)


ALWAYS = tuple(
    map(
        _check,
        (
            contract.the_first_snapshot_is_complete,
            contract.every_device_is_named_once,
            contract.every_unknown_value_has_a_reason,
            contract.values_lie_in_their_ranges,
            contract.older_values_tell_when_they_were_read,
            contract.a_snapshot_survives_json,
            contract.the_same_facts_are_told_twice,
            contract.samples_follow_the_clock,
            traffic.traffic_is_known_from_the_second_reading_on,
        ),
    )
) + tuple(
    Check(f"{one.name} as nvidia-smi says", one.check) for one in second_opinion.COMPARISONS
)  # fmt: skip

PROCESSES = _check(second_opinion.the_processes_are_those_of_nvidia_smi)

ONCE = tuple(
    map(
        _check,
        (
            surfaces.status_answers_and_leaves_with_zero,
            surfaces.top_shows_the_device_and_ends_by_a_key,
            surfaces.watch_writes_lines_that_parse,
            surfaces.a_mask_by_uuid_shows_what_is_visible,
            surfaces.a_forked_child_asks_for_itself_and_the_parent_goes_on,
            surfaces.a_session_that_was_stopped_is_nobodys_latest,
            surfaces.closing_twice_is_fine_and_it_opens_again,
            traffic.the_counters_answer_without_sleeping,
            traffic.what_is_copied_to_the_device_is_received,
            sharing.run_adds_little_to_a_command,
            sharing.a_run_has_the_device_for_itself_and_its_memory_is_the_leases,
            sharing.a_process_without_a_lease_is_named_in_the_refusal,
            sharing.the_network_lends_renews_and_takes_back,
            recording.a_training_loop_is_recorded_alike_by_command_program_and_callback,
            training.the_frameworks_callbacks_agree_with_the_counter_and_with_torch,
            working.a_map_keeps_what_its_workers_have_loaded,
            working.a_job_that_ran_out_of_memory_is_tried_again_and_says_so,
            working.kill_ends_a_process_on_the_device,
            recording.a_starved_loader_is_told_and_a_busy_loop_is_not,
            estimates.an_estimate_agrees_with_what_pytorch_allocates,
            probing.the_links_of_the_devices_are_told,
            probing.the_batch_that_was_found_runs_and_a_third_more_does_not,
            events.an_xid_on_purpose_is_heard_with_its_device,
        ),
    )
)

LOADED = tuple(
    map(
        _check,
        (
            surfaces.activity_is_there_after_two_watched_ticks,
            surfaces.the_load_is_among_the_processes,
        ),
    )
)

SESSIONS = _check(surfaces.two_sessions_overlap_and_both_sum_up)


def checks(scene: Scene) -> Iterator[Check]:
    """The checks for this scene."""
    yield from ALWAYS
    yield PROCESSES
    yield SESSIONS
    yield from LOADED if scene.busy else ONCE
