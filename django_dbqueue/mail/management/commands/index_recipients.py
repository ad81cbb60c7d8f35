"""Makes mail of before an upgrade to be found by its recipients."""

from typing import Any

from django.core.management.base import BaseCommand
from django.utils.translation import gettext as _

from ...finding import index_all


class Command(BaseCommand):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = _(
            "Write down whom stored mail is for, where that is missing, so that it is found by an "
            "address; and delete that of mail which is gone. It may be stopped, and run again."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        said = 0

        def say(written: int, deleted: int) -> None:
            nonlocal said
            if written + deleted - said >= 100_000:
                said = written + deleted
                text = _("%(written)s written, %(deleted)s deleted so far")
                self.stdout.write(text % {"written": written, "deleted": deleted})

        written, deleted = index_all(say)
        text = _("%(written)s written, %(deleted)s deleted")
        self.stdout.write(text % {"written": written, "deleted": deleted})
