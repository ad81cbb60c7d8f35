"""Jobs that have a rate, in a test's own process: the virtual clock goes to when each may start."""

import pytest

from django_dbqueue import signals
from django_dbqueue.models import RateBucket
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker, virtual_clock
from django_dbqueue.testing.inline import StillWaiting
from django_dbqueue.testing.verbs import Jobs
from tests.kit.jobs import fresh
from tests.kit.mail import USING, queued, setting
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
NOTE = "queueapp.note"
PERIODS = {"s": 1, "h": 3_600, "d": 86_400}


@pytest.fixture
def rate(settings):
    def given(**options):
        RateBucket.objects.all().delete()
        settings.DBQUEUE = {"QUEUES": {NOTE: options}}

    return given


@pytest.mark.parametrize("burst", [{}, {"rate_burst": 1}])
@pytest.mark.parametrize(("jobs", "limit"), [(12, "5/s"), (7, "3/h"), (3, "1/d")])
def test_all_of_them_run_and_no_period_sees_more_than_the_limit(rate, burst, jobs, limit):
    rate(rate=limit, **burst)
    Note.objects.enqueue_many([{}] * jobs)
    started = []
    with virtual_clock() as clock, InlineWorker(NOTE, clock=clock) as worker:

        def tell(**_):
            started.append(clock.seconds())

        signals.job_started.connect(tell)
        assert worker.drain() == jobs
        signals.job_started.disconnect(tell)
    assert Note.objects.done().count() == jobs
    most, seconds = int(limit[0]), PERIODS[limit[-1]]
    pairs = zip(started, started[most:], strict=False)
    assert all(after - before >= seconds for before, after in pairs)
    assert started[-1] - started[0] <= (jobs + 1) / most * seconds + 2


def test_a_time_sees_as_many_as_its_rate_allows(rate):
    rate(rate="10/min", rate_burst=1)
    Note.objects.enqueue_many([{}] * 100)
    assert 49 <= Jobs().run_for(300, Note) <= 51


def test_without_a_clock_to_move_what_has_no_token_is_left(rate):
    rate(rate="1/h")
    Note.objects.enqueue_many([{}] * 3)
    assert Jobs().run_all(Note) == 1
    assert Note.objects.ready().count() == 2


def test_a_rate_that_takes_too_long_is_told(rate):
    rate(rate="1/d")
    Note.objects.enqueue_many([{}] * 3)
    with pytest.raises(StillWaiting, match="wait for their rate"):
        Jobs().run_until_settled(Note, within=86_400)


@pytest.mark.parametrize(("limit", "seconds"), [("2/s", 3), ("1/h", 7_500), ("30/s", 3)])
@pytest.mark.parametrize("delay", [0, 10_000])
def test_a_worker_that_has_run_as_many_as_it_may_waits_for_nothing_more(
    rate, limit, seconds, delay
):
    rate(rate=limit)
    Note.objects.enqueue_many([{}] * 6)
    Note.objects.enqueue(delay=delay)
    with virtual_clock() as clock, InlineWorker(NOTE, "--max-jobs", "3", clock=clock) as worker:
        began = clock.seconds()
        assert worker.drain(within=seconds) == 3
        assert clock.seconds() - began < seconds
        assert worker.run_for(300) == 0
    assert Note.objects.done().count() == 3


@pytest.mark.parametrize("limit", [{"second": 3}, {"hour": 3}])
def test_mail_that_has_a_limit_is_sent_when_its_time_has_come(server, settings, limit):
    setting(settings, MAIL_LIMITS={USING.get("using", "default"): limit})
    emails = [queued("anna") for _ in range(10)]
    assert Jobs().run_until_settled("dbqueue_mail.Email") == 10
    assert {fresh(one).status for one in emails} == {Status.DONE}
    assert len(server.received) == 10
