"""What a page shows as printed is printed: each such block next to what really comes.

Numbers, times and ids are masked, and ``...`` is anything. What the tutorials show is held by
test_tutorials.py; above a drawing stands the line ``<!-- a drawing -->``.
"""

import ast
import inspect
import re
from io import StringIO

import pytest
from django.core.mail import EmailMessage
from django.core.management import call_command

from django_dbqueue import __version__
from django_dbqueue.conf.bounds import ProcessRange
from django_dbqueue.mail.models import Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.tasks.imports.command import lines as lines_of_import
from django_dbqueue.tasks.imports.sources import SOURCES
from django_dbqueue.tasks.imports.take_over import Report
from django_dbqueue.worker.assignment import QueueName
from django_dbqueue.worker.channel import Waiting
from django_dbqueue.worker.pool import Figures, Pool
from django_dbqueue.worker.scaling_options import ScalingOptions
from testproject.shop.models import Photo, Thumbnail
from tests.kit import shell_blocks
from tests.kit.command_line import dbqueue, status
from tests.kit.inline_worker import logged, work_off
from tests.kit.mail import MAILER, queue_into_memory
from tests.kit.overview import a_worker
from tests.kit.printed_blocks import PAGES, blocks_of
from tests.kit.processes import ROOT
from tests.kit.user_project import Project

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("db_rows")]
# Pages that a test of their own works through.
ELSEWHERE = {
    "docs/message-server.md": "tests/beanstalk/test_message_server.py",
}
IN_PROCESSES = {"docs/adopt.md"}
MASKS = (
    (r"\b[0-9a-f]{8}(?:[0-9a-f]{24}\.\d+(?:-\d+)?)?\b", "ID"),
    (r"\d+(?:[.,:]\d+)*", "N"),
    (r"\bN (?:ms|s|min|h|d)\b(?: N (?:s|min|h)\b)*", "TIME"),
)
SHOWN = {}


def shows(page, beginning):
    """Register what makes the output of a block, which begins with this text."""

    def register(function):
        SHOWN[f"docs/{page}", beginning] = function
        return function

    return register


def shape(text):
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return " ".join(text.split())


def is_as_printed(printed, real):
    pattern = ".*?".join(map(re.escape, re.split(r"\s*\.\.\.\s*", shape(printed))))
    return re.fullmatch(pattern, shape(real)) is not None


def answers(block):
    """What is printed, without the commands of a console."""
    lines = block.text.splitlines(keepends=True)
    return "".join(line for line in lines if not re.match(r"\$ ", line))


BLOCKS = [
    block
    for page in PAGES
    for block in blocks_of(page)
    if block.language in ("text", "console") and "/tutorial" not in block.page
]
OUTPUTS = [block for block in BLOCKS if not block.is_drawing and block.page not in ELSEWHERE]


def makers_of(block):
    return [
        function
        for (page, beginning), function in SHOWN.items()
        if block.page == page and block.text.startswith(beginning)
    ]


# --- what makes them ----------------------------------------------------------------------------


def thumbnails(count):
    photo = Photo.objects.create(title="A mug", image=b"")
    return [Thumbnail.objects.create(photo=photo) for _ in range(count)]


@shows("operations.md", "2026-11-21 12:13:02,383 WARNING")
def a_line_of_the_log(monkeypatch):
    def run(self):
        raise OSError("truncated")

    monkeypatch.setattr(Thumbnail, "run", run)
    thumbnails(1)
    return next(line for line in work_off("shop.Thumbnail").lines if "failed" in line)


@shows("operations.md", "$ python manage.py runworker --config")
def where_each_value_comes_from(monkeypatch, settings, tmp_path):
    settings.DBQUEUE = {"COROUTINES": 10}
    monkeypatch.setenv("DBQUEUE_SLEEP", "0.1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "worker.toml").write_text("processes = 2\n")
    arguments = ("--config", "worker.toml", "--threads", "4", "--show-config")
    with pytest.raises(SystemExit):
        call_command("runworker", *arguments, stdout=(out := StringIO()))
    return out.getvalue()


@shows("admin.md", "$ python manage.py dbqueue explain shop.Thumbnail 17")
def why_a_job_does_not_run():
    Thumbnail.objects.pause("default", reason="the disk is full")
    return dbqueue("explain", "shop.Thumbnail", thumbnails(4)[-1].pk)


@shows("commands.md", "$ python manage.py dbqueue status")
def how_it_is():
    thumbnails(2)
    return status("shop.Thumbnail")


@shows("growing.md", "web1 4711 (")
def what_a_worker_has_decided():
    pool = Pool(ProcessRange(1, 8), ScalingOptions(most=8), 2)
    queue = QueueName("default", "shop.thumbnail", "default")
    made = [
        pool.decide(now, count, count, Figures(now, [Waiting(queue, jobs, waited)], clear, 1, 1))
        for now, count, jobs, waited, clear in ((10, 1, 4950, 1, 120), (20, 2, 10, 14, None))
    ]
    told = [{"seconds": 3 * ago, "text": str(one)} for ago, one in enumerate(reversed(made))]
    shares = {"shop.thumbnail:default": 2, "shop.email:default": 1}
    a_worker(pid=4711, pool={"processes": 3, "decisions": told, "queues": shares})
    return dbqueue("workers").partition("\n\n")[2]


@shows("coroutines.md", "shop.summary 17 has held up")
def what_blocks_all_coroutines():
    stack = '  File ".../shop/models.py", line 20, in run\\n'
    return template("worker/event_loop.py", "held up") % ("shop.summary", 17, 1.2, stack)


def template(module, words):
    """The text of a log's line in the source, as its line breaks are printed."""
    tree = ast.parse((ROOT / "django_dbqueue" / module).read_text())
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    [found] = [text for text in texts if isinstance(text, str) and words in text]
    return found.replace("\n", "\\n")


@shows("from-django-tasks-db.md", "$ python manage.py dbqueue import")
def what_would_come_from_django_tasks_db():
    left = {"SUCCESSFUL": 20388, "FAILED": 3}
    report = Report(SOURCES["django-tasks-db"], 1204, 31, left)
    return "\n".join(lines_of_import(report, dry_run=True))


@shows("from-dj-queue.md", "$ python manage.py dbqueue import")
def what_would_come_from_dj_queue():
    report = Report(SOURCES["dj-queue"], 812, 40, {"finished": 5021, "failed": 7})
    report.notes.append("paused there, and not here: reports")
    return "\n".join(lines_of_import(report, dry_run=True))


ORDER = """
class Order({base}):
    item = models.CharField(max_length=50)

    class Meta{meta}:
        pass
{run}
"""


@shows("adopt.md", "$ python manage.py dbqueue adopt shop.Order")
def how_a_table_is_adopted(tmp_path):
    project = Project(tmp_path, f"sqlite:///{tmp_path}/kiosk.sqlite3")
    project.models(ORDER.format(base="models.Model", meta="", run=""))
    project.run("makemigrations", "kiosk")
    run = "    def run(self):\n        pass\n"
    project.models(ORDER.format(base="Job", meta="(Job.Meta)", run=run))
    said = project.run("dbqueue", "adopt", "kiosk.Order")
    return said.replace(f"{tmp_path}/", "").replace("kiosk", "shop")


@shows("mail.md", "messages of djoser.email.ActivationEmail")
def what_is_not_stored(settings):
    queue_into_memory(settings)
    kind = type("ActivationEmail", (EmailMessage,), {"__module__": "djoser.email"})
    message = kind("Hello", "", None, ["anna@example.org"])
    message.context = message.request = message.template_name = object()
    with logged() as log:
        message.send()
    return log.records[0].getMessage()


@shows("mail.md", "26 by default: to")
def what_would_be_sent(settings):
    queue_into_memory(settings)
    Suppression.objects.suppress("gone@example.com", Reason.BOUNCE)
    for to in (["fred@example.com"], ["dora@example.com", "gone@example.com"]):
        EmailMessage("Hello", "", None, to).send()
    call_command("send_queued_mail", "--dry-run", stdout=(out := StringIO()))
    # From Django 6.1 on it has a name.
    return out.getvalue().replace(f"by {MAILER}:", "by default:")


@shows("mail.md", "$ python manage.py index_recipients")
def what_was_indexed():
    call_command("index_recipients", stdout=(out := StringIO()))
    return out.getvalue()


@shows("mail.md", "$ python manage.py forget_address")
def what_would_be_forgotten(settings):
    queue_into_memory(settings)
    for to in (["anna@example.org"], ["anna@example.org", "bert@example.org"]):
        EmailMessage("Hello", "", None, to).send()
    arguments = ("anna@example.org", "--dry-run")
    call_command("forget_address", *arguments, stdout=(out := StringIO()))
    return out.getvalue()


@shows("deployment.md", "./wheels/django_dbqueue-")
def what_an_image_needs():
    wheel = f"./wheels/django_dbqueue-{__version__}-py3-none-any.whl"
    return f"{wheel}[postgresql]\ndj-database-url\ngunicorn\n"


@shows("mail.md", "*/5 * * * *")
def a_line_for_cron():
    [block] = [block for block in OUTPUTS if block.text.startswith("*/5")]
    command = block.text.removeprefix("*/5 * * * *")
    assert shell_blocks.problems(command) == []
    return block.text


# --- the comparison -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(one, marks=[pytest.mark.process] * (one.page in IN_PROCESSES))
        for one in OUTPUTS
    ],
    ids=str,
)
def test_what_a_page_shows_is_what_is_printed(block, request):
    [make] = makers_of(block)
    asked = inspect.signature(make).parameters
    real = make(**{name: request.getfixturevalue(name) for name in asked})
    assert is_as_printed(answers(block), real), real


def test_all_that_is_made_is_on_a_page():
    used = [make for block in OUTPUTS for make in makers_of(block)]
    assert sorted(map(id, used)) == sorted(map(id, SHOWN.values()))


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_a_page_that_is_left_out_here_has_a_test_of_its_own(page, test):
    assert page.rpartition("/")[2] in (ROOT / test).read_text()


@pytest.mark.parametrize(
    ("printed", "real"),
    [
        ("3 jobs are ready", "3 jobs are late"),
        ("a 1\n...\nc 2", "a 1\nb 2"),
        ("ready  done\n1", "ready  done  late\n1"),
        ("retried in 10 s", "retried at once"),
    ],
)
def test_what_is_printed_otherwise_is_noticed(printed, real):
    assert not is_as_printed(printed, real)


def test_numbers_times_and_spaces_may_differ():
    assert is_as_printed("a  17  2 h 5 min\n...\nb", "a 4,950   1.1 s\nmore\nb")
