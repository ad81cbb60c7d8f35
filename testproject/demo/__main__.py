"""The command line of the demo."""

import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

import django
from django.core.exceptions import ImproperlyConfigured

from . import folder

if TYPE_CHECKING:
    from .story import Story


def main(argv: list[str]) -> int:
    options = parse(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return show_admin(options.port) if options.what == "admin" else run(options)
    except folder.Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


def parse(argv: list[str]) -> Namespace:
    parser = ArgumentParser(prog="python -m testproject.demo", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["run", "admin"], default="run")
    parser.add_argument("--messages", type=_messages, default=1000, help="50 or more")
    parser.add_argument("--deadline", type=float, default=180, help="seconds until it gives up")
    parser.add_argument("--port", type=int, default=8000, help="of the admin")
    return parser.parse_args(argv)


def run(options: Namespace) -> int:
    """Run the demo; 0 only if everything adds up."""
    with folder.locked(alone=True):
        folder.make_fresh()
        folder.choose_database()
        folder.set_environment(debug=False)
        set_up()
        # Django must be set up before these load their models.
        from .story import NoDatabase, Story, Stuck  # noqa: PLC0415
        from .workers import WorkerWrong  # noqa: PLC0415

        print("A shop queues its mail; two workers deliver it; one is killed.\n", flush=True)
        try:
            return tell(Story(options.messages, options.deadline))
        except NoDatabase as error:
            return _fail("the database cannot be had:", str(error))
        except Stuck as stuck:
            return _fail(
                f"not all is settled after {options.deadline:g} s:", *str(stuck).splitlines()
            )
        except WorkerWrong as wrong:
            return _fail(*str(wrong).splitlines())


def set_up() -> None:
    try:
        django.setup()
    except ImproperlyConfigured as error:
        raise folder.Refused(
            f"{str(error).splitlines()[0]}\nInstall the database's driver first: "
            ".venv/bin/python -m pip install '.[postgresql]', or '.[mysql]'"
        ) from None


def tell(story: "Story") -> int:
    """Run the story, print the summary and the verdict."""
    from .summary import summary  # noqa: PLC0415

    account = story.run()
    print(*summary(account, story.times), "", sep="\n")
    if problems := account.problems():
        return _fail("It does not add up:", *problems)
    print("It adds up. Look at what is left in the admin: make admin")
    print("What the killed worker did in its last ten seconds is not in the admin's 'Done, 1 h'.")
    return 0


def show_admin(port: int) -> int:
    if not folder.URL.exists():
        raise folder.Refused("There is nothing to look at yet. Run the demo first: make demo")
    with folder.locked(alone=False):
        folder.set_environment(debug=True)
        set_up()
        from .admin import serve  # noqa: PLC0415

        serve(port)
    return 0


def _fail(*lines: str) -> int:
    print(f"\nFAILED: {lines[0]}", *lines[1:], sep="\n  ", file=sys.stderr)
    print(f"  The logs are in {folder.shown(folder.FOLDER)}/", file=sys.stderr)
    return 1


def _messages(text: str) -> int:
    number = int(text)
    if number < 50:
        raise ArgumentTypeError("50 messages are the least that can add up to something")
    return number


def _interrupt(_number: int, _frame: object) -> None:
    # Ends like Ctrl-C, so that no worker is left behind.
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
