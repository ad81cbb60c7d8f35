"""What a forked process inherits: no connection."""

import gc
import threading
from pathlib import Path

import pytest
from django.db import connections

from django_dbqueue.worker.children import Children
from tests.kit.processes import lines, skip_where_coverage_is_measured, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note, Transfer

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def _no_collector():
    """Else it might run just before the fork, and hide that nobody asked for it."""
    gc.disable()
    yield
    gc.enable()


def open_files():
    """The files and sockets that this process has open."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(link.readlink()))
        except FileNotFoundError:
            pass  # the one by which the folder was read
    return found


def write_open_files(path):
    path.write_text("\n".join(open_files()))
    return 0


def children_that(body, count):
    return Children([None] * count, 1, "a" * 32, body)


@pytest.mark.usefixtures("_no_collector")
def test_the_collector_runs_once_for_many_forks():
    runs = []
    note = lambda phase, info: runs.append(phase)  # noqa: E731
    gc.callbacks.append(note)
    try:
        children = children_that(lambda *_: 0, count=3)
        children.fill(lambda shared: None)
    finally:
        gc.callbacks.remove(note)
    assert len(children.living) == 3
    assert runs == ["start", "stop"]
    wait_until(lambda: not (list(children.exited_children()) or children.living))


@pytest.mark.usefixtures("_no_collector")
def test_no_connection_crosses_a_fork_not_even_one_that_an_ended_thread_left_open(tmp_path):
    connections.close_all()
    before = open_files()
    thread = threading.Thread(target=Note.objects.count)
    thread.start()
    thread.join()
    left_open = open_files() - before
    assert left_open
    Note.objects.count()
    ours = open_files() - before
    children = children_that(lambda *_: write_open_files(tmp_path / "files"), count=1)
    children.fill(lambda shared: None)
    wait_until(lambda: list(children.exited_children()))
    inherited = set((tmp_path / "files").read_text().splitlines())
    assert inherited
    assert not inherited & (left_open | ours)


@pytest.mark.parametrize(
    ("model", "action"), [(Note, "fork"), (Note, "fork_and_fail"), (Transfer, "fork")]
)
def test_the_copy_of_a_job_that_forks_ends_with_it(model, action, database_url, log):
    skip_where_coverage_is_measured()
    model.objects.create(action=action, log=log)
    for _ in range(20):
        Note.objects.create(log=log)
    options = ("--tries", "1", "--stop-when-empty")
    with worker(database_url, "queueapp.note", "queueapp.transfer", *options) as process:
        assert process.end() == 0
        assert "the copy ends here" in process.stderr
    ran = [line.split()[0] for line in lines(log)]
    assert len(ran) == 21
    assert Note.objects.done().count() + Transfer.objects.done().count() == 21 - ("fail" in action)
