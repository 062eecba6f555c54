"""Which scenarios are played by which gate.

All of them by the manifest. Those of the modules below by the other gates too, but for
the ones that are about how the manifest comes to its decision: each with its reason.
What the other gates do in their place stands in `test_verify` and `test_poll`.
By the manifest they are played a second time, as `tasks`: with jobs given to tasks.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.world import BUCKET

TASKS = {
    "TASK_QUEUE": "projects/p/locations/l/queues/gate",
    "WORK_URL": "https://work.example",
    "TASK_SERVICE_ACCOUNT": "tasks@p.iam.gserviceaccount.com",
}
ENVIRONMENTS: Mapping[str, Mapping[str, str]] = {
    "manifest": {},
    "tasks": {**TASKS, "EXECUTOR": "tasks"},
    "verify": {"GATE": "verify", "SOURCE_BUCKET": BUCKET},
    "poll": {
        "GATE": "poll",
        "SOURCE_BUCKET": BUCKET,
        **TASKS,
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


# The same, of those that do not hold word for word where jobs are given to tasks, each
# called as soon as it is due. What happens in their place stands in `test_tasks`.
NOT_BY_TASKS: Mapping[str, tuple[str, ...]] = {
    "the event is answered once its job is queued, and says nothing of how the job ends": (
        "test_a_bundle_that_never_fits_the_time_ends_as_a_dead_letter",
        "test_a_busy_service_is_tried_again",
        "test_a_call_that_outlasts_its_lease_gets_a_longer_one",
        "test_a_crash_after_dispatch_is_finished_once_the_lease_has_expired",
        "test_a_crash_between_claim_and_dispatch_is_finished_by_the_duplicate",
        "test_a_crashed_holder_is_replaced_after_its_lease",
        "test_a_fault_under_the_reader_fails_the_attempt_alone",
        "test_a_handler_that_goes_on_after_its_timeout_harms_nobody",
        "test_a_heartbeat_keeps_the_lease",
        "test_a_job_that_ends_under_a_duplicates_eyes_is_a_duplicate",
        "test_a_job_that_is_made_again_does_not_repeat_a_fence",
        "test_a_job_that_vanished_is_not_completed",
        "test_a_job_whose_worker_died_is_taken_over_once_its_lease_has_run_out",
        "test_a_late_swap_counts_once",
        "test_a_letter_that_was_due_and_whose_job_is_gone_is_no_crash",
        "test_a_letter_whose_job_has_moved_on_is_no_crash",
        "test_a_lost_answer_at_dispatch_is_believed_by_its_token",
        "test_a_lost_answer_at_take_over_counts_once",
        "test_a_newer_revision_that_is_not_yet_published_supersedes_too",
        "test_a_passing_fault_is_tried_again_after_its_pause",
        "test_a_process_that_is_stopping_begins_nothing",
        "test_a_revived_job_has_all_its_attempts",
        "test_a_running_job_sends_its_event_back",
        "test_a_shutdown_after_the_swap_costs_no_second_run",
        "test_a_shutdown_between_batches_gives_the_job_back",
        "test_a_shutdown_between_layers_repeats_none",
        "test_a_shutdown_during_one_long_call_frees_the_job_meanwhile",
        "test_a_store_out_of_reach_for_two_leases_ends_the_run",
        "test_a_storm_in_the_store_uses_up_no_attempt",
        "test_a_superseded_worker_that_was_replaced_writes_nothing",
        "test_a_timeout_raised_into_the_work_is_tried_again",
        "test_a_truncated_download_is_tried_again",
        "test_a_worker_from_before_the_redrive_stays_out",
        "test_a_worker_killed_after_its_last_publish_is_found_done",
        "test_a_worker_killed_before_its_letter_is_not_forgotten",
        "test_a_worker_killed_every_time_ends_without_running_again",
        "test_a_worker_stops_within_one_batch_of_being_replaced",
        "test_a_worker_that_dies_while_it_looks_again_is_replaced",
        "test_a_zombie_cannot_complete",
        "test_a_zombie_cannot_fail_the_new_holder",
        "test_an_archive_that_needs_several_deliveries_gets_them",
        "test_an_object_that_seems_gone_for_a_moment_is_tried_again",
        "test_bytes_are_proven_by_crc32c_alone",
        "test_shutdowns_use_up_no_attempts",
        "test_slow_downloads_keep_the_lease",
        "test_two_workers_claim_one_job",
        "test_without_the_store_nothing_is_published",
    ),
    "a state, an outcome or a fence more: the job is queued before its first claim": (
        "test_a_late_completion_counts_if_nobody_took_over",
        "test_a_newer_revision_is_met_during_one_long_call",
        "test_age_never_matters",
        "test_an_archive_is_whole_on_arrival",
        "test_an_override_that_does_not_help_is_told_once",
        "test_only_finished_jobs_may_expire",
        "test_the_sink_is_given_the_table_and_the_report",
        "test_twenty_duplicates_at_once_start_one_job",
    ),
    "the sweep itself runs what is due, or sends the letter": (
        "test_a_failed_job_waits_for_its_pause",
        "test_a_letter_that_could_not_be_sent_is_sent_by_the_sweep",
        "test_a_sweep_ends_when_its_time_is_over",
        "test_a_sweep_runs_no_more_jobs_than_it_may_and_the_oldest_first",
        "test_a_worker_that_died_before_its_letter_has_it_sent",
        "test_jobs_that_keep_failing_starve_nobody",
        "test_of_two_sweeps_at_once_one_sends_a_letter",
        "test_of_two_sweeps_at_once_one_takes_a_job",
        "test_unsent_letters_keep_no_job_waiting",
    ),
}


def gates_of(test: str) -> tuple[str, ...]:
    """Return the gates by which a test of one of the modules is played, tasks among them."""
    if _is_among(test, MANIFEST_ONLY):
        return ("manifest",)
    left_out = {
        *(("poll",) if _is_among(test, NOT_BY_POLL) else ()),
        *(("tasks",) if _is_among(test, NOT_BY_TASKS) else ()),
    }
    return tuple(gate for gate in ENVIRONMENTS if gate not in left_out)


def _is_among(test: str, listed: Mapping[str, tuple[str, ...]]) -> bool:
    return any(test in tests for tests in listed.values())
