"""A disk that is full: nothing starts while no outcome can be written, and nothing is lost."""

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from django.db import connection

from tests.kit.outage_scene import at_work, check_each_ran_once, notes, settled, starts
from tests.kit.processes import lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytest_plugins = "tests.kit.private_server"
pytestmark = pytest.mark.skipif(
    connection.vendor == "sqlite",
    reason="see worker/test_outages_sqlite.py: SQLite can be told a size",
)
COUNT, FEW = 300, 10  # jobs
SPARE = 32 << 20  # bytes; InnoDB calls a table full long before the disk is
TAKE_ROOM = {
    "mysql": [
        (
            "CREATE TRIGGER no_room BEFORE UPDATE ON queueapp_note FOR EACH ROW "
            "IF NEW.status = 2 THEN SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114; END IF"
        )
    ],
    "postgresql": [
        (
            "CREATE OR REPLACE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$"
        ),
        (
            "CREATE TRIGGER no_room BEFORE UPDATE ON queueapp_note FOR EACH ROW "
            "WHEN (NEW.status = 2) EXECUTE FUNCTION no_room()"
        ),
    ],
}
# What other tests have deleted leaves room in the table's own pages.
COMPACT = {
    "mysql": "OPTIMIZE TABLE queueapp_note",
    "postgresql": "VACUUM FULL queueapp_note",
}
GIVE_ROOM = {
    "mysql": "DROP TRIGGER IF EXISTS no_room",
    "postgresql": "DROP TRIGGER IF EXISTS no_room ON queueapp_note",
}


@pytest.mark.proof
def test_nothing_starts_while_outcomes_find_no_room_and_none_is_lost(private, log, tmp_path):
    with on_a_disk_of_its_own(private, tmp_path / "disk") as disk:
        add_failing(FEW, log)
        args = "queueapp.Note", "--tries", "1", "--batch-size", "5"
        with worker(private.database_url, *args) as process:
            wait_until(lambda: notes().buried().count() == FEW, seconds=180)
            # However long that takes, no job runs meanwhile.
            process.send_group(signal.SIGSTOP)
            add_failing(COUNT - FEW, log)
            fill(disk / "ballast")
            process.send_group(signal.SIGCONT)
            # What had room yet may have been the last outcome before the next claim; or, where all
            # of it took longer than a worker may be away, a claim before the next beat.
            full = "recording outcomes: ", "claiming: ", "starting nothing until it works"
            wait_until(lambda: any(word in process.stderr for word in full))
            before = settled(log)
            assert FEW <= before < COUNT
            print(f"{before} of {COUNT} jobs had started when nothing could be written any more")
            (disk / "ballast").unlink()
            wait_until(lambda: notes().buried().count() == COUNT)
            at_work(process)
    assert len(lines(log)) == len(starts(log)) == COUNT
    assert not notes().exclude(attempts=1, crashes=0).exists()


def add_failing(count, log):
    """Each outcome is an error with a traceback: together more than InnoDB keeps in reserve."""
    notes().bulk_create(
        Note(action="fail", seconds=0.01, text="x" * 6000, log=log) for _ in range(count)
    )


def test_claims_stop_while_only_completions_find_no_room(private, log):
    notes().bulk_create(Note(seconds=0.01, log=log) for _ in range(COUNT))
    args = "queueapp.Note", "--batch-size", "5"
    with without_room_for_completions(private), worker(private.database_url, *args) as process:
        wait_until(lambda: "recording outcomes: " in process.stderr)
        before = settled(log)
        assert 0 < before < COUNT
        private.sql(GIVE_ROOM[connection.vendor])
        check_each_ran_once(log, process)


@contextmanager
def without_room_for_completions(private):
    for statement in TAKE_ROOM[connection.vendor]:
        private.sql(statement)
    try:
        yield
    finally:
        private.sql(GIVE_ROOM[connection.vendor])


@contextmanager
def on_a_disk_of_its_own(private, disk):
    """Have the server keep its tables on a small disk in memory; the rest of it stays."""
    private.sql(COMPACT[connection.vendor])
    files = tables_of(private)
    size = SPARE + sum(file.stat().st_size for file in files.iterdir())
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk, and not everywhere")
    try:
        for parent in disk.resolve().parents[:-2]:
            parent.chmod(parent.stat().st_mode | 0o011)
        moved(private, files, disk / "tables")
        yield disk
    finally:
        if files.is_symlink():
            files.unlink()
            moved(private, disk / "tables", files)
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def tables_of(private):
    """The folder of the database's tables."""
    data = private.server.data
    if connection.vendor == "mysql":
        return data / "dbqueue"
    [[number]] = private.sql("SELECT oid FROM pg_database WHERE datname = current_database()")
    return data / "base" / str(number)


def moved(private, old: Path, new: Path):
    """Move the tables; the old place leads to the new one if it is the server's."""
    private.stop()
    owner = old.stat()
    shutil.copytree(old, new)
    for path in [new, *new.iterdir()]:
        os.chown(path, owner.st_uid, owner.st_gid)
    shutil.rmtree(old)
    if old.is_relative_to(private.server.data):
        old.symlink_to(new)
    private.start()


def fill(ballast: Path):
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
