"""What was done to how many jobs of which tables."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db.utils import Error
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..exceptions import first_line
from ..lifecycle.operator import Changed
from ..operate.acting import Progress
from ..texts.wording import changed
from ..worker.served import Served
from .commands._log import printable
from .verbs import FOUND, ProblemsFound

INTERRUPTED = 130
COUNTS = ("matched", "changed", "skipped")
VERSION = 1  # of the JSON: names may be added; what changes or goes makes another one


@dataclass
class Report:
    """Of each table, by its name, what was done so far."""

    word: str
    options: dict[str, Any]
    done: list[tuple[str, Served, Progress]] = field(default_factory=list)
    problem: str = ""

    @property
    def is_dry(self) -> bool:
        return bool(self.options["dry_run"])

    @property
    def limit(self) -> int | None:
        most: int | None = self.options["limit"]
        return most

    @property
    def left(self) -> int | None:
        """How many jobs more may be changed."""
        taken = sum(progress.taken for *_place, progress in self.done)
        return None if self.limit is None else self.limit - taken

    @property
    def changed(self) -> int:
        return sum(_result(progress).changed for *_place, progress in self.done)

    @contextmanager
    def told_at_the_end(self) -> Iterator[None]:
        """``ProblemsFound`` with what was done before, where a database fails, where somebody
        interrupts it, or where there is a ``problem``."""
        code = FOUND
        try:
            yield
        except Error as error:
            name = self.done[-1][0] if self.done else ""
            text = _("%(name)s: %(why)s. What was done before is told above.")
            self.problem = text % {"name": name, "why": first_line(error)}
        except KeyboardInterrupt:
            self.problem, code = _("interrupted: the rest is as it was"), INTERRUPTED
        if self.problem:
            raise ProblemsFound(self.shown(), printable(self.problem), code)

    def shown(self) -> str:
        return self._json() if self.options["json"] else self._text()

    def _text(self) -> str:
        lines = []
        for name, _served, progress in self.done:
            if progress.taken or _result(progress).skipped:
                lines.append(f"{name}: {self._done(progress)}")
        left = [progress for *_place, progress in self.done if progress.has_more]
        more = (
            [_("More match: --limit was reached.")] if any(not one.is_full for one in left) else []
        )
        more += [_("More match: the queue is full.")] if any(one.is_full for one in left) else []
        return "\n".join([*(lines or [_("no job matches")]), *more])

    def _done(self, progress: Progress) -> str:
        if not self.is_dry:
            return changed(_result(progress), str)
        text = ngettext(
            "%(number)s would be changed", "%(number)s would be changed", progress.taken
        )
        return text % {"number": progress.taken}

    def _json(self) -> str:
        tables = [
            {
                "table": served.label,
                "queue": served.queue,
                "database": served.using,
                **self._counts([progress]),
            }
            for _name, served, progress in self.done
        ]
        sums = self._counts([progress for *_place, progress in self.done])
        said = {
            "version": VERSION,
            "verb": self.word,
            "dry_run": self.is_dry,
            **sums,
            "more": self._has_more,
        }
        return json.dumps({**said, "tables": tables}, indent=2)

    def _counts(self, several: list[Progress]) -> dict[str, int]:
        results = [_result(progress) for progress in several]
        matched = sum(progress.taken for progress in several)
        changed, skipped = sum(r.changed for r in results), sum(r.skipped for r in results)
        return dict(zip(COUNTS, (matched, changed, skipped), strict=True))

    @property
    def _has_more(self) -> bool:
        return any(progress.has_more for *_place, progress in self.done)


def _result(progress: Progress) -> Changed:
    return progress.result or Changed()
