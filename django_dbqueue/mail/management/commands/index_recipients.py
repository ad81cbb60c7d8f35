"""Makes mail of before an upgrade to be found by its recipients."""

from typing import Any

from django.core.management.base import BaseCommand

from ...finding import index_all


class Command(BaseCommand):
    help = (
        "Write down whom stored mail is for, where that is missing, so that it is found by an "
        "address; and delete that of mail which is gone. It may be stopped, and run again."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        said = 0

        def say(written: int, deleted: int) -> None:
            nonlocal said
            if written + deleted - said >= 100_000:
                said = written + deleted
                self.stdout.write(f"{written} written, {deleted} deleted so far")

        written, deleted = index_all(say)
        self.stdout.write(f"{written} written, {deleted} deleted")
