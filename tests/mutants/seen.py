"""Mutants of what operators and other systems are shown."""

from tests.mutants.mutant import noticed_by

MANY, SENTRY, ADDITIONS = (
    "monitor/many_queues.py",
    "integrations/sentry.py",
    "metrics/additions.py",
)

QUEUES = [
    (
        MANY,
        "age / (late_after(model, name) or 1)",
        "age",
        "one of many queues that is late by its own measure is not shown",
    ),
    (
        MANY,
        "[*sorted(asked_for), *late[:LATE_MAX], *sorted(served)]",
        "[*late[:LATE_MAX], *sorted(served)]",
        "one of many queues that is asked for is not shown",
    ),
    (
        MANY,
        "[*sorted(asked_for), *late[:LATE_MAX], *sorted(served)]",
        "[*sorted(asked_for), *sorted(served)]",
        "one that is late is pushed out by those that workers name",
    ),
    (
        MANY,
        "values[0][one] > 1 and not self._is_paused(one)",
        "values[0][one] > 1",
        "what is paused pushes out what is late",
    ),
    (
        MANY,
        "due=sum(jobs for name, jobs in self.due.items() if name in rest),",
        "due=0,",
        "due jobs of queues that are not shown are told of nowhere",
    ),
]
TARGETS = [
    (
        "monitor/overview.py",
        "        one.late_after = late_after(served.model, one.queue)\n",
        "",
        "no job is ever late",
    ),
    (
        "lifecycle/limits.py",
        'conf["LATE_AFTER"] if seconds is None else seconds',
        'conf["LATE_AFTER"]',
        "a queue's own measure of what is late is ignored",
    ),
]
TIMELINE = [
    (
        "admin/timeline.py",
        "        _end(one) or started,\n",
        "        started,\n",
        "an attempt is said to have failed when it began",
    ),
]
VERDICT = [
    (
        "monitor/verdict.py",
        "others = len(names) - NAMED_MAX",
        "others = 0",
        "two of many exceptions are named as if there were no others",
    ),
]
TRACES = [
    (
        SENTRY,
        "headers = read(first) if len(jobs) == 1 else {}",
        "headers: dict[str, str] = {}",
        "a run is not in the trace of its request",
    ),
    (
        SENTRY,
        "return SPANSTATUS.OK if is_well else SPANSTATUS.INTERNAL_ERROR",
        "return SPANSTATUS.OK",
        "an attempt that failed is no event",
    ),
    (
        SENTRY,
        ' and not conf["TRACING"]',
        "",
        "Sentry makes spans next to OpenTelemetry's",
    ),
    (
        SENTRY,
        "or not integration.traces or",
        "or",
        "traces of jobs cannot be switched off",
    ),
    (
        "integrations/trace_column.py",
        "    if carrier:\n        what",
        "    if True:\n        what",
        "where nothing is traced, a context of the caller's own is lost",
    ),
]
WINDOWS = [
    (
        "operate/keyset.py",
        "self.order.up_to(of_keys(self.queryset, keys), end, backwards), end",
        "self.order.up_to(rows, end, backwards), end",
        "a list of ready jobs reads all that are ready",
    ),
]
ON_POSTGRESQL = [
    (
        "dialects/postgresql.py",
        "    bounds_rows = False\n",
        "",
        "a list of ready jobs reads the whole table",
        {"database": "postgresql", "tests": ("tests/admin/test_reads.py",)},
    ),
]
COUNTED_ONCE = [
    (
        ADDITIONS,
        "        if self.mark in marks:\n            return True\n",
        "",
        "what had arrived is added once more",
    ),
    (
        ADDITIONS,
        "return False if is_whole else None",
        "return False",
        "what may have arrived is added once more",
    ),
]

MUTANTS = [
    *noticed_by("monitor/many_queues", QUEUES),
    *noticed_by("monitor/alerts", TARGETS),
    *noticed_by("admin/job_page", TIMELINE),
    *noticed_by("monitor/glance", VERDICT),
    *noticed_by("integrations/sentry", TRACES),
    *noticed_by("admin/reads", WINDOWS),
    *ON_POSTGRESQL,
    *noticed_by("metrics/additions", COUNTED_ONCE),
]
