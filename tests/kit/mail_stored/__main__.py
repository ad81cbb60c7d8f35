"""Store the samples under this version of Django; or read what the versions have stored.

python -m tests.kit.mail_stored [FOLDER]
python -m tests.kit.mail_stored --read FOLDER
"""

import os
import sys
from collections import Counter
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
django.setup()

from tests.kit.mail_stored import FOLDER, VERSION, says_the_same, store, stored  # noqa: E402


def read(folder: Path) -> int:
    """One line per version that stored; whether all say what they said."""
    counts: dict[str, Counter[bool]] = {by: Counter() for by, _ in stored(folder)}
    for by, entry in stored(folder):
        counts[by][says_the_same(entry)] += 1
    for by, count in counts.items():
        print(f"Django {VERSION} reads what {by} stored: {count[True]} equal, {count[False]} not")
    return 1 if any(count[False] for count in counts.values()) else 0


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--read"]:
        return read(Path(arguments[1]))
    print(f"Django {VERSION}: {store(Path(*arguments) if arguments else FOLDER)} messages stored")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
