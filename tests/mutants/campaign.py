"""Many mutants at once, each in one of a few copies of the project."""

import queue
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from tests.mutants import baseline
from tests.mutants.plan import steps_for
from tests.mutants.record import key_of
from tests.mutants.selection import files_for
from tests.mutants.trial import HANGS, Copy, Verdict

FAILED = "not tried"


class Campaign:
    """A context: on its way out whatever still runs is ended."""

    def __init__(self, jobs, record, files_for=files_for):
        self.jobs, self.record, self.files_for = jobs, record, files_for
        self.tests = {}

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
        wanted = {(m.database, name): None for m in mutants for name in self.files_for(m)}
        known = {mutant: self._known(mutant, wanted) for mutant in mutants}
        missing = [mutant for mutant in mutants if known[mutant] is None]
        _say(f"{len(mutants)} mutants, {len(mutants) - len(missing)} known from before")
        if missing:
            self._measure(wanted)
        doing = {
            self._pool.submit(self._with_copy, partial(self._try, m, wanted)): m for m in missing
        }
        for done in as_completed(doing):
            known[doing[done]] = done.result()
        return [known[mutant] for mutant in mutants]

    def _measure(self, wanted):
        _, missing = baseline.look_up(self.record, wanted)
        _say(f"{len(missing)} of {len(wanted)} test files are run without a mutant")
        doing = [
            self._pool.submit(
                self._with_copy,
                partial(baseline.measure, record=self.record, database=database, files=files),
            )
            for database, files in baseline.parts(missing, self.jobs * 2)
        ]
        for done in as_completed(doing):
            done.result()
        self.tests, missing = baseline.look_up(self.record, wanted)
        if missing:
            raise baseline.NotGreen("The project was changed meanwhile: run it in a copy.")

    def _with_copy(self, do):
        copy = self._free.get()
        try:
            return do(copy)
        finally:
            self._free.put(copy)

    def _try(self, mutant, wanted, copy):
        began = time.monotonic()
        first = {*mutant.tests, self.record.last_caught_by(mutant)}
        steps = steps_for(mutant, self.tests[mutant.database], self.files_for(mutant), first)
        try:
            verdict = copy.judge(mutant, steps)
        except RuntimeError as error:
            return Verdict(FAILED, str(error))
        seconds = round(time.monotonic() - began, 1)
        said = {"word": verdict.word, "by": verdict.by, "seconds": seconds}
        key = self._key(mutant, verdict.by, wanted)
        self.record.add(key, edit=mutant.edit, why=mutant.why, **said)
        where = f"{mutant.database:10} {mutant}"
        _say(f"{verdict.word:9} {seconds:6.1f} s {where}: {verdict.by}")
        return verdict

    def _known(self, mutant, wanted):
        by = self.record.last_caught_by(mutant)
        line = self.record.known(self._key(mutant, by, wanted))
        return line and Verdict(line["word"], line["by"])

    def _key(self, mutant, by, wanted):
        """Of one that was caught by a test, which says so again; else of all tests."""
        everything = [file for database, file in wanted if database == mutant.database]
        return key_of(mutant.edit, everything if by in {"", HANGS} else [by.partition("::")[0]])


def _say(text):
    print(text, flush=True)
