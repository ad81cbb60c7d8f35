"""What the user sees while it runs: one line rewritten on a terminal, else one a second."""

import shutil
import sys
import time
from collections.abc import Mapping

from django_dbqueue.states import Status

BAR = 20


class Screen:
    def __init__(self, total: int) -> None:
        self.total = total
        self.rewrites = sys.stdout.isatty()
        self.every = 0.1 if self.rewrites else 1.0
        self.started = time.monotonic()
        self._next_at = 0.0
        self._is_open = False

    def say(self, text: str = "") -> None:
        """Print a line that stays."""
        if self._is_open:
            print()
            self._is_open = False
        print(text, flush=True)

    def item(self, title: str, text: str) -> None:
        self.say(f"  {title:<12} {text}")

    def show(self, mails: Mapping[int, int], thumbnails: int, last: bool) -> None:
        """Show how far the work is; mails are counted by status."""
        if time.monotonic() < self._next_at and not last:
            return
        self._next_at = time.monotonic() + self.every
        line = self._line(mails, thumbnails)
        if not self.rewrites:
            self.say(line)
            return
        width = shutil.get_terminal_size().columns - 1
        # \x1b[K: whatever the line before had more.
        print(f"\r{line[:width]}\x1b[K", end="", flush=True)
        self._is_open = True

    def _line(self, mails: Mapping[int, int], thumbnails: int) -> str:
        sent, failed = mails.get(Status.DONE, 0), mails.get(Status.BURIED, 0)
        share = (sent + failed) / self.total
        bar = "#" * int(share * BAR)
        return (
            f"  {time.monotonic() - self.started:5.1f} s [{bar:.<{BAR}}] {int(share * 100):3}%"
            f"  sent {sent}, retry {mails.get(Status.DELAYED, 0)}, failed {failed}"
            f"; thumbnails {thumbnails}"
        )
