"""Which tests are tried with a mutant, in which order, and for how long."""

from tests.mutants.baseline import packed
from tests.mutants.lines import lines_of
from tests.mutants.mutant import ROOT
from tests.mutants.trial import Step

LEAST, TIMES = 30, 5  # seconds for a step, and so many times what it takes without a mutant
SWEEPS, SWEPT = "tests/sweeps/", 1800  # seconds for every place of all sweeps
FAR = 40.0  # seconds of tests that reach the mutant, but are not in the likely files


def steps_for(mutant, tests, files, first):
    """First what reaches it in the likely ``files``, then what does elsewhere, then the rest of
    these files; then those with processes, whose lines nobody knows; at last whole sweeps.

    ``first`` names files and tests that come before all others.
    """
    path = str(mutant.path)
    changed = packed(lines_of(mutant, (ROOT / path).read_text()))

    def place(test):
        return test.name not in first, test.file not in first, test.seconds

    def is_near(test):
        return test.reaches(path, changed) or bool(first & {test.name, test.file})

    tests = sorted(tests, key=place)
    inline = [test for test in tests if not test.is_shaky]
    likely = [test for test in inline if test.file in files]
    others = [test for test in inline if test.file not in files and test.reaches(path, changed)]
    return [
        _step([test for test in likely if is_near(test)]),
        _step([*_within(FAR, others), *(test for test in likely if not is_near(test))]),
        _step([test for test in tests if test.is_shaky and test.file in files]),
        Step([test.name for test in likely if test.file.startswith(SWEEPS)], SWEPT, is_full=True),
    ]


def _within(seconds, tests):
    for test in tests:
        seconds -= test.seconds
        if seconds >= 0:
            yield test


def _step(tests):
    limit = LEAST + TIMES * sum(test.seconds for test in tests)
    shaky = any(test.is_shaky for test in tests)
    return Step([test.name for test in tests], limit, shaky)
