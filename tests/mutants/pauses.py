"""Mutants of the pauses that differ at random, so that nothing comes back together."""

from tests.mutants.mutant import noticed_by

MAILER = "mail/models/mailer.py"

JITTER = [
    (
        "backoff.py",
        "return pause * random.uniform(1 - self.jitter, 1 + self.jitter)",
        "return pause",
        "retries of jobs come back together",
    ),
    (
        "backoff.py",
        "random.uniform(1 - self.jitter, 1 + self.jitter)",
        "random.uniform(1 - self.jitter, 1)",
        "a retry is never later",
    ),
    ("mail/backoff.py", "jitter=0.1", "jitter=0", "retries of mail come back together"),
    (
        "worker/session.py",
        " * random.uniform(0.7, 1.0)",
        "",
        "all come back together to a database that was away",
    ),
    (
        "worker/queue_poller.py",
        "self.pause * random.uniform(0.75, 1.0)",
        "self.pause",
        "idle workers look together",
    ),
    (
        "worker/wakeup.py",
        " * random.uniform(0.5, 1.0)",
        "",
        "idle workers look together because of news that are for others",
    ),
    (
        "worker/claimer.py",
        "return 0.0 if jobs else random.uniform(0.001, 0.005)",
        "return 0.0 if jobs else 0.003",
        "those who came too late claim again together",
    ),
    (
        "dialects/base.py",
        "yield random.uniform(0.001, 0.01 * 2**attempt)",
        "yield 0.01 * 2**attempt",
        "deadlocked statements are tried again together",
    ),
    (
        "dialects/sqlite.py",
        "yield random.uniform(0.0003, longest)",
        "yield longest",
        "those who wait for SQLite's lock try again together",
    ),
    (
        "models/exactly_once.py",
        "return random.uniform(0.005, 0.02 * 2**self.tries)",
        "return 0.02 * 2**self.tries",
        "deadlocked jobs are tried again together",
    ),
    (
        MAILER,
        "return rest * (1 + random.uniform(0, PAUSE_SPREAD))",
        "return rest",
        "all mail comes back together after a pause",
    ),
    (
        "models/rate_bucket.py",
        "return random.uniform(0.1, 1) if wait is None else wait",
        "return 0.5 if wait is None else wait",
        "all who ask for a turn in vain ask again together",
    ),
    (
        "metrics/backlogs.py",
        "random.uniform(FIRST_SAMPLE, 2 * FIRST_SAMPLE)",
        "FIRST_SAMPLE",
        "all workers count the backlogs together",
    ),
    (
        "metrics/counting.py",
        "random.uniform(1, LOOK_SECONDS)",
        "LOOK_SECONDS",
        "all workers look together for what is to be counted",
    ),
]

MUTANTS = noticed_by("worker/jitter", JITTER)
