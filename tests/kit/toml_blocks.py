"""What is wrong with a block of TOML: a file of options for a worker."""

import tomllib

from django.core.management import load_command_class


def problems(text: str) -> list[str]:
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return [f"it is no TOML: {error}"]
    parser = load_command_class("django_dbqueue", "runworker").create_parser("", "runworker")
    known = {option.lstrip("-") for action in parser._actions for option in action.option_strings}
    return [f"runworker has no option {name}" for name in given.keys() - known - {"tables"}]
