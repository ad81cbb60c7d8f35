"""Erases one person's emails."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ....texts.wording import said
from ...privacy.forget import Count, Forget, log_entries
from ...privacy.person import Person


class Command(BaseCommand):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = _(
            "Erase one person's mail; run it again where it says so (exit code 1). "
            "The bodies of mail to others are not searched."
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("address", help="someone@example.org")
        parser.add_argument("--dry-run", action="store_true", help=_("count only, change nothing"))
        parser.add_argument(
            "--keep-suppression",
            action="store_true",
            help=_("go on sending them nothing: their suppressed address stays"),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            person = Person(options["address"])
        except ValueError as error:
            raise CommandError(said(error)) from error
        forget = Forget(person, writes=not options["dry_run"])
        if options["dry_run"]:
            self.stdout.write(_("dry run: nothing is changed"))
        left = self.say(_("email"), forget.queued()).left
        left += self.say(_("archived email"), forget.archived()).left
        if not options["keep_suppression"]:
            self.say(_("suppressed address"), forget.suppressed())
        self.say(_("early news"), forget.early_news())
        self.say(_("mailer"), forget.mailers())
        self.say(_("admin log"), log_entries(person, writes=forget.writes))
        if left:
            text = ngettext(
                "%(number)s left as they are: they are being sent right now, or moved on "
                "meanwhile, or cannot be read by this release. Run it again in a minute.",
                "%(number)s left as they are: they are being sent right now, or moved on "
                "meanwhile, or cannot be read by this release. Run it again in a minute.",
                left,
            )
            raise CommandError(text % {"number": left}, returncode=1)

    def say(self, table: str, count: Count) -> Count:
        self.stdout.write(f"{table}: {told(count)}")
        return count


def told(count: Count) -> str:
    """All of it, zeros too."""
    words = {
        "deleted": ngettext("%(number)s deleted", "%(number)s deleted", count.deleted),
        "changed": ngettext("%(number)s changed", "%(number)s changed", count.changed),
        "erased": ngettext("%(number)s erased", "%(number)s erased", count.erased),
        "left": ngettext("%(number)s left", "%(number)s left", count.left),
    }
    return ", ".join(text % {"number": getattr(count, name)} for name, text in words.items())
