"""What came out of it, in words; and the exit code."""

from collections import Counter

from tests.mutants.trial import CAUGHT, SURVIVED


def report(mutants, verdicts, left_out, seconds):
    found = list(zip(mutants, verdicts, strict=True))
    harmful = [(m, v) for m, v in found if not m.harmless]
    caught = [(m, v) for m, v in harmful if v.word == CAUGHT]
    print(f"\n{seconds:.0f} s; by")
    for by, number in Counter(v.by.partition("::")[0] for _, v in caught).most_common():
        print(f"{number:5} {by}")
    for mutant, verdict in found:
        if mutant.harmless:
            print(f"harmless, {verdict.word}: {mutant}, since {mutant.harmless}")
    for mutant in left_out:
        print(f"left out, no server: {mutant}")
    for mutant, verdict in harmful:
        if verdict.word == SURVIVED:
            print(f"survived: {mutant} ({mutant.database})")
        elif verdict.word != CAUGHT:
            print(f"{verdict.word}: {mutant}: {verdict.by}")
    print(f"caught {len(caught)} of {len(harmful)}")
    return int(len(caught) < len(harmful))
