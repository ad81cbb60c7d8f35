"""Which test files are the most likely to notice a mutant, by the file that it is in.

Names as in tests/FOLDER/test_NAME.py. The quick ones come first by themselves: how long each takes
is measured.
"""

VERBS = (
    "lifecycle/holder lifecycle/complete_in_transaction lifecycle/results lifecycle/reap "
    "lifecycle/claim lifecycle/operator lifecycle/archive models/saving lifecycle/dedup "
    "lifecycle/enqueue lifecycle/errors lifecycle/lost_answers dialects/errors_of_databases "
    "lifecycle/cancelled lifecycle/robust lifecycle/rows_by_hand "
    "lifecycle/enqueue_again lifecycle/late_sight models/dedup_constraint lifecycle/failed_rows "
    "lifecycle/moving "
)
SWEEPS = "sweeps/crash sweeps/error sweeps/interleaving "
CHILD = (
    "worker/ahead worker/claiming_thread worker/finisher worker/guard worker/holding_claims "
    "testing/inline_worker models/exactly_once worker/outcomes worker/run_of_a_job "
    "lifecycle/lost_answers worker/own_ends worker/worker worker/troubles "
)
SUPERVISOR = (
    "worker/heartbeat worker/children_apart worker/agents worker/crashes metrics/recorder "
    "worker/recovery worker/replacing_children worker/stop_and_go worker/supervising "
    "worker/time_to_run worker/worker "
)
GROWING = [
    f"worker/{name}.py"
    for name in ("pool", "scaling", "measuring", "shares", "balancer", "assignment", "run_times")
]
COMMANDS = (
    "management/commands_heed monitor/workers_command worker/options worker/worker "
    "worker/stop_and_go "
)
ADMIN = "admin/acts admin/finds admin/lists admin/roles admin/job_page admin/job_page_inside "
MAIL_ADMIN = (
    "mail/admin_actions mail/admin_list mail/admin_lookups mail/admin_page mail/admin_permissions "
    "mail/admin_search "
)
MAIL = "mail/delivery mail/outcomes mail/retry_schedule mail/unknown_errors mail/errors "
SCHEDULES = (
    "schedules/timing schedules/policies schedules/broken schedules/pauses schedules/declared "
    "schedules/clock_set_back schedules/rows_by_hand schedules/databases schedules/locks "
    "schedules/hanging schedules/after_commit schedules/overlaps "
    "schedules/asked_in_vain schedules/deleting schedules/tasks schedules/queued_tasks "
    "schedules/command schedules/cost schedules/exactly_once schedules/scheduler schedules/admin"
)
PRIVACY = (
    "mail/forget mail/forget_log mail/forget_meanwhile mail/keep mail/erased_subjects "
    "mail/recipients "
)

# By the beginning of a file's path; of several that fit the longest counts.
FILES = {
    "": VERBS + SWEEPS,
    "lifecycle/suspects.py": "worker/suspects",
    "lifecycle/": VERBS + SWEEPS + "lifecycle/broken_rows",
    "models/": VERBS + SWEEPS + "monitor/workers_command worker/stop_and_go",
    "dialects/": VERBS + SWEEPS,
    "worker/reaper.py": VERBS
    + SWEEPS
    + "worker/unknown_tables metrics/recorder worker/clocks_of_nodes",
    "worker/beat_monitor.py": VERBS + "worker/unknown_tables worker/clocks_of_nodes",
    "worker/joint_look.py": "worker/many_tables",
    "lifecycle/many_tables.py": "worker/many_tables lifecycle/low_instants",
    "monitor/worker_list.py": "monitor/workers_command admin/workers management/restart",
    "monitor/worker_requests.py": "monitor/workers_command admin/workers management/restart",
    "monitor/web.py": "admin/languages monitor/web",
    "operate/recording.py": "admin/languages admin/activity",
    "texts/": "admin/languages project/translations",
    "monitor/thresholds.py": "management/monitor",
    "schedules/": SCHEDULES,
    "operate/": "management/acts management/prune management/pause admin/acts",
    "operate/cursor.py": ADMIN,
    "operate/keyset.py": ADMIN,
    "operate/conditions.py": ADMIN,
    "operate/orders.py": ADMIN + "admin/times",
    "lifecycle/versions.py": "lifecycle/versions worker/rolling_deploy",
    "management/": "management/acts management/prune " + COMMANDS,
    "management/commands/_log.py": "worker/logs management/commands_heed",
    "management/commands/dbqueue.py": COMMANDS
    + "admin/languages "
    + "adopt/adopt models/aliases diagnose/explain diagnose/check",
    "management/commands/runreaper.py": COMMANDS + "models/aliases metrics/recorder",
    "worker/": CHILD + SUPERVISOR,
    "worker/heartbeat.py": (
        "worker/heartbeat worker/supervising lifecycle/robust metrics/recorder "
        "monitor/workers_command admin/workers models/aliases worker/worker worker/stop_and_go "
        "worker/freezes sweeps/crash"
    ),
    "worker/shared_memory.py": CHILD + "worker/supervising",
    "worker/buffer.py": CHILD + "worker/freezes",
    "worker/child.py": SUPERVISOR + "worker/abandoned worker/forks",
    "worker/children.py": SUPERVISOR + "worker/sized_children worker/abandoned worker/forks",
    **dict.fromkeys(
        GROWING,
        "worker/scaling_decisions worker/shares worker/measuring "
        "worker/sized_children worker/assignments worker/growing",
    ),
    "worker/claimer.py": CHILD
    + "worker/assignments worker/suspects worker/stop_and_go worker/crashes lifecycle/broken_rows",
    "worker/channel.py": SUPERVISOR + "worker/coroutines",
    "worker/claimers.py": CHILD + "worker/holding_claims worker/coroutines",
    "worker/coroutine": "worker/coroutines integrations/tracing",
    "worker/event_loop.py": "worker/coroutines",
    "worker/agent.py": SUPERVISOR + "monitor/workers_command worker/unknown_tables worker/logs",
    "worker/agents.py": SUPERVISOR + "worker/silent_database",
    "worker/consumer.py": CHILD
    + "worker/stop_and_go worker/abandoned worker/term worker/interpreter",
    "worker/finisher.py": CHILD
    + (
        "lifecycle/broken_rows metrics/recorder worker/logs lifecycle/results "
        "worker/locked_table worker/unrecorded"
    ),
    "worker/write_outcomes.py": CHILD
    + (
        "lifecycle/broken_rows metrics/recorder worker/logs lifecycle/results "
        "worker/locked_table worker/unrecorded"
    ),
    "worker/queue_poller.py": (
        "worker/ahead worker/assignments lifecycle/robust testing/inline_worker "
        "models/exactly_once worker/worker worker/troubles models/aliases"
    ),
    "conf/": "checks/settings worker/options worker/scaling_options management/commands_heed",
    "worker/options.py": (
        "worker/options worker/scaling_options management/commands_heed worker/memory "
        "worker/supervising "
        "monitor/workers_command worker/troubles worker/worker worker/stop_and_go"
    ),
    "worker/served.py": (
        "worker/options management/commands_heed worker/troubles worker/worker "
        "worker/stop_and_go models/aliases checks/exactly_once"
    ),
    "worker/standalone_reaper.py": (
        "management/commands_heed worker/worker models/aliases metrics/recorder worker/stop_and_go"
    ),
    "worker/runner.py": CHILD
    + "worker/freezes worker/time_to_run lifecycle/results worker/crashes",
    "worker/sacrifice.py": "worker/suspects worker/crashes worker/stop_and_go worker/supervising",
    "worker/suspects.py": "worker/suspects worker/crashes",
    "worker/session.py": CHILD + "worker/supervising dialects/autocommit worker/pool",
    "worker/connections.py": CHILD
    + "worker/outages_connections dialects/autocommit worker/leftovers",
    "worker/supervisor.py": SUPERVISOR
    + "worker/memory monitor/workers_command worker/unknown_tables",
    "mail/": MAIL,
    "mail/backends.py": "mail/backend mail/loop mail/report_each_attempt mail/other_servers",
    "mail/backoff.py": "mail/retry_schedule mail/errors mail/checks",
    "mail/conf.py": "mail/retry_schedule mail/checks mail/errors",
    "mail/in_doubt.py": "mail/in_doubt mail/admin_actions",
    "mail/limiter.py": "mail/limits mail/lanes mail/which_mailer mail/dry_run",
    "lifecycle/rates.py": "lifecycle/rates mail/large_messages mail/limits worker/rates",
    "mail/models/mailer.py": (
        "mail/limits mail/lanes mail/pause_reason mail/which_mailer mail/large_messages mail/lately"
    ),
    "mail/models/suppression.py": (
        "mail/suppressed_spellings mail/lately mail/tracking mail/admin_mailers mail/odd_addresses"
    ),
    "mail/deliveries.py": "mail/suppressed_spellings mail/allowed mail/forget mail/odd_addresses",
    "mail/headers.py": "mail/message_id_refused mail/wishes mail/backend mail/fidelity",
    "mail/outcomes.py": "mail/errors mail/mailbox_full mail/unknown_errors mail/outcomes",
    "mail/privacy/": PRIVACY,
    "mail/models/recipient.py": "mail/recipients",
    "lifecycle/side_rows.py": "mail/recipients lifecycle/archive",
    "mail/models/email.py": "mail/resend mail/retry_and_resend mail/wishes mail/backend",
    "mail/sending/": MAIL + "mail/in_doubt mail/slow_answer mail/limits",
    "mail/sending/envelope.py": (
        "mail/allowed mail/staging mail/suppressed_spellings mail/odd_addresses mail/resend "
        "mail/anymail mail/redirecting_mailer"
    ),
    "mail/sending/connections.py": (
        "mail/connections mail/idle_connections mail/goodbye mail/silent_mailer "
        "mail/answers_on_the_way mail/hung_up mail/reconnect mail/delivery "
        "mail/in_doubt mail/slow_answer mail/slow_line"
    ),
    "mail/sending/send.py": MAIL
    + (
        "mail/answers_on_the_way mail/hung_up mail/in_doubt mail/slow_answer mail/anymail "
        "mail/limits mail/too_many_recipients mail/raising_mailer"
    ),
    "mail/storing/": (
        "mail/attributes mail/codec mail/stored_again mail/stored_parts mail/refusals "
        "mail/refused_texts mail/template mail/fidelity mail/backend mail/wishes"
    ),
    "mail/tracking.py": "mail/tracking mail/early_news mail/news_meanwhile",
    "mail/admin/": MAIL_ADMIN + "admin/keeps_back mail/in_doubt",
    "admin/": ADMIN,
    "admin/times.py": "admin/times",
    "admin/changelist.py": ADMIN + "admin/times",
    "admin/confirmation.py": ADMIN + MAIL_ADMIN,
    "admin/export.py": "admin/export admin/roles",
    "admin/masking.py": "admin/keeps_back admin/job_page admin/job_page_inside admin/export",
    "admin/pause.py": "admin/pause admin/roles",
    "admin/queues.py": "admin/pause monitor/overview admin/roles",
    "admin/workers.py": "admin/workers admin/roles",
}


def files_for(mutant):
    """The paths of the test files that are tried with a mutant, each once."""
    fitting = [start for start in FILES if mutant.file.startswith(start)]
    names = FILES[max(fitting, key=len)].split()
    return list(dict.fromkeys([*mutant.tests, *map(path_of, names)]))


def path_of(name):
    folder, _, last = name.rpartition("/")
    return f"tests/{folder}/test_{last}.py"
