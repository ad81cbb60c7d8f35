"""Mutants of bounded queues: who has room, what becomes of the others, and how old a job gets."""

from tests.mutants.mutant import noticed_by

ROOM, SAVING, DROP = "lifecycle/room.py", "lifecycle/saving.py", "lifecycle/drop.py"

MUTANTS = [
    *noticed_by(
        "lifecycle/bounded",
        [
            (ROOM, "return most - others, most", "return most, most", "room is handed out twice"),
            (ROOM, "AND max_length = %s AND", "AND %s > 0 AND", "a limit is lowered in vain"),
            (ROOM, "AND {is_fresh}", "AND 1 = 1", "room that was handed out counts for ever"),
            (
                ROOM,
                "            self._hand_out(mine, 0)",
                "            pass",
                "what is left for a part of many jobs is used twice",
            ),
            (ROOM, "HELD: indexed, PROM", "PROM", "claimed jobs need no room"),
            (ROOM, ", PROMOTABLE: indexed}", "}", "delayed jobs need no room"),
            (
                SAVING,
                "        transaction.set_rollback(False, using=full.alias)",
                "        pass",
                "a full queue breaks the transaction",
            ),
            (
                SAVING,
                "table.connection, held, [",
                "table.connection, held + ' AND 1 = 0', [",
                "a twin needs room",
            ),
            (DROP, "if len(victims) < count:", "if not victims:", "too few are dropped"),
            (DROP, 'last = ">= %s", [priority]', 'last = ">= %s", [0]', "an urgent job is dropped"),
            (DROP, "if victim[4]]", "if False]", "an expired job counts as dropped"),
            (
                DROP,
                "    transaction.on_commit(tell, using=table.connection.alias, robust=True)",
                "    tell()",
                "jobs that were not dropped in the end are told of",
            ),
        ],
    ),
    *noticed_by(
        "lifecycle/max_age",
        [("lifecycle/limits.py", "due.plus + seconds", "seconds", "a delay is part of the age")],
    ),
]
