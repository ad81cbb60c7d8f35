"""What a client has said, and how much of it is for one turn."""

from . import commands
from .protocol import CommandReader, Refused

READ_AT_ONCE = 16 * 1024  # bytes
WAITING_MAX = READ_AT_ONCE  # bytes of a client's that wait for their turn, before it is read on
PUTS_AT_ONCE, PUT_AT_ONCE = 100, 64 * 1024  # of a client in one turn: puts, and bytes of bodies


class Said(CommandReader):
    """A connection's bytes, as commands, and as puts that go into one statement."""

    _following: commands.Command | Refused | None = None  # the next one, already read

    def next(self) -> commands.Command | Refused | None:
        command, self._following = self._following, None
        return super().next() if command is None else command

    def together_with(self, first: commands.Command) -> list[commands.Command]:
        """It, and where it is a put, some of those that have come right after it."""
        if not isinstance(first, commands.Put):
            return [first]
        found: list[commands.Command] = [first]
        size = len(first.body)
        while len(found) < PUTS_AT_ONCE and size < PUT_AT_ONCE:
            command = self.next()
            if not isinstance(command, commands.Put):
                self._following = command
                break
            found.append(command)
            size += len(command.body)
        return found
