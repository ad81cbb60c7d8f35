"""``dbqueue adopt``: a table with rows becomes a queue table, and no old row runs."""

import time
from pathlib import Path

import pytest
from django.db import connection

from tests.kit.connections import is_mysql
from tests.kit.user_project import Project, own_database

pytestmark = pytest.mark.usefixtures("db_rows")

BEFORE = """
class Order(models.Model):
    {key}
    item = models.CharField(max_length=100)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["item"])]
"""
AFTER = """
import os
from pathlib import Path

class Order(Job):
    {key}
    item = models.CharField(max_length=100)

    class Meta(Job.Meta):
        ordering = ["id"]
        indexes = [*Job.Meta.indexes, models.Index(fields=["item"])]

    def run(self):
        with Path(os.environ["KIOSK_LOG"]).open("a") as log:
            log.write(self.item + "\\n")
"""
KEYS = {
    "int": "id = models.AutoField(primary_key=True)",
    "uuid": (
        "import uuid\n"
        "    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)"
    ),
}
DOCS = (Path(__file__).resolve().parents[2] / "docs" / "adopt.md").read_text()
ADOPT = ["dbqueue", "adopt", "kiosk.Order"]
MAKE = """
from django.core.management import call_command
call_command("makemigrations", "kiosk", verbosity=0)
call_command("migrate", verbosity=0)
Order.objects.bulk_create([Order(item="old") for _ in range({rows})], batch_size=5000)
"""
COUNT = "print(Order.objects.done().count(), Order.objects.count())\n"
NEW = "Order.objects.create(item='new')\n"


@pytest.fixture
def project(tmp_path, database_url):
    with own_database(database_url, tmp_path) as address:
        project = Project(tmp_path, address)
        project.environment["KIOSK_LOG"] = str(tmp_path / "log")
        yield project


def an_old_table(project, key="", rows=3):
    """An ordinary table with rows; its model has just been made a Job."""
    project.models(BEFORE.format(key=key))
    project.shell(MAKE.format(rows=rows))
    project.models(AFTER.format(key=key))


def an_old_model(project):
    """The same without a database: there is a migration that makes the table."""
    project.models(BEFORE.format(key=""))
    project.answers(["makemigrations", "kiosk"])
    project.models(AFTER.format(key=""))


def columns_of(project):
    """The table as the database describes it: columns, constraints and rows."""
    return project.shell("""
from django.db import connection
with connection.cursor() as cursor:
    describe = connection.introspection
    columns = describe.get_table_description(cursor, "kiosk_order")
    constraints = describe.get_constraints(cursor, "kiosk_order")
    cursor.execute("SELECT id, item FROM kiosk_order ORDER BY id")
    rows = cursor.fetchall()
print(sorted((c.name, c.type_code, c.null_ok, c.default) for c in columns))
print(sorted((tuple(c["columns"]), c["unique"], c["index"]) for c in constraints.values()))
print(rows)
""")


@pytest.mark.proof
def test_of_a_thousand_old_rows_none_runs_and_the_next_one_does(project, full):
    rows = 1_000_000 if full else 1_000
    an_old_table(project, rows=rows)
    project.run(*ADOPT)
    started = time.monotonic()
    project.run("migrate")
    seconds = time.monotonic() - started
    project.run("makemigrations", "kiosk", "--check")
    project.shell(NEW)
    project.run("runworker", "--stop-when-empty")
    runs = Path(project.environment["KIOSK_LOG"]).read_text().splitlines()
    count_old = "print(Order.objects.done().filter(finished_at=None).count())"
    done, total, old = map(int, project.shell(COUNT + count_old).split())
    print(
        f"\n{rows} old rows, adopted in {seconds:.1f} s: {len(runs)} run ({runs}), {old} old done"
    )
    assert runs == ["new"]
    assert (old, done, total) == (rows, rows + 1, rows + 1)


@pytest.mark.parametrize("key", KEYS)
def test_old_rows_are_done_whatever_their_keys_are(project, key):
    an_old_table(project, KEYS[key])
    project.answers(ADOPT, ["migrate"])
    assert project.shell(COUNT + NEW) == "3 3"
    project.run("runworker", "--stop-when-empty")
    assert Path(project.environment["KIOSK_LOG"]).read_text() == "new\n"
    assert project.shell(COUNT) == "4 4"


def test_a_queue_that_has_no_default_any_more_is_one_for_old_rows(project):
    an_old_table(project)
    required = "from django_dbqueue.fields import NameField\n    queue = NameField()"
    project.models(AFTER.format(key=required))
    *_, nothing, _ = project.answers(ADOPT, ["makemigrations", "kiosk", "--check"], ["migrate"])
    assert "No changes" in nothing
    print_queues = "print({*Order.objects.values_list('queue', 'status')})"
    assert project.shell(print_queues) == "{('default', 2)}"


def test_migrating_backwards_gives_the_old_table_back(project):
    an_old_table(project)
    before = columns_of(project)
    project.answers(ADOPT, ["migrate"])
    assert columns_of(project) != before
    project.run("migrate", "kiosk", "0001")
    assert columns_of(project) == before


@pytest.mark.any_database
def test_it_says_what_the_migration_does_and_what_comes_next(project):
    an_old_model(project)
    [told] = project.answers([*ADOPT, "--name", "queue_of_orders"])
    path = project.migrations / "0002_queue_of_orders.py"
    assert told.splitlines()[0] == str(path.relative_to(project.folder))
    assert "Add field status to order" in told
    assert "never run" in told
    assert "never archived or pruned" in told
    assert told.endswith("  manage.py migrate kiosk\n")
    assert "makemigrations" not in told
    assert "kiosk.Order becomes a queue table" in path.read_text()


@pytest.mark.any_database
def test_of_a_table_on_several_databases_each_is_migrated(project):
    an_old_model(project)
    on_both = "@classmethod\n    def written_databases(cls):\n        return ['default', 'north']\n"
    project.models(AFTER.format(key=on_both))
    [told] = project.answers(ADOPT)
    commands = ["  manage.py migrate kiosk", "  manage.py migrate kiosk --database north"]
    assert told.splitlines()[-2:] == commands


@pytest.mark.any_database
def test_a_dry_run_prints_the_migration_and_writes_nothing(project):
    an_old_model(project)
    [printed] = project.answers([*ADOPT, "--dry-run"])
    assert [path.name for path in project.migrations.glob("0*.py")] == ["0001_initial.py"]
    project.run(*ADOPT)
    written = (project.migrations / "0002_adopt_order.py").read_text()
    without_date = [text.strip().splitlines()[1:] for text in (printed, written)]
    assert without_date[0] == without_date[1]


@pytest.mark.any_database
def test_changes_of_ones_own_are_named_and_left_to_makemigrations(project):
    an_old_model(project)
    changed = AFTER.format(key="note = models.TextField(default='')").replace('["id"]', '["item"]')
    project.models(changed)
    told, rest, nothing = project.answers(
        ADOPT, ["makemigrations", "kiosk"], ["makemigrations", "kiosk", "--check"]
    )
    about_the_rest = told.partition("makemigrations kiosk")[2]
    for change in ("Add field note to order", "Change Meta options"):
        assert change in about_the_rest
        assert change in rest
    assert "note" not in (project.migrations / "0002_adopt_order.py").read_text()
    assert "No changes" in nothing


def test_old_code_reads_and_updates_after_the_migration_and_its_inserts_are_refused(project):
    an_old_table(project)
    project.answers(ADOPT, ["migrate"])
    project.models(BEFORE.format(key=""))
    project.shell("""
from django.db import Error
old = Order.objects.first()
old.item = "changed"
old.save()
try:
    Order.objects.create(item="in between")
except Error:
    pass
else:
    raise SystemExit("inserted")
""")
    project.models(AFTER.format(key=""))
    print_first = "print(Order.objects.order_by('id').first().item)"
    assert project.shell(COUNT + print_first).splitlines() == ["3 3", "changed"]


@pytest.mark.skipif(connection.vendor == "sqlite", reason="alters no default of a column")
def test_with_the_defaults_of_the_docs_old_code_goes_on_inserting(project):
    an_old_table(project)
    project.run(*ADOPT)
    _, _, after = DOCS.partition("migrations.RunSQL(")
    defaults, _, _ = after.partition("```")
    path = project.migrations / "0002_adopt_order.py"
    steps = f"migrations.RunSQL({defaults.strip()},\n".replace("shop_order", "kiosk_order")
    if is_mysql():
        steps = steps.replace("errors SET DEFAULT '[]'", "errors SET DEFAULT (JSON_ARRAY())")
    place = "migrations.AddConstraint("
    path.write_text(path.read_text().replace(place, steps + place))
    project.run("migrate")
    project.models(BEFORE.format(key=""))
    project.shell("Order.objects.create(item='in between')")
    project.models(AFTER.format(key=""))
    print_errors = "print(Order.objects.get(item='in between').errors)"
    assert project.shell(NEW + COUNT + print_errors).splitlines() == ["4 5", "[]"]


def test_old_rows_are_as_old_as_the_migration_and_new_ones_as_themselves(project):
    project.environment |= {"TEST_USE_TZ": "0", "TEST_TIME_ZONE": "Asia/Tokyo"}
    an_old_table(project)
    project.answers(ADOPT, ["migrate"])
    print_ages = """
from django_dbqueue.fields import DbNow
Order.objects.create(item="new")
for order in Order.objects.annotate(now=DbNow()).order_by("created_at"):
    print(order.item, 0 <= (order.now - order.created_at).total_seconds() < 60)
"""
    assert project.shell(print_ages).splitlines() == ["old True"] * 3 + ["new True"]


FAULTY_BEFORE = """
class Plain(models.Model):
    pass

class Clash(models.Model):
    status = models.CharField(max_length=10)
    created_at = models.DateTimeField(auto_now_add=True)
    effort = models.IntegerField(db_column="Attempts")
    errors = models.ManyToManyField(Plain)
    fine = models.TextField()

class Keyed(models.Model):
    concurrency_key = models.TextField()

class Bare(models.Model):
    pass

class Verb(models.Model):
    release = models.TextField()

class Worker(models.Model):
    pass

class Adopted(Job):
    class Meta(Job.Meta):
        pass
"""
FAULTY_AFTER = """
from django_dbqueue.models import KeyedJob

class Plain(models.Model):
    pass

class Clash(Job):
    fine = models.TextField()

    class Meta(Job.Meta):
        pass

class Keyed(KeyedJob):
    class Meta(KeyedJob.Meta):
        pass

class Bare(Job):
    class Meta:
        ordering = ["id"]

class Verb(Job):
    release = models.TextField()

    class Meta(Job.Meta):
        pass

class Worker(models.Model):
    pass

class Adopted(Job):
    class Meta(Job.Meta):
        pass

class Sub(Adopted):
    class Meta:
        proxy = True

class New(Job):
    class Meta(Job.Meta):
        pass

class Foreign(Job):
    class Meta(Job.Meta):
        managed = False
"""
REFUSED = {
    "kiosk.Plan": ["no installed model", "'kiosk.plan'", "did you mean kiosk.plain?"],
    "x": ["no installed model", "app.model"],
    "worker": ["which one?", "kiosk.worker", "dbqueue.worker"],
    "kiosk.Plain": ["no queue table", "class plain(job)", "class meta(job.meta)"],
    "kiosk.Sub": ["proxy", "adopt kiosk.adopted"],
    "kiosk.Foreign": ["managed = false"],
    "kiosk.New": ["no migration creates", "makemigrations kiosk", "--fake-initial"],
    "kiosk.Adopted": ["already", "nothing to do"],
    "kiosk.Clash": [
        "status (charfield)",
        "created_at (datetimefield)",
        "effort (integerfield)",
        "errors (manytomanyfield)",
        "rename them first",
        "makemigrations kiosk",
    ],
    "kiosk.Keyed": ["concurrency_key (textfield)", "rename them first"],
    "kiosk.Bare": ["has lost the indexes", "class meta(job.meta)", "dbqueue.e001"],
    "kiosk.Verb": ["'release' is a verb", "dbqueue.e003"],
}


@pytest.mark.any_database
def test_what_cannot_be_adopted_is_refused_with_what_to_do_first(project):
    project.models(FAULTY_BEFORE)
    project.run("makemigrations", "kiosk")
    project.models(FAULTY_AFTER)
    answers = project.answers(*(["dbqueue", "adopt", label] for label in REFUSED))
    for (label, words), answer in zip(REFUSED.items(), answers, strict=True):
        assert answer.startswith("refused: "), label
        assert [word for word in words if word not in answer.lower()] == [], answer
    [clash] = [answer for answer in answers if "Clash" in answer]
    assert "fine" not in clash
    assert [path.name for path in project.migrations.glob("0*.py")] == ["0001_initial.py"]


@pytest.mark.any_database
def test_the_command_line_shows_the_refusal_alone(project):
    an_old_model(project)
    project.run(*ADOPT)
    said = project.run(*ADOPT, code=2)
    assert said.splitlines() == [
        "kiosk.Order is a queue table in its migrations already: nothing to do."
    ]


@pytest.mark.any_database
def test_a_migration_that_would_run_the_old_rows_is_named(project):
    an_old_model(project)
    project.answers(["makemigrations", "kiosk", "--name", "too_early"])
    [answer] = project.answers(ADOPT)
    for word in ("kiosk.0002_too_early", "will run", "delete that file"):
        assert word in answer


@pytest.mark.any_database
def test_an_app_without_migrations_or_with_two_ends_is_refused(project):
    project.models(AFTER.format(key=""))
    [answer] = project.answers(ADOPT)
    assert "No migration creates kiosk.Order" in answer
    an_old_model(project)
    [text] = project.answers([*ADOPT, "--dry-run"])
    for name in ("0002_a", "0002_b"):
        (project.migrations / f"{name}.py").write_text(text)
    [answer] = project.answers(ADOPT)
    assert "0002_a and 0002_b" in answer
    assert "makemigrations --merge kiosk" in answer


@pytest.mark.any_database
def test_a_file_that_cannot_be_written_or_named_is_refused(project):
    an_old_model(project)
    too_long, badly_named = project.answers(
        [*ADOPT, "--name", "a" * 300], [*ADOPT, "--name", "no-name"]
    )
    assert too_long.startswith("refused: The migration cannot be written: ")
    assert badly_named.startswith("refused: 'no-name' is no name for a migration")
