"""python -m tests.kit.galera_producer COUNT MARK LOG URL...

Enqueues jobs one after the other, and knows of each that it is there: where a connection was lost
it looks, at the next URL. Prints which other errors it met, and how many connections it lost.
"""

import json
import os
import sys
import time
from collections import Counter
from typing import Any

import dj_database_url
import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
django.setup()

from django.db import Error, connection, connections  # noqa: E402

from django_dbqueue.dialects import ErrorKind, dialect_of  # noqa: E402
from tests.queueapp.models import Note, Transfer  # noqa: E402

PAUSE = 0.004  # seconds between two
MANY = 20  # at once, of fifty
DIGITS_ONCE = "7"  # jobs whose number ends with it have exactly-once effects


class Enqueuer:
    def __init__(self, mark: str, log: str, urls: list[str]) -> None:
        self.mark, self.log, self.urls = mark, log, urls
        self.errors: Counter[str] = Counter()
        self.lost = 0
        self.connect()

    def connect(self) -> None:
        connection.close()
        connections["default"].settings_dict.update(dj_database_url.parse(self.urls[0]))
        self.urls = [*self.urls[1:], self.urls[0]]

    def run(self, count: int) -> None:
        number = 0
        while number < count:
            size = min(MANY, count - number) if number % 50 == 0 else 1
            self.enqueue([f"{self.mark}.{n}" for n in range(number, number + size)])
            number += size
            time.sleep(PAUSE)

    def enqueue(self, texts: list[str]) -> None:
        """Until they are there."""
        while True:
            try:
                self.insert(texts)
                return
            except Error as error:
                if dialect_of(connections["default"]).error_kind(error) is not ErrorKind.LOST:
                    self.errors[str(error)] += 1
            self.lost += 1
            if self.is_there(texts[0]):
                return

    def insert(self, texts: list[str]) -> None:
        if len(texts) > 1:
            Note.objects.enqueue_many([{"text": text, "log": self.log} for text in texts])
        elif texts[0].endswith(DIGITS_ONCE):
            Transfer.objects.create(data={"text": texts[0]}, log=f"{self.log}.once")
        else:
            Note.objects.create(text=texts[0], log=self.log)

    def is_there(self, text: str) -> bool:
        while True:
            self.connect()
            try:
                dialect_of(connections["default"]).catch_up()
                notes: Any = Note.objects.filter(text=text)
                once: Any = Transfer.objects.filter(data={"text": text})
                return bool(notes.exists() or once.exists())
            except Error:
                time.sleep(0.2)


def main(count: str, mark: str, log: str, *urls: str) -> None:
    enqueuer = Enqueuer(mark, log, list(urls))
    enqueuer.run(int(count))
    print(json.dumps({"errors": enqueuer.errors, "lost": enqueuer.lost}))


if __name__ == "__main__":
    main(*sys.argv[1:])
