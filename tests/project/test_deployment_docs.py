"""The deployment examples and the pages for operators name what exists, as it is."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml
from django.core.management import CommandError, load_command_class

from django_dbqueue.management.commands.runworker import MIGRATIONS_MISSING
from django_dbqueue.worker.options import EXIT_LIMIT_REACHED, EXIT_STOPPED
from tests.kit.processes import ROOT

DOCS = ROOT / "docs"
UNIT = (DOCS / "examples/dbqueue-worker@.service").read_text()
COMPOSE = (DOCS / "examples/compose.yaml").read_text()
KUBERNETES = (DOCS / "examples/kubernetes.yaml").read_text()
DOCKERFILE = (DOCS / "examples/Dockerfile").read_text()
DEPLOYMENT = (DOCS / "deployment.md").read_text()
OPERATIONS = (DOCS / "operations.md").read_text()
# Options of other programs that the pages name.
FOREIGN = {
    *("--queue-name", "--exclude-queues", "--batch", "--max-tasks", "--backend"),  # of db_worker
    *("--autoscale", "--concurrency", "--pool"),  # of Celery
    *("--max-memory-per-child", "--max-tasks-per-child"),  # of Celery
    *("--burst", "--duration", "--max-idle-time", "--num-workers", "--with-scheduler"),  # of RQ
    *("--days", "--lockfile"),  # of django-post_office
    "--single-transaction",  # of mariadb-dump
    *("--full", "--only", "--part", "--suite"),  # of our tests and benchmarks
    "--daemon",  # of Laravel
    *("--range", "--hours"),  # of Laravel
    "--measure",
    "--without",
    "--gil",
    "--now",
    "--kill-whom",
    *("--scale", "--build", "--follow"),  # of docker compose
    *("--no-deps", "--wheel-dir"),  # of pip
    "--bind",
    "--fake-initial",
    *("--noinput", "--username", "--email"),  # of createsuperuser
    "--sign",  # of git
    "--deploy",
}
ARGPARSE_ERROR = 2


COMMANDS = {
    "runbeanstalkd": "django_dbqueue.beanstalk",
    **dict.fromkeys(("runworker", "runreaper", "dbqueue"), "django_dbqueue"),
    **dict.fromkeys(("send_queued_mail", "forget_address"), "django_dbqueue.mail"),
}


def options_of(name):
    """All options of a command, those of its verbs too."""
    parsers, found = [load_command_class(COMMANDS[name], name).create_parser("", name)], set()
    for parser in parsers:
        for action in parser._actions:
            found.update(option for option in action.option_strings if option.startswith("--"))
            if isinstance(action.choices, dict):
                parsers.extend(action.choices.values())
    return found


def named(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text))


def worker_command(text):
    """The arguments after ``runworker`` in an example."""
    _, _, rest = text.partition("runworker")
    if text is UNIT:
        return shlex.split(rest.partition("\n")[0])
    return re.findall(r"^ *- (--\S+)$", rest, re.MULTILINE)


@pytest.mark.parametrize("text", [UNIT, COMPOSE, KUBERNETES], ids=["unit", "compose", "kubernetes"])
def test_the_examples_start_a_worker_that_understands_them(text):
    arguments = worker_command(text)
    assert len(arguments) >= 5
    parser = load_command_class("django_dbqueue", "runworker").create_parser("", "runworker")
    assert parser.parse_args(arguments).max_memory


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (UNIT, r"TimeoutStopSec=(\d+)"),
        (COMPOSE, r"stop_grace_period: (\d+)s"),
        (KUBERNETES, r"terminationGracePeriodSeconds: (\d+)"),
    ],
    ids=["unit", "compose", "kubernetes"],
)
def test_the_examples_give_more_time_than_the_worker_takes(text, pattern):
    [taken] = re.findall(
        r"--shutdown-timeout[= ](\d+)",
        "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")),
    )
    [given] = re.findall(pattern, text)
    assert int(given) >= int(taken) + 10


TEXTS = sorted(page for page in DOCS.glob("**/*.*") if page.suffix not in (".gif", ".png"))


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_option_that_a_page_names_exists(page):
    known = set().union(*map(options_of, COMMANDS)) | FOREIGN
    assert named(page.read_text()) - known == set()


def test_the_operations_page_knows_every_option_of_a_worker():
    standard = options_of("dbqueue") - {"--json", "--database"}
    assert options_of("runworker") - standard - named(OPERATIONS) == set()


@pytest.mark.parametrize("name", ["send_queued_mail", "forget_address"])
def test_the_page_of_mail_knows_every_option_of_its_commands(name):
    page = (DOCS / "mail.md").read_text()
    assert name in page
    standard = options_of("runreaper") - {"--json"}
    assert options_of(name) - standard - named(page) == set()


def test_the_operations_page_has_the_exit_codes_of_the_code():
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", OPERATIONS, re.MULTILINE)}
    usual = CommandError("").returncode, ARGPARSE_ERROR
    assert codes == {EXIT_STOPPED, *usual, MIGRATIONS_MISSING, EXIT_LIMIT_REACHED}
    for setting in ("SuccessExitStatus", "RestartForceExitStatus"):
        assert f"\n{setting}={EXIT_LIMIT_REACHED}\n" in UNIT


def test_the_operations_page_knows_every_event():
    code = "".join(path.read_text() for path in (ROOT / "django_dbqueue").rglob("*.py"))
    events = set(re.findall(r'"((?:job|worker)\.[a-z]+)"', code))
    assert len(events) > 10
    assert set(re.findall(r"`((?:job|worker)\.[a-z]+)`", OPERATIONS)) == events


def test_the_examples_are_sound_yaml():
    services = yaml.safe_load(COMPOSE)["services"]
    assert services["worker"]["command"][:3] == ["python", "manage.py", "runworker"]
    assert {part["kind"] for part in yaml.safe_load_all(KUBERNETES)} == {"Job", "Deployment"}


def test_compose_gives_the_settings_of_the_page_what_they_read():
    [settings] = re.findall(
        r"^```python\n(# project/settings.py\n.*?)^```", DEPLOYMENT, re.M | re.S
    )
    services = yaml.safe_load(COMPOSE)["services"]
    for name in ("migrate", "web", "worker"):
        given = set(services[name]["environment"]) - {"DJANGO_SETTINGS_MODULE"}
        assert given == set(re.findall(r'os\.environ\["(\w+)"\]', settings))
    asked_for = set(re.findall(r"\$\{(\w+):\?\}", COMPOSE))
    assert asked_for == set(re.findall(r'^echo "(\w+)=.*\.env$', DEPLOYMENT, re.MULTILINE))


def test_the_image_is_built_of_what_the_page_tells_to_make_and_runs_as_nobody_of_note():
    lines = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    steps = [line.split() for line in lines]
    copied = {step[1] for step in steps if step[0] == "COPY"} - {"."}
    assert copied == {"requirements.txt", "wheels"}
    assert "--wheel-dir wheels" in DEPLOYMENT
    assert "`requirements.txt` names" in DEPLOYMENT
    assert steps[0][0] == "FROM"
    assert steps[-1][0] == "USER"
    assert f"useradd --system {steps[-1][1]}" in DOCKERFILE


def test_systemd_accepts_the_unit(tmp_path):
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "dbqueue-worker@1.service"
    unit.write_text(UNIT.replace("/srv/app/.venv/bin/python", sys.executable))
    verdict = subprocess.run(
        [analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (verdict.returncode, verdict.stderr) == (0, "")
