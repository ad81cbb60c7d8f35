"""Which test files are the most likely to notice a mutant, by the file that it is in.

Names as in tests/test_NAME.py; with a folder before them, as in tests/FOLDER/test_NAME.py. The
quick ones come first by themselves: how long each takes is measured.
"""

VERBS = (
    "finish complete_in_transaction results reap claim by_hand keep saving dedup enqueue errors "
    "lost_answers trouble cancelled robust rows_by_hand "
)
SWEEPS = "sweeps/crash sweeps/error sweeps/interleaving "
CHILD = (
    "ahead claiming_thread finisher guard holding_claims inline_worker once outcomes run_of_a_job "
    "lost_answers worker worker_troubles "
)
SUPERVISOR = (
    "beats children_apart agents crashes minutes relief replacing_children stop_and_go supervising "
    "time_to_run worker "
)
COMMANDS = "commands_heed workers_command worker_options worker stop_and_go "
ADMIN = "admin_acts admin_finds admin_lists admin_roles admin_job_page admin_job_page_inside "
MAIL_ADMIN = (
    "mail_admin_actions mail_admin_list mail_admin_lookups mail_admin_page mail_admin_permissions "
)
MAIL = "mail_delivery mail_outcomes mail_retry_schedule mail_unknown_errors mail_errors "
PRIVACY = "mail_forget mail_forget_log mail_forget_meanwhile mail_keep mail_erased_subjects "

# By the beginning of a file's path; of several that fit the longest counts.
FILES = {
    "": VERBS + SWEEPS,
    "lifecycle/suspects.py": "suspects",
    "lifecycle/": VERBS + SWEEPS + "broken_rows",
    "models/": VERBS + SWEEPS + "workers_command stop_and_go",
    "dialects/": VERBS + SWEEPS,
    "worker/reaper.py": VERBS + SWEEPS + "unknown_tables minutes clocks_of_nodes",
    "monitor/worker_list.py": "workers_command workers_admin",
    "management/": COMMANDS,
    "management/commands/_log.py": "logs commands_heed",
    "management/commands/_check.py": "examine",
    "management/commands/dbqueue.py": COMMANDS + "adopt aliases explain_job",
    "management/commands/runreaper.py": COMMANDS + "aliases minutes",
    "worker/": CHILD + SUPERVISOR,
    "worker/heartbeat.py": "beats supervising robust minutes workers_command workers_admin aliases "
    "worker stop_and_go freezes sweeps/crash",
    "worker/shared_memory.py": CHILD + "supervising",
    "worker/buffer.py": CHILD + "freezes",
    "worker/children.py": SUPERVISOR + "abandoned forks",
    "worker/claimer.py": CHILD + "suspects stop_and_go crashes broken_rows",
    "worker/agent.py": SUPERVISOR + "workers_command unknown_tables",
    "worker/agents.py": SUPERVISOR + "silent_database",
    "worker/consumer.py": CHILD + "stop_and_go abandoned term",
    "worker/stop_reasons.py": COMMANDS + "memory supervising",
    "worker/finisher.py": CHILD + "broken_rows minutes logs results locked_table unrecorded",
    "worker/outcomes.py": CHILD + "broken_rows minutes logs results",
    "worker/queue_poller.py": "ahead robust inline_worker once worker worker_troubles aliases",
    "worker/options.py": "worker_options commands_heed worker_troubles worker stop_and_go "
    "aliases checks_once",
    "worker/standalone_reaper.py": "commands_heed worker aliases minutes stop_and_go",
    "worker/recovery.py": SUPERVISOR,
    "worker/runner.py": CHILD + "freezes time_to_run results crashes",
    "worker/sacrifice.py": "suspects crashes stop_and_go",
    "worker/suspects.py": "suspects crashes",
    "worker/session.py": CHILD + "supervising autocommit pool leftovers",
    "worker/supervisor.py": SUPERVISOR + "memory workers_command unknown_tables",
    "mail/": MAIL,
    "mail/backends.py": "mail_backend mail_loop mail_report_each_attempt mail_other_servers",
    "mail/backoff.py": "mail_retry_schedule mail_errors mail_checks",
    "mail/conf.py": "mail_retry_schedule mail_checks mail_errors",
    "mail/in_doubt.py": "mail_in_doubt mail_admin_actions",
    "mail/late_events.py": "mail_early_news mail_news_meanwhile",
    "mail/limits.py": "mail_limits mail_large_messages mail_line mail_dry_run",
    "mail/models/mailer.py": "mail_limits mail_line mail_pause_reason mail_which_mailer "
    "mail_large_messages mail_lately",
    "mail/models/suppression.py": "mail_suppressed_spellings mail_lately mail_tracking "
    "mail_admin_mailers mail_odd_addresses",
    "mail/addresses.py": "mail_suppressed_spellings mail_allowed mail_forget mail_odd_addresses",
    "mail/message_ids.py": "mail_message_id_refused mail_backend mail_fidelity",
    "mail/outcomes.py": "mail_errors mail_mailbox_full mail_unknown_errors mail_outcomes",
    "mail/privacy/": PRIVACY,
    "mail/resend.py": "mail_resend mail_retry_and_resend",
    "mail/sending/": MAIL + "mail_in_doubt mail_slow_answer mail_limits",
    "mail/sending/envelope.py": "mail_allowed mail_staging mail_suppressed_spellings "
    "mail_odd_addresses mail_resend mail_anymail",
    "mail/sending/connections.py": "mail_connections mail_idle_connections mail_goodbye "
    "mail_silent_mailer mail_answers_on_the_way mail_hung_up mail_reconnect mail_delivery",
    "mail/sending/delivery.py": MAIL
    + "mail_answers_on_the_way mail_hung_up mail_in_doubt mail_slow_answer mail_anymail",
    "mail/storing/": "mail_attributes mail_codec mail_stored_again mail_stored_parts mail_refusals "
    "mail_refused_texts mail_template mail_fidelity mail_backend mail_wishes",
    "mail/tracking.py": "mail_tracking mail_early_news mail_news_meanwhile",
    "mail/admin/": MAIL_ADMIN + "admin_keeps_back",
    "admin/": ADMIN,
    "admin/confirmation.py": ADMIN + MAIL_ADMIN,
    "admin/export.py": "admin_export admin_roles",
    "admin/masking.py": "admin_keeps_back admin_job_page admin_job_page_inside admin_export",
    "admin/pause.py": "pause admin_roles",
    "admin/queues.py": "pause overview admin_roles",
    "admin/workers.py": "workers_admin admin_roles",
}


def files_for(mutant):
    """The paths of the test files that are tried with a mutant, each once."""
    fitting = [start for start in FILES if mutant.file.startswith(start)]
    names = FILES[max(fitting, key=len)].split()
    return list(dict.fromkeys([*mutant.tests, *map(path_of, names)]))


def path_of(name):
    folder, _, last = name.rpartition("/")
    return "/".join(filter(None, ["tests", folder, f"test_{last}.py"]))
