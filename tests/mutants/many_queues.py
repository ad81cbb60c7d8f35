"""Mutants of claims from several queues at once."""

JOINT, POLLER, ORDER = (
    "worker/joint_claim.py",
    "worker/queue_poller.py",
    "worker/ordered_queues.py",
)
SEVERAL, CLAIM = "dialects/several_queues.py", "lifecycle/claim.py"
TESTS = {"tests": ("tests/worker/test_many_queues.py",)}
PASSED = {"tests": ("tests/worker/test_queues_passed_over.py",)}
OF_CLAIM = {"tests": ("tests/lifecycle/test_claim_of_several.py",)}

MUTANTS = [
    (
        "worker/claimer.py",
        'self._filled_at, self._quiet_since = time.monotonic(), float("inf")',
        "self._filled_at = time.monotonic()",
        "a worker stops as empty though its last job has enqueued another one",
        TESTS,
    ),
    (
        "worker/claimer.py",
        ' == float("inf") and not self.scheduler.knows_some:',
        ' == float("inf"):',
        "all queues are looked at again before each claim",
        TESTS,
    ),
    (
        JOINT,
        "self.queues = min(2 * self.queues, QUEUES_MAX)",
        "self.queues = 1",
        "each of many short queues takes a claim of its own",
        TESTS,
    ),
    (
        JOINT,
        "self.queues = last + 1",
        "self.queues = QUEUES_MAX",
        "a queue that fills claims is claimed from with others",
        TESTS,
    ),
    (
        JOINT,
        "        return [] if lost_some else asked[:last]\n",
        "        return asked\n",
        "a long queue among short ones has to be found again after each part of a batch",
        TESTS,
    ),
    (ORDER, "len(ranks) == 1 and ", "", "a claim takes from queues of a later rank, too", TESTS),
    (
        POLLER,
        " or poller.limiter or",
        " or",
        "queues of a table that has rates are claimed from together",
        TESTS,
    ),
    (
        "worker/claimer.py",
        "lost_some = table.dialect.lost_some",
        "lost_some = False",
        "after each conflict with others a worker looks at all queues",
        {**PASSED, "database": "mariadb"},
    ),
    (
        "dialects/mysql.py",
        "self.lost_some = start > 0",
        "self.lost_some = False",
        "queues that a claim has passed over for others are taken for empty",
        {**PASSED, "database": "mariadb"},
    ),
    (
        POLLER,
        "            limit -= len(jobs)\n",
        "",
        "what a joint claim has left of its last queue is not seen for seconds",
        TESTS,
    ),
    (
        JOINT,
        "    return [first], {",
        "    return queues, {",
        "a row that cannot be written has queues of other rows left out",
        PASSED,
    ),
    (JOINT, " or table.takes_batches)", ")", "a batch is run that is of several queues", TESTS),
    (
        SEVERAL,
        'f"ORDER BY priority, {claim.pk} LIMIT %s{end}"',
        'f"ORDER BY {claim.pk} LIMIT %s{end}"',
        "priorities are not heeded where several queues are claimed from",
        OF_CLAIM,
    ),
    (
        CLAIM,
        "_built(table, replace(request, queue=queue), of_one)",
        "_built(table, request, of_one)",
        "a job that came with others says that it is of another queue",
        OF_CLAIM,
    ),
]
