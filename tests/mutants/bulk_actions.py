"""Mutants of large actions that run as jobs of their own, and of those that are asked for first."""

from tests.mutants.mutant import noticed_by

RUNNING, LOG, CHOSEN = "bulk/running.py", "bulk/log_entry.py", "bulk/chosen.py"
MATCHING, ORDERS, ACTING = "admin/matching.py", "operate/orders.py", "operate/acting.py"

RUN = [
    (
        ORDERS,
        "IN_TURN = (Status.DELAYED, Status.READY, ",
        "IN_TURN = (Status.READY, Status.DELAYED, ",
        "what becomes ready in the meantime is passed over",
    ),
    (
        ACTING,
        'self.since is None or self.verb.name != "kick" or not delayed',
        "True",
        "what failed once more is retried for ever",
    ),
    (
        RUNNING,
        "*map(_as_json, done.keys)]",
        "*done.keys]",
        "keys that are no numbers fail the action",
    ),
    (
        RUNNING,
        '                    self._note(place={"part": part + 1})\n                    break\n',
        "                    return\n",
        "what is buried is not moved where a queue is full",
    ),
    (
        RUNNING,
        '"seen": self.row.seen + len(keys),',
        '"seen": len(keys),',
        "the progress is that of one batch",
    ),
    (
        RUNNING,
        "was | {name: was.get(name, 0) + n for name, n in done.counts.items()}",
        "was | done.counts",
        "what earlier batches changed is not counted",
    ),
    (
        RUNNING,
        "            if part < first:\n                continue\n",
        "",
        "parts that are done are done again",
    ),
    (
        RUNNING,
        "cursor = self._cursor_in(keyset) if part == first else None",
        "cursor = None",
        "it begins again where it was killed",
    ),
    (
        RUNNING,
        "self._own.filter(owner=self.row.claim_owner)",
        "self._own",
        "one that was taken away writes all the same",
    ),
    (
        RUNNING,
        "            if not self._was_ended_by_hand():\n                return\n",
        "            pass\n",
        "one that goes on elsewhere has an entry in the log",
    ),
    (
        RUNNING,
        "            self._bury_without_table(error)\n",
        "",
        "without its table it is tried again",
    ),
    (
        RUNNING,
        "rows = rows.exclude(pk=self.row.pk)",
        "pass",
        "a bulk action acts on itself",
        {"harmless": "its row is younger than the question that it answers"},
    ),
    (
        LOG,
        "        log.filter(pk=row.log_entry or None).delete()\n",
        "",
        "each try leaves an entry in the log",
    ),
]
MEANT = [
    (
        CHOSEN,
        "return cls(state, **equal, times=times) if is_known or not timed else None",
        "return cls(state, **equal, times=times)",
        "a filter on the time of a state is left out",
    ),
    (
        CHOSEN,
        "            else:\n                return None\n        asked =",
        "        asked =",
        "a filter that cannot be said is left out",
    ),
]
ASKED = [
    (
        MATCHING,
        "left -= count.number",
        "pass",
        "more than ten thousand are counted for one action",
    ),
    (
        MATCHING,
        "found.has_more = len(keys) > left",
        "found.has_more = False",
        "nobody says that more match than are changed",
    ),
    (
        MATCHING,
        "return fields | {KEYS_FIELD: packed,",
        'return fields | {KEYS_FIELD: "",',
        "what was counted is not what is acted on",
    ),
]

MUTANTS = [
    *noticed_by("bulk/running", RUN),
    *noticed_by("bulk/chosen", MEANT),
    *noticed_by("admin/all_that_match", ASKED),
]
