"""Which scenarios are played by which gate.

All of them by the manifest. Those of the modules below by the other gates too, but for
the ones that are about how the manifest comes to its decision: each with its reason.
What the other gates do in their place stands in `test_verify` and `test_poll`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.world import BUCKET

ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "manifest": {},
    "verify": {"GATE": "verify", "SOURCE_BUCKET": BUCKET},
    "poll": {
        "GATE": "poll",
        "SOURCE_BUCKET": BUCKET,
        "TASK_QUEUE": "projects/p/locations/l/queues/gate",
        "WORK_URL": "https://work.example",
        "TASK_SERVICE_ACCOUNT": "tasks@p.iam.gserviceaccount.com",
    },
}

MODULES = (
    "test_delivery",
    "test_failures",
    "test_held",
    "test_names",
    "test_overwrites",
    "test_ownership",
    "test_publishing",
    "test_readiness",
    "test_reads",
    "test_reconcile",
    "test_redrive",
    "test_rejects",
    "test_stopping",
    "test_sweep",
)

# Reason → tests.
MANIFEST_ONLY: Mapping[str, tuple[str, ...]] = {
    "an event that completes nothing is recorded, and is not by the other gates": (
        "test_a_crash_before_commit_leaves_it_to_the_redelivery",
        "test_a_duplicate_changes_nothing",
        "test_a_store_that_fails_throughout_is_a_quiet_nack",
        "test_decoys_never_complete_a_bundle",
        "test_normal_form_twins_are_two_objects_of_one_bundle",
        "test_nothing_is_proven_for_an_event_that_runs_no_job",
        "test_spellings_of_one_stem_meet_and_folders_do_not",
        "test_the_event_id_is_never_a_key",
        "test_the_same_version_under_two_event_ids_is_a_duplicate",
        "test_the_worst_order_waits_three_times_and_dispatches_once",
        "test_twenty_duplicates_at_once_record_one_component",
        "test_two_consumers_each_process_once",
        "test_waiting_events_write_once_and_duplicates_read_too",
    ),
    "the event of another file than the .shp leads to what is shown": (
        "test_a_deleted_sidecar_is_left_out",
        "test_a_duplicate_of_a_settling_bundle_is_acknowledged",
        "test_a_join_of_two_dispatches_is_left_to_nobody",
        "test_a_late_event_of_what_was_found_is_a_duplicate",
        "test_a_late_sidecar_makes_a_new_revision",
        "test_a_manifest_with_something_pending_does_not_expire",
        "test_a_new_component_takes_the_expiry_of_its_manifest_away",
        "test_a_process_that_is_not_ready_begins_no_job",
        "test_a_process_that_is_not_ready_takes_no_job_over",
        "test_a_re_upload_gives_one_job_of_new_parts_only",
        "test_a_re_upload_that_the_listing_shows_is_not_torn",
        "test_a_settled_bundle_is_dispatched_by_one_of_two_sweeps",
        "test_a_sidecar_in_the_bucket_is_taken_along_before_its_event",
        "test_an_event_of_another_component_leaves_a_held_job_alone",
        "test_an_overwrite_of_one_file_before_the_run_comes_after_settling",
        "test_an_overwritten_object_makes_a_redrive_needless_and_is_not_lost",
        "test_an_upload_during_the_look_is_not_forgotten",
        "test_each_upload_starts_the_rest_again",
        "test_mixed_spellings_dispatched_at_once_still_converge",
        "test_of_events_that_read_a_whole_bundle_the_last_recorded_dispatches",
        "test_one_replaced_file_is_taken_once_the_uploads_have_rested",
        "test_one_replaced_file_that_does_not_fit_is_a_dead_letter",
        "test_two_events_that_see_a_bundle_whole_make_one_job",
        "test_what_a_pass_writes_about_an_expiry_meets_no_event",
    ),
    "the sweep finds a bundle that waits by its manifest, and the others keep none": (
        "test_a_bundle_that_is_never_whole_ends_as_a_dead_letter",
        "test_a_bundle_that_was_taken_back_is_dropped_quietly",
        "test_a_file_that_comes_in_time_keeps_the_alert_away",
        "test_a_job_that_kills_every_worker_ends_as_a_dead_letter",
        "test_a_letter_of_an_incomplete_bundle_is_sent_until_it_is",
        "test_a_listing_takes_nothing_from_bundles_beside",
        "test_a_stalled_bundle_is_told_of_once_and_says_what_is_missing",
        "test_an_object_that_was_overwritten_unheard_is_taken_at_its_newest",
        "test_an_overwritten_pin_whose_event_is_lost_is_taken_after_it_rested",
        "test_an_upload_after_the_alert_starts_the_time_anew",
        "test_another_spelling_is_found_by_the_pass_over_the_bucket",
        "test_looks_at_a_waiting_bundle_become_rarer",
        "test_of_two_sweeps_at_once_one_gives_a_bundle_up",
        "test_one_lost_event_costs_nothing_but_time",
        "test_what_a_killed_sweep_recorded_is_dispatched_by_the_next",
    ),
    "a listing that fails, or counted calls: the other gates list before they record": (
        "test_a_listing_that_fails_does_not_hold_a_dispatch_up",
        "test_a_store_that_lost_everything_does_not_go_back",
        "test_an_override_revives_a_held_job",
        "test_refused_deliveries_change_nothing",
    ),
    "a deployment that does not name its bucket, so that no sweep goes through it": (
        "test_a_fault_at_one_manifest_is_none_of_the_others",
        "test_a_manifest_that_is_collected_during_its_look_stays_gone",
        "test_a_sink_over_the_whole_source_is_refused",
        "test_a_sweep_that_could_do_nothing_says_so",
        "test_output_in_the_source_bucket_starts_nothing",
    ),
}

# The same, of those that hold by `GATE=verify`.
NOT_BY_POLL: Mapping[str, tuple[str, ...]] = {
    "the worker's place is taken by the event that dispatched; here a look did, for no event": (
        "test_a_late_swap_counts_once",
        "test_a_superseded_worker_that_was_replaced_writes_nothing",
        "test_a_worker_stops_within_one_batch_of_being_replaced",
        "test_a_zombie_cannot_complete",
        "test_a_zombie_cannot_fail_the_new_holder",
        "test_a_zombie_swap_after_the_new_holder_changes_nothing",
    ),
    "an event of an older generation, or of none, leads; a look takes the newest that it lists": (
        "test_a_generation_that_never_was_has_replaced_nothing",
        "test_a_newer_revision_goes_before_a_held_one",
        "test_a_newer_revision_that_is_not_yet_published_supersedes_too",
        "test_an_object_that_was_replaced_meanwhile_supersedes_a_held_job",
        "test_an_older_generation_changes_nothing",
    ),
    "the time is told to the second, and other looks are taken in it": (
        "test_a_manifest_that_is_gone_needs_no_note",
        "test_a_manifest_that_the_sweep_has_not_seen_does_not_expire",
        "test_a_manifest_with_nothing_pending_may_expire",
        "test_unsent_letters_keep_no_job_waiting",
    ),
}


def gates_of(test: str) -> tuple[str, ...]:
    """Return the gates by which a test of one of the modules is played."""
    if any(test in tests for tests in MANIFEST_ONLY.values()):
        return ("manifest",)
    if any(test in tests for tests in NOT_BY_POLL.values()):
        return ("manifest", "verify")
    return tuple(ENVIRONMENTS)
