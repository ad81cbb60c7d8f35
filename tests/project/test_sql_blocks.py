"""The statements that the docs print do on the servers what the pages say."""

import re
from datetime import UTC, datetime

import pytest
from django.db import connection

from django_dbqueue.states import Status
from testproject.shop.models import Photo, Thumbnail
from tests.kit.printed_blocks import blocks_of
from tests.kit.processes import ROOT
from tests.queueapp.models import ArchivedKept

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.each_database,
    pytest.mark.skipif(connection.vendor == "sqlite", reason="the pages speak of servers"),
]

IS_POSTGRESQL = connection.vendor == "postgresql"
ARCHIVE = "shop_archivedthumbnail"
PARTITIONS = (
    f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{ARCHIVE}'::regclass"
    if IS_POSTGRESQL
    else "SELECT partition_name FROM information_schema.partitions "
    f"WHERE table_schema = DATABASE() AND table_name = '{ARCHIVE}'"
)


KEPT = ArchivedKept._meta.db_table


def printed(page):
    return [block.text for block in blocks_of(ROOT / page) if block.language == "sql"]


def run(text):
    """Each of the statements; the rows of the last."""
    statements = re.sub(r"^--.*$", "", text, flags=re.MULTILINE).split(";")
    with connection.cursor() as cursor:
        for statement in filter(None, map(str.strip, statements)):
            cursor.execute(statement)
        return [*cursor.fetchall()] if cursor.description else []


def partitions():
    return {name.removeprefix(f"{ARCHIVE}_") for (name,) in run(PARTITIONS)}


def ended(month):
    """The key of a job that has ended then."""
    day = datetime(2026, month, 15, tzinfo=UTC)
    ArchivedKept.objects.create(pk=month, status=Status.DONE, created_at=day, finished_at=day)
    return month


@pytest.fixture
def archive():
    """A table like that of any archive."""
    ended(11)
    how = f"(LIKE {KEPT} INCLUDING ALL)" if IS_POSTGRESQL else f"LIKE {KEPT}"
    run(f"CREATE TABLE {ARCHIVE} {how}; INSERT INTO {ARCHIVE} SELECT * FROM {KEPT}")
    yield
    run(f"ROLLBACK; DROP TABLE {ARCHIVE}")


def test_an_archive_is_parted_by_months_and_its_first_part_is_dropped(archive):
    blocks = printed("docs/large-tables.md")
    assert len(blocks) == 4
    part, go_on = blocks[:2] if IS_POSTGRESQL else blocks[2:]
    december = "2026_12" if IS_POSTGRESQL else "p2026_12"
    january = december.replace("2026_12", "2027_01")
    run(part)
    assert partitions() == {"first", december, "rest"}
    run(f"INSERT INTO {ARCHIVE} SELECT * FROM {KEPT} WHERE id = {ended(12)}")
    assert run(f"SELECT id FROM {ARCHIVE} ORDER BY id") == [(11,), (12,)]
    run(go_on)
    assert partitions() == {december, january, "rest"}
    assert run(f"SELECT id FROM {ARCHIVE}") == [(12,)]


def test_after_a_failover_new_jobs_have_ids_that_nobody_was_told():
    photo = Photo.objects.create()
    last = Thumbnail.objects.create(photo=photo).pk
    [block] = printed("docs/failover.md")
    postgresql, mariadb = block.split("-- MariaDB", 1)
    if IS_POSTGRESQL:
        run(postgresql)
        assert Thumbnail.objects.create(photo=photo).pk > last + 100_000
    else:
        ask, move = f"-- {mariadb}".split(";", 1)
        [[number]] = run(ask)
        assert number == last + 100_000
        run(move.replace("123456", str(number)))
        assert Thumbnail.objects.create(photo=photo).pk >= number
