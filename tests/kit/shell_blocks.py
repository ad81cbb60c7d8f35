"""What is wrong with a block of a shell's commands: no shell reads it, or it names what is not."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from importlib.util import find_spec

from django.core.management import CommandError, get_commands, load_command_class

from tests.kit.processes import ROOT

# Programs of others that pages tell to run.
OF_OTHERS = {
    *("alert", "apt", "cd", "cp", "echo", "export", "git", "kill", "mkdir", "umask"),
    *("docker", "gunicorn", "heroku", "kubectl", "openssl", "pip", "pytest", "twine", "uvicorn"),
    *("systemctl", "systemd-analyze"),
}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg")
EXTRAS = set(SETUP["options.extras_require"])
BETWEEN = {"||", "&&", ";", "|", "&", "(", ")"}


def commands_of_console(text: str) -> str:
    """What somebody enters, without what is answered."""
    entered = re.findall(r"^\$ ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    return "\n".join(entered)


def problems(text: str) -> list[str]:
    checked = subprocess.run(
        ["bash", "-n"], input=text, capture_output=True, text=True, check=False
    )
    if checked.returncode:
        return [f"no shell reads it: {checked.stderr.strip()}"]
    return [problem for words in simple_commands(text) for problem in of_command(words)]


def simple_commands(text: str) -> Iterator[list[str]]:
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)  # the default of a variable
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&()")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in BETWEEN:
                words.append(word)
            elif words:
                yield without_assignments(words)
                words = []


def without_assignments(words: list[str]) -> list[str]:
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


def of_command(words: list[str]) -> Iterator[str]:
    if not words:
        return
    program = words[0].rpartition("/")[2]
    if program in ("python", "python3"):
        yield from of_python(words[1:])
    elif program == "make":
        names = [word for word in words[1:] if "=" not in word]
        yield from (f"there is no make {name}" for name in names if name not in TARGETS)
    elif program == "pip":
        extras = re.findall(r"(?:django-dbqueue|\.)\[([\w,]+)\]", " ".join(words))
        wanted = {extra for found in extras for extra in found.split(",")}
        yield from (f"there is no extra {extra}" for extra in wanted - EXTRAS)
    elif program not in OF_OTHERS:
        yield f"what is {program}? Name it among the programs of others, or mend it"


def of_python(words: list[str]) -> Iterator[str]:
    if words[:1] == ["manage.py"]:
        yield from of_management(words[1:])
    elif words[:1] == ["-m"]:
        if words[1] != "venv" and find_spec(words[1]) is None:
            yield f"there is no module {words[1]}"
        paths = [word.partition("::")[0] for word in words[2:] if word.startswith("tests/")]
        yield from (f"there is no {path}" for path in paths if not (ROOT / path).exists())
    elif words and not (ROOT / words[0]).exists():
        yield f"there is no {words[0]}"


def of_management(words: list[str]) -> Iterator[str]:
    """The command's own parser says whether it would take that."""
    name, *arguments = words
    if name not in get_commands():
        yield f"there is no command {name}"
        return
    command = load_command_class(get_commands()[name], name)
    try:
        command.create_parser("manage.py", name).parse_args(arguments)
    except (CommandError, SystemExit) as error:
        yield f"{' '.join(words)}: {error}"
