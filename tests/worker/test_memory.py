"""The memory of a worker: its own and that of its children, for its row and ``--max-memory``."""

import os
import re
from pathlib import Path

import pytest

from django_dbqueue.management.commands._text import workers_text
from django_dbqueue.models import Worker
from django_dbqueue.monitor.worker_list import list_workers
from django_dbqueue.worker.options import EXIT_LIMIT_REACHED, Options
from django_dbqueue.worker.served import parse_served
from django_dbqueue.worker.shared_memory import ExitStatus
from django_dbqueue.worker.signalling import Signals, WakeupPipe
from django_dbqueue.worker.supervisor import Supervisor
from tests.kit.agents import AgentHere, state_of
from tests.kit.forked_children import end, exited_children, fill
from tests.kit.processes import worker
from tests.kit.waiting import wait_until

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

MB = 2**20
GATHERED = 64 * MB  # by a child


def gather(stacks, prefix, shared, share, control, role):
    """A child that holds some memory of its own until it is asked to leave."""
    held = b"x" * GATHERED
    shared.slot(0).start(b"default\x1fgathered", 0.0, 1.0, len(held) // GATHERED)
    os.read(control, 1)
    shared.exit_status = ExitStatus.ASKED
    return 0


@pytest.fixture
def supervise():
    """A supervisor with two children that have gathered memory; they are gone afterwards."""
    made = []

    def supervise(**limits):
        options = Options(served=parse_served(["queueapp.Note"]), processes=2, **limits)
        supervisor = Supervisor(options, Signals(WakeupPipe()))
        made.append(supervisor.children)
        supervisor.children.body = gather
        supervisor.children.has_begun = lambda _: True  # no agent beats here
        fill(supervisor.children)
        wait_until(lambda: supervisor.children.jobs == 2)
        return supervisor

    yield supervise
    for children in made:
        end(children)


def resident(pid):
    """As the system tells people, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s*(\d+) kB", status)[1]) * 1024


def test_a_worker_s_row_tells_its_memory_with_that_of_its_children(supervise):
    supervisor = supervise()
    all_of_them = sum(map(resident, [os.getpid(), *supervisor.children.living]))
    AgentHere().beat(**state_of(supervisor))
    assert abs(Worker.objects.get().memory - all_of_them) < GATHERED / 4


def test_the_limit_counts_the_children_too(supervise):
    supervisor = supervise(max_memory=(resident(os.getpid()) + GATHERED) // MB)
    state_of(supervisor)
    assert supervisor.stop_reason.code == EXIT_LIMIT_REACHED
    assert "--max-memory" in supervisor.stop_reason.reason
    assert not any(
        exited.is_crash for exited in exited_children(supervisor.children, 2)
    )  # they were asked


@pytest.mark.process
@pytest.mark.parametrize(("options", "warnings"), [(("--max-memory", "1"), 1), ((), 0)])
def test_where_the_system_does_not_tell_a_limit_is_said_to_do_nothing(
    database_url, options, warnings
):
    settings = "tests.kit.settings_no_memory"
    options = ("queueapp.note", "--stop-when-empty", *options)
    with worker(database_url, *options, DJANGO_SETTINGS_MODULE=settings) as process:
        assert process.end() == 0
    assert process.stderr.count("--max-memory does nothing") == warnings
    assert "unknown" in workers_text(list_workers())


def test_below_the_limit_a_worker_goes_on(supervise):
    supervisor = supervise(max_memory=4 * (resident(os.getpid()) + GATHERED) // MB)
    state_of(supervisor)
    assert supervisor.stop_reason is None
    assert len(supervisor.children.living) == 2
