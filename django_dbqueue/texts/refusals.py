"""What ``worker.served`` refuses, in the language of the person who reads it: the worker's floor
knows nothing of translations."""

import re

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

# The narrower one first. A test in a made-up language meets each of them.
SENTENCES = (
    gettext_noop("%(name)s is on several databases: name one of %(places)s"),
    gettext_noop("%(name)s names a queue: name the table alone, %(table)s"),
    gettext_noop("%(name)s names no queue: leave out TABLE:QUEUE"),
    gettext_noop("%(name)s is not among the queues %(queues)s"),
    gettext_noop("%(name)s is not on the database of --database, %(using)s"),
    gettext_noop("%(name)s is no database alias; known: %(known)s"),
    gettext_noop("%(name)s names several queue tables; installed are: %(known)s"),
    gettext_noop("%(name)s is no queue table (did you mean %(near)s?); installed are: %(known)s"),
    gettext_noop("%(name)s is no queue table; installed are: none"),
    gettext_noop("%(name)s is no queue table; installed are: %(known)s"),
)
VALUE = re.compile(r"%\\\((\w+)\\\)s")  # as ``re.escape`` leaves it
PATTERNS = {
    text: re.compile(VALUE.sub(r"(?P<\1>.+)", re.escape(text)), re.DOTALL) for text in SENTENCES
}


def translated(sentence: str) -> str:
    """What is none of them stays as it is."""
    for text, pattern in PATTERNS.items():
        if found := pattern.fullmatch(sentence):
            return _(text) % found.groupdict()
    return sentence
