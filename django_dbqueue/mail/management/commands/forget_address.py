"""Erases one person's emails."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...privacy.forget import Count, Forget, log_entries
from ...privacy.person import Person

LEFT = (
    "{} left as they are: they are being sent right now, or moved on meanwhile, or cannot be read "
    "by this release. Run it again in a minute."
)


class Command(BaseCommand):
    help = (
        "Erase one person's mail; run it again where it says so (exit code 1). "
        "The bodies of mail to others are not searched."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("address", help="someone@example.org")
        parser.add_argument("--dry-run", action="store_true", help="count only, change nothing")
        parser.add_argument(
            "--keep-suppression",
            action="store_true",
            help="go on sending them nothing: their suppressed address stays",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            person = Person(options["address"])
        except ValueError as error:
            raise CommandError(str(error)) from error
        forget = Forget(person, writes=not options["dry_run"])
        if options["dry_run"]:
            self.stdout.write("dry run: nothing is changed")
        left = self.say("email", forget.queued()).left
        left += self.say("archived email", forget.archived()).left
        if not options["keep_suppression"]:
            self.say("suppressed address", forget.suppressed())
        self.say("early news", forget.early_news())
        self.say("mailer", forget.mailers())
        self.say("admin log", log_entries(person, writes=forget.writes))
        if left:
            raise CommandError(LEFT.format(left), returncode=1)

    def say(self, table: str, count: Count) -> Count:
        self.stdout.write(f"{table}: {count}")
        return count
