"""Many mutants at once, each in one of a few copies of the project."""

import queue
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from tests.mutants import baseline
from tests.mutants.baseline import Baseline
from tests.mutants.record import key_of
from tests.mutants.selection import files_for
from tests.mutants.trial import Copy, Verdict

FAILED = "not tried"


class Campaign:
    """A context: on its way out whatever still runs is ended."""

    def __init__(self, jobs, record, files_for=files_for):
        self.jobs, self.record, self.files_for = jobs, record, files_for
        self.times = Baseline()

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="mutants")
        self._pool = ThreadPoolExecutor(self.jobs)
        self.copies = [Copy(Path(self._folder.name) / str(n), n) for n in range(self.jobs)]
        self._free = queue.SimpleQueue()
        for copy in self.copies:
            self._free.put(copy)
        return self

    def __exit__(self, *_):
        for copy in self.copies:
            copy.end()
        self._pool.shutdown(cancel_futures=True)
        for copy in self.copies:
            copy.remove_database()
        self._folder.cleanup()

    def run(self, mutants):
        """The verdicts, in the order of the mutants; ``NotGreen`` where one would mean nothing."""
        known = {mutant: self._known(mutant) for mutant in mutants}
        missing = [mutant for mutant in mutants if known[mutant] is None]
        print(
            f"{len(mutants)} mutants, {len(mutants) - len(missing)} known from before", flush=True
        )
        self._measure(missing)
        # The longest first, so that nobody waits for one in the end.
        missing.sort(key=self._limit, reverse=True)
        found = {self._pool.submit(self._with_copy, partial(self._try, m)): m for m in missing}
        for done in as_completed(found):
            known[found[done]] = done.result()
        return [known[mutant] for mutant in mutants]

    def _measure(self, mutants):
        wanted = {(m.database, name): None for m in mutants for name in self.files_for(m)}
        self.times, missing = baseline.look_up(self.record, wanted)
        print(f"{len(missing)} of {len(wanted)} test files are run without a mutant", flush=True)
        measure = [
            self._pool.submit(
                self._with_copy, partial(self._measure_some, database=database, names=names)
            )
            for database, names in baseline.parts(missing, self.jobs * 2)
        ]
        for done in measure:
            done.result()
        self.times, _ = baseline.look_up(self.record, wanted)

    def _measure_some(self, copy, database, names):
        baseline.measure(copy, self.record, database, names)

    def _with_copy(self, do):
        copy = self._free.get()
        try:
            return do(copy)
        finally:
            self._free.put(copy)

    def _try(self, mutant, copy):
        began = time.monotonic()
        try:
            verdict = copy.judge(mutant, self._in_order(mutant), self._limit(mutant))
        except RuntimeError as error:
            return Verdict(FAILED, str(error))
        seconds = round(time.monotonic() - began, 1)
        said = {"word": verdict.word, "by": verdict.by, "seconds": seconds}
        self.record.add(self._key(mutant), edit=mutant.edit, why=mutant.why, **said)
        where = f"{mutant.database:10} {mutant}"
        print(f"{verdict.word:9} {seconds:6.1f} s {where}: {verdict.by}", flush=True)
        return verdict

    def _known(self, mutant):
        line = self.record.known(self._key(mutant))
        return line and Verdict(line["word"], line["by"])

    def _key(self, mutant):
        return key_of(mutant.edit, self.files_for(mutant))

    def _limit(self, mutant):
        return self.times.limit(mutant.database, self.files_for(mutant))

    def _in_order(self, mutant):
        """First what caught it the last time or is meant to, then the quick ones."""
        last, seconds = self.record.last_caught_by(mutant), self.times.seconds

        def place(name):
            is_meant = name == last or name in mutant.tests
            return not is_meant, seconds[mutant.database, name]

        return sorted(self.files_for(mutant), key=place)
