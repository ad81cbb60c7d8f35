"""Mutants of claims from several queues at once."""

JOINT, POLLER, ORDER = (
    "worker/joint_claim.py",
    "worker/queue_poller.py",
    "worker/ordered_queues.py",
)
SEVERAL, CLAIM = "dialects/several_queues.py", "lifecycle/claim.py"
TESTS = {"tests": ("tests/worker/test_many_queues.py",)}
OF_CLAIM = {"tests": ("tests/lifecycle/test_claim_of_several.py",)}

MUTANTS = [
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
        "        return asked[:last]\n",
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
        "is_cut = is_full or table.dialect.lost_some",
        "is_cut = is_full",
        "after each conflict with others a worker looks at all queues",
        {**TESTS, "database": "mariadb"},
    ),
    (JOINT, "table.takes_batches or ", "", "a batch is run that is of several queues", TESTS),
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
