"""What the log says was done, in the language of the one who reads it: it is stored in English."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from django.utils.translation import gettext_lazy, ngettext, override, pgettext_lazy

from ..texts.wording import SKIPPED, number, skipped, were_changed
from .actions import BURY, CANCEL, KICK, MOVE, PRIORITIZE, RELEASE, RESCHEDULE, SENTENCES
from .pause import PAUSED, RESUMED
from .workers import VERBS

CHARACTERS_MAX = 2_000  # what is longer is no entry of ours
# Each beginning of a reason is one, so that whatever somebody has written is read once.
NEXT = r"(?:, |; )\d{1,20} skipped: "
RESULT = re.compile(rf"\d{{1,20}} changed(?:{NEXT}(?:(?!{NEXT})[^;])+)*")
BETWEEN = re.compile(r"(, |; )(?=\d+ skipped: )")
SKIP = re.compile(r"(\d+) skipped: (.+)")
# Whole entries, or what stands before their numbers; a name in %()s stays as it is.
FORMS: list[Any] = [
    *SENTENCES.values(),
    *(one.question.title for one in (KICK, BURY, RELEASE, CANCEL, MOVE, PRIORITIZE, RESCHEDULE)),
    *(words for _, words in VERBS.values()),
    *(PAUSED, RESUMED),
    pgettext_lazy("a queue is paused", "until somebody resumes it"),
    gettext_lazy("until %(time)s"),
    gettext_lazy("Mark as failed"),
    gettext_lazy("Mark as sent"),
    gettext_lazy("Erase messages"),
    gettext_lazy("Send again"),
    gettext_lazy("bulk action %(key)s"),
    gettext_lazy("Message erased"),
    gettext_lazy("Marked as sent"),
    gettext_lazy("Sent again as %(names)s"),
    gettext_lazy("Paused for 5 minutes"),
    gettext_lazy("Paused"),
    pgettext_lazy("what was done", "Resumed"),
    gettext_lazy("Enqueued a job of"),
    pgettext_lazy("action", "Delete"),
    gettext_lazy("export: begun"),
    gettext_lazy("export: sent %(number)s rows"),
    gettext_lazy("export: stopped after %(number)s rows"),
]
ROWS = re.compile(r"(.+); rows: (\d[\d,]{0,30})((?: \([^()]*\))?)", re.DOTALL)
OF = re.compile(r"(.+); (failure \w+|dbqueue [\w-]+|bulk action \d+)", re.DOTALL)
VALUE = re.compile(r"%\((\w+)\)s")


def in_words(said: str) -> str:
    """An entry as ``record`` writes it; what is none of ours stays as it is."""
    if len(said) > CHARACTERS_MAX:
        return said
    if found := ROWS.fullmatch(said):
        count = int(found[2].replace(",", ""))
        rows = ngettext("rows: %(number)s", "rows: %(number)s", count) % {"number": number(count)}
        return f"{in_words(found[1])}; {rows}{found[3]}"
    if found := OF.fullmatch(said):  # a failure, by a command or a bulk action
        return f"{in_words(found[1])}; {_form(found[2])}"
    for place in (found.start() for found in re.finditer(": ", said)):
        if RESULT.fullmatch(said[place + 2 :]):
            return f"{_form(said[:place])}: {''.join(_results(said[place + 2 :]))}"
    verb, _, rest = said.partition(": ")
    return _form(rest) if verb in VERBS else _form(said)


def _results(text: str) -> Iterator[str]:
    """One by one, with what stands between them."""
    first, *others = BETWEEN.split(text)
    yield were_changed(int(first.partition(" ")[0]))
    for one in others:
        found = SKIP.fullmatch(one)
        yield skipped(int(found[1]), str(_reasons().get(found[2], found[2]))) if found else one


def _form(said: str) -> str:
    for pattern, text in _patterns():
        if found := pattern.fullmatch(said):
            # A sentence ends with a full stop, an entry does not.
            values = found.groupdict()
            if "end" in values:
                values["end"] = _form(values["end"])
            return str(text).rstrip(".。") % values
    return said


@cache
def _patterns() -> list[tuple[re.Pattern[str], Any]]:
    with override(None):
        return [(_pattern(str(text).rstrip(".")), text) for text in FORMS]


@cache
def _reasons() -> dict[str, Any]:
    with override(None):
        return {str(text): text for text in SKIPPED.values()}


def _pattern(text: str) -> re.Pattern[str]:
    """Of a text with names in it."""
    pieces = VALUE.split(text)
    written = [f"(?P<{one}>.+?)" if n % 2 else re.escape(one) for n, one in enumerate(pieces)]
    return re.compile("".join(written), re.DOTALL)
