"""Mutants of the counts of jobs."""

from tests.mutants.mutant import noticed_by

COUNTING, WALKS, NUMBERS = "metrics/counting.py", "metrics/walks.py", "metrics/numbers.py"

COUNTED = [
    (
        COUNTING,
        "filter(pk=row.pk, version=version)",
        "filter(pk=row.pk)",
        "who was taken for dead writes what it had counted",
    ),
    (
        COUNTING,
        "filter(pk=row.pk, version=row.version)",
        "filter(pk=row.pk)",
        "several count a table at once",
    ),
    (COUNTING, "return DEAD_AFTER", "return 0.0", "who counts is taken for dead at once"),
    (
        COUNTING,
        "{**named, OTHERS: rest} if rest else named",
        "named",
        "queues that are not told apart are forgotten",
    ),
    (
        COUNTING,
        "for row in old if row.queue not in same]",
        "for row in old if row.queue in new.keys() - same]",
        "a queue that emptied out keeps its number",
    ),
    (
        WALKS,
        '_compared(table, walk, after, ">")\n    up_to',
        '_compared(table, walk, after, ">=")\n    up_to',
        "the last row of a step is counted twice",
    ),
    (WALKS, '(table, walk, end, "<=")', '(table, walk, end, "<")', "the last row is not counted"),
    (
        WALKS,
        "        raise TooManyAlike\n",
        "        pass\n",
        "of many jobs with one time some are not counted",
    ),
    (
        WALKS,
        "if status == Status.DELAYED and table.takes_keys:",
        "if False:",
        "jobs that wait for their keys are not counted",
    ),
]
SHOWN = [
    (NUMBERS, "if jobs >= seen else", "if True else", "a number is less than what is there now"),
    (
        NUMBERS,
        "(status, OTHERS) in self.jobs and (status, queue) not in self.jobs",
        "False",
        "a queue that was added up to others has no jobs",
    ),
    (
        NUMBERS,
        "return sum(self.seen[status].values()) <= self.most",
        "return True",
        "the first thousand jobs are all there are",
    ),
    (
        "admin/tabs.py",
        "if not is_by_queue or",
        "if True or",
        "lists stop at a thousand",
    ),
]

MUTANTS = [*noticed_by("metrics/counting", COUNTED), *noticed_by("monitor/counts", SHOWN)]
