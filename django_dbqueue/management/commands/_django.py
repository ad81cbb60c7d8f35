"""Django's own options, which may stand after a verb, too."""

from argparse import SUPPRESS, ArgumentParser, _SubParsersAction
from functools import partial

NAMED = ("--settings", "--pythonpath")
SWITCHES = ("--traceback", "--no-color", "--force-color")


def take_djangos(parser: ArgumentParser) -> None:
    """By each of its verbs; `--help` of these does not say so."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for verb in set(action.choices.values()):
                _add(verb)
                take_djangos(verb)


def _add(parser: ArgumentParser) -> None:
    # What is not given leaves what stands before the verb.
    add = partial(parser.add_argument, default=SUPPRESS, help=SUPPRESS)
    add("-v", "--verbosity", type=int, choices=range(4))
    for name in NAMED:
        add(name)
    for name in SWITCHES:
        add(name, action="store_true")
