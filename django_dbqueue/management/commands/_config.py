"""What ``runworker`` is told, and where that comes from: option > environment > file > settings >
default."""

import tomllib
from argparse import Action, ArgumentParser, Namespace, _AppendAction
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ...backoff import Fixed, Listed
from ...conf import conf, nearest
from ...conf.bounds import ProcessRange
from ...exceptions import shown
from ._text import aligned

# What is said of one start, not of a worker, is no matter of a file; nor is what all commands have.
OF_ONE_START = frozenset({"config", "show_config", "once", "reload", "skip_checks", "help"})
# Settings that a worker reads, and that have no option.
MORE_SETTINGS = ("BEAT_INTERVAL", "WORKER_TIMEOUT", "REAP_INTERVAL", "NOTIFY")


@dataclass(frozen=True)
class ConfiguredValue:
    """One value; ``source`` is option, environment, file, setting or default, ``where`` says more
    of it."""

    name: str
    value: Any
    source: str
    where: str


class Configuration:
    """What the command line says, and what a file says where it is silent."""

    def __init__(self, parser: ArgumentParser, given: dict[str, Any], path: str | None) -> None:
        of_every_command = {one.dest for one in BaseCommand().create_parser("", "")._actions}
        left_out = of_every_command | OF_ONE_START
        own = [one for one in parser._actions if one.dest not in left_out]
        self.actions = {_name(one): one for one in own}
        self.path = None if path is None else Path(path)
        self.given = given
        self.of_file = {} if self.path is None else _read(self.path, parser, self.actions)

    def merged(self) -> dict[str, Any]:
        """The command's options, with what the file adds to them."""
        found = dict(self.given)
        for dest, value in self.of_file.items():
            if not is_given(found[dest]) and _source_in_conf(dest) != "environment":
                found[dest] = value
        return found

    def values(self) -> list[ConfiguredValue]:
        names: dict[str, str] = {}
        for name, action in self.actions.items():
            names.setdefault(action.dest, name)
        options = [self._value(name, dest) for dest, name in names.items()]
        return options + [_of_setting(setting, setting) for setting in MORE_SETTINGS]

    def _value(self, name: str, dest: str) -> ConfiguredValue:
        option = f"--{name}" if self.actions[name].option_strings else name
        if is_given(self.given[dest]):
            return ConfiguredValue(name, _plain(self.given[dest]), "option", option)
        if dest in self.of_file and _source_in_conf(dest) != "environment":
            return ConfiguredValue(name, _plain(self.of_file[dest]), "file", str(self.path))
        if dest.upper() in conf:
            return _of_setting(name, dest.upper())
        return ConfiguredValue(name, _plain(self.given[dest]), "default", "")


def _of_setting(name: str, setting: str) -> ConfiguredValue:
    source = conf.source(setting)
    where = {"environment": f"DBQUEUE_{setting}", "setting": f"DBQUEUE[{setting!r}]"}
    return ConfiguredValue(name, _plain(conf[setting]), source, where.get(source, ""))


def _name(action: Action) -> str:
    return action.option_strings[0].lstrip("-") if action.option_strings else action.dest


def is_given(value: Any) -> bool:
    """Whether an option was given; 0 is a value."""
    return value is not None and value is not False and value != []


def _source_in_conf(dest: str) -> str:
    return conf.source(dest.upper()) if dest.upper() in conf else ""


def _read(path: Path, parser: ArgumentParser, actions: Mapping[str, Action]) -> dict[str, Any]:
    """By destination what a file says; ``CommandError`` names the file and the key."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        text = _("%(path)s cannot be read: %(why)s")
        raise CommandError(text % {"path": path, "why": error}) from error
    aliases = {
        text.lstrip("-"): name for name, action in actions.items() for text in action.option_strings
    }
    names = aliases | {name: name for name in actions}
    arguments: list[str] = []
    places: dict[str, str] = {}
    for key, value in content.items():
        name = names.get(key.replace("_", "-")) or _refuse_unknown(path, key, names)
        dest = actions[name].dest
        if dest in places:
            text = _("%(path)s: %(one)s and %(other)s mean the same option")
            raise CommandError(text % {"path": path, "one": key, "other": places[dest]})
        places[dest] = key
        arguments += _arguments(f"{path}: {key}", actions[name], value)
    try:
        parsed: Namespace = parser.parse_args(arguments)
    except CommandError as error:
        raise CommandError(f"{path}: {str(error).removeprefix('Error: ')}") from error
    return {dest: value for dest, value in vars(parsed).items() if dest in places}


def _refuse_unknown(path: Path, key: str, known: Iterable[str]) -> str:
    upper = key.replace("-", "_").upper()
    near = nearest(key.replace("_", "-"), set(known))
    text = _("%(path)s: %(key)s is no option of runworker that a file may hold")
    if upper in conf:
        text = _("%(path)s: %(key)s is a setting: %(setting)s, or %(variable)s in the environment")
    elif near:
        text = _(
            "%(path)s: %(key)s is no option of runworker that a file may hold; did you mean "
            "%(near)s?"
        )
    names = {"setting": f"DBQUEUE[{upper!r}]", "variable": f"DBQUEUE_{upper}", "near": near}
    raise CommandError(text % {"path": path, "key": key, **names})


def _arguments(name: str, action: Action, value: Any) -> list[str]:
    """As the command line would say it."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            text = _("%(name)s must be true or false, not %(given)s")
            raise CommandError(text % {"name": name, "given": shown(value)})
        return list(action.option_strings[:1]) if value else []
    values = value if isinstance(value, list) else [value]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            text = _("%(name)s must be text or a number, or a list, not %(given)s")
            raise CommandError(text % {"name": name, "given": shown(one)})
    texts = [str(one) for one in values]
    if not action.option_strings:
        return texts
    option = action.option_strings[0]
    if isinstance(action, _AppendAction):
        return [f"{option}={text}" for text in texts]
    return [f"{option}={','.join(texts)}"]


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, ProcessRange):
        return value.least if value.least == value.most else str(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Fixed | Listed):
        return value.pause if isinstance(value, Fixed) else list(value.pauses)
    return str(value)


def as_json(values: Iterable[ConfiguredValue]) -> list[dict[str, Any]]:
    return [asdict(one) for one in values]


def as_text(values: Iterable[ConfiguredValue]) -> str:
    sources = {
        "option": pgettext("source of a value", "option"),
        "environment": pgettext("source of a value", "environment"),
        "file": pgettext("source of a value", "file"),
        "setting": pgettext("source of a value", "setting"),
        "default": pgettext("source of a value", "default"),
    }
    rows = [[one.name, _shown(one.value), sources[one.source], one.where] for one in values]
    head = [pgettext("of a thing", "name"), _("value"), pgettext("source of a value", "from")]
    return aligned([[*head, pgettext("source of a value", "where")], *rows])


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
