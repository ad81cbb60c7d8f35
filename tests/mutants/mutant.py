from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Mutant:
    """One wrong edit of the package, and what is wrong with it; ``harmless`` says why it is not.

    ``tests`` are the files that are to notice it, before those of ``selection.FILES``.
    """

    file: str
    old: str
    new: str
    why: str
    database: str = "sqlite"
    harmless: str = ""
    tests: tuple[str, ...] = ()

    @property
    def path(self):
        return Path("django_dbqueue") / self.file

    @property
    def edit(self):
        """What is changed, and on which database it is tried: no other mutant has the same."""
        return [self.file, self.old, self.new, self.database]

    def applied(self, text):
        """The text of the file with the edit; ``ValueError`` unless it fits in one place."""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self}: found {count} times: {self.old!r}")
        return text.replace(self.old, self.new)

    def __str__(self):
        return f"{self.file}: {self.why}"


def noticed_by(test, rows):
    """Mutants that one file of tests is to notice."""
    return [(*row, {"tests": (f"tests/{test.replace('/', '/test_')}.py",)}) for row in rows]


def in_file(file, rows):
    """Mutants of one file of the package."""
    return [(file, *row) for row in rows]
