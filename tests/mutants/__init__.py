"""The package, broken on purpose in one place at a time: the tests must notice each.

    python -m tests.mutants [--short] [--jobs N] [--only SUBSTRING] [--fresh]

``MUTANTS`` is the list; ``python -m tests.mutants`` says which test caught which.
"""

from tests.mutants import (
    admin,
    blind_spots,
    bounded,
    bulk_actions,
    commands,
    coroutines,
    counts,
    databases,
    ending,
    growing,
    mail,
    mail_afterwards,
    mail_and_admin,
    many_queues,
    many_tables,
    moving,
    operating,
    options,
    pauses,
    people,
    schedules,
    schedules_kept,
    seen,
    supervisor,
    worker,
)
from tests.mutants.mutant import Mutant

TABLES = (
    *(counts, ending, moving, people, databases, blind_spots, options, pauses, mail_and_admin),
    *(worker, coroutines, growing, supervisor, commands, mail, mail_afterwards, admin),
    *(operating, bounded, many_queues, many_tables, bulk_actions, seen, schedules, schedules_kept),
)
MUTANTS = [
    Mutant(*row) if len(row) < 5 else Mutant(*row[:4], **row[4])
    for one in TABLES
    for row in one.MUTANTS
]
