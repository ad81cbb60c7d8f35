"""How a child has Python share its time out among its threads, and collect its garbage."""

import pytest

from tests.kit.jobs import fresh
from tests.kit.processes import worker
from tests.queueapp.models import Fetched

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.any_database]


SEVERAL = ("queueapp.Note", "--coroutines", "2")  # a thread, and the loop


@pytest.mark.parametrize(
    ("options", "seconds"), [((), "0.0005"), (("--threads", "2"), "0.005"), (SEVERAL, "0.005")]
)
def test_the_only_runner_gives_way_to_what_is_claimed_and_recorded(database_url, options, seconds):
    job = Fetched.objects.create(action="look_at_python")
    with worker(database_url, "queueapp.Fetched", *options, "--stop-when-empty") as process:
        assert process.end(60) == 0
    assert fresh(job).text == f"{seconds} 10000"
