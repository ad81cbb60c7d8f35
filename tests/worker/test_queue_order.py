"""Which queue a worker claims from next, where it was told: in strict order, or by weight."""

from collections import Counter

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError

from django_dbqueue.conf.queue_order import matches, parse_order
from django_dbqueue.lifecycle import low_water
from django_dbqueue.management.commands.runworker import Command, order_of
from django_dbqueue.monitor.worker_list import list_workers
from django_dbqueue.testing import InlineWorker
from django_dbqueue.worker import claimer as claimer_module
from django_dbqueue.worker import ordered_queues, queue_poller
from django_dbqueue.worker.buffer import Buffer
from django_dbqueue.worker.claimer import Claimer
from django_dbqueue.worker.shared_memory import SharedMemory
from django_dbqueue.worker.startup import run_once
from django_dbqueue.worker.wakeup import Wakeup
from tests.kit.bounds import limits
from tests.kit.jobs import table
from tests.kit.overview import a_worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Fleeting, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def options(*args):
    command = Command()
    given = command.create_parser("manage.py", "runworker").parse_args(args)
    return command.options(vars(given))


def claimer(*args, batch=1):
    """Of a child with one runner, which takes what it has claimed at once."""
    chosen = options("queueapp.Note", "queueapp.Fleeting", f"--batch-size={batch}", *args)
    given = "w.1-", Buffer(1), SharedMemory(1), Wakeup([])
    return Claimer(chosen, *given, share=None, unwritten=lambda: 0)


def next_queues(one, count):
    """The queues of the next jobs, at least so many if there are any."""
    found, idle = [], 0
    while len(found) < count and idle < 3:
        one.turn()
        jobs = [job for item in one.buffer.withdraw() for job in item.jobs]
        found += [job.queue for job in jobs]
        if one.is_idle:
            # As where somebody has enqueued something.
            one.scheduler.look_now()
            idle += 1
    return found


def enqueue(model=Note, **counts):
    for queue, count in counts.items():
        model.objects.enqueue_many({"queue": queue} for _ in range(count))


@pytest.fixture
def exact(monkeypatch):
    """It looks before each claim, however quick it is."""
    monkeypatch.setattr(ordered_queues, "LOOK_SHARE", 0.0)


def test_the_first_queue_is_emptied_before_the_second_and_no_other_is_served():
    enqueue(default=3, other=3, high=3)
    assert next_queues(claimer("--queue=high,default"), 9) == ["high"] * 3 + ["default"] * 3


def test_a_queue_with_a_rate_keeps_to_the_order():
    with limits("queueapp.note:low", rate="100/s"):
        enqueue(low=2, high=3)
        assert next_queues(claimer("--queue=high,low"), 5) == ["high"] * 3 + ["low"] * 2


def test_a_queue_whose_rate_is_used_up_keeps_no_later_one_waiting():
    with limits("queueapp.note:high", rate="1/h"):
        enqueue(low=2, high=2)
        found = next_queues(claimer("--queue=high,low"), 4)
    assert sorted(found) == ["high", "low", "low"]


def test_the_order_holds_over_all_tables():
    enqueue(low=2)
    enqueue(Fleeting, high=2)
    enqueue(high=1)
    found = next_queues(claimer("--queue=high,low"), 9)
    assert found == ["high"] * 3 + ["low"] * 2


def test_a_new_job_of_the_first_queue_is_claimed_before_what_waits_in_the_second(exact):
    one = claimer("--queue=high,default")
    enqueue(default=30)
    assert next_queues(one, 5) == ["default"] * 5
    enqueue(Fleeting, high=1)
    assert next_queues(one, 2) == ["high", "default"]


@pytest.mark.parametrize(("longest", "most"), [(3600.0, 1), (0.0, 100)])
def test_how_often_it_looks_follows_from_how_long_a_look_takes(monkeypatch, longest, most):
    monkeypatch.setattr(queue_poller, "NEW_QUEUES_SECONDS", 3600.0)
    monkeypatch.setattr(ordered_queues, "LOOK_SHARE", 1e9)
    monkeypatch.setattr(ordered_queues, "LOOK_SECONDS_MAX", longest)
    one, looks = claimer("--queue=high,default"), []
    monkeypatch.setattr(type(one.scheduler), "_look_at_all", counted(looks))
    enqueue(default=200)
    assert next_queues(one, 100) == ["default"] * 100
    assert len(looks) == most
    enqueue(high=1)
    assert ("high" in next_queues(one, 1)) == (most == 100)


def test_a_slow_look_keeps_nobody_waiting_for_more_than_a_second(monkeypatch):
    assert ordered_queues.LOOK_SECONDS_MAX <= 1
    monkeypatch.setattr(ordered_queues, "LOOK_SHARE", 1e9)
    monkeypatch.setattr(ordered_queues, "LOOK_SECONDS_MAX", 0.02)
    monkeypatch.setattr(queue_poller, "NEW_QUEUES_SECONDS", 3600.0)
    one = claimer("--queue=high,default")
    enqueue(default=5000)
    next_queues(one, 1)
    enqueue(high=1)
    wait_until(lambda: "high" in next_queues(one, 1))


def counted(calls):
    original = ordered_queues.OrderedScheduler._look_at_all

    def look(scheduler):
        calls.append(1)
        original(scheduler)

    return look


def test_the_first_queue_asks_for_no_look_at_others(exact, monkeypatch):
    looks = []
    one = claimer("--queue=high,default")
    monkeypatch.setattr(type(one.scheduler), "_look_at_all", counted(looks))
    enqueue(high=30)
    assert next_queues(one, 10) == ["high"] * 10
    assert looks == []


@pytest.fixture
def slow(exact, monkeypatch):
    """Looks count as slow: then known queues alone are looked at, from where their jobs began."""
    monkeypatch.setattr(low_water, "CHEAP", -1.0)
    monkeypatch.setattr(low_water, "TRIPS", 0.0)
    monkeypatch.setattr(low_water, "LONGEST", 3600.0)
    monkeypatch.setattr(low_water, "SHARE", 1e9)
    monkeypatch.setattr(low_water, "IDLE_SHARE", 1e9)
    monkeypatch.setattr(queue_poller, "NEW_QUEUES_SECONDS", 3600.0)
    monkeypatch.setattr(type(table().dialect), "gains_by_floors", lambda _: True)


@pytest.mark.usefixtures("slow")
def test_where_looks_are_slow_no_queue_is_lost_to_them():
    one = claimer("--queue=high,*")
    enqueue(high=3, default=3, low=3)
    found = [queue for _ in range(9) for queue in next_queues(one, 1)]
    assert found[:3] == ["high"] * 3
    assert Counter(found) == {"high": 3, "default": 3, "low": 3}


@pytest.mark.usefixtures("slow")
def test_where_looks_are_slow_a_named_queue_is_found_that_had_no_job_before():
    one = claimer("--queue=high,default")
    enqueue(default=9)
    assert next_queues(one, 2) == ["default"] * 2
    enqueue(high=1)
    assert next_queues(one, 2) == ["high", "default"]


def test_jobs_are_fetched_ahead_one_by_one_until_they_are_seen_to_be_quick(monkeypatch):
    monkeypatch.setattr(claimer_module, "AHEAD_SECONDS", 3600)
    chosen = options("queueapp.Note", "--queue=high,default")
    given = "w.1-", Buffer(1), SharedMemory(1), Wakeup([])
    one = Claimer(chosen, *given, share=None, unwritten=lambda: 0)
    enqueue(default=300)
    sizes = [len(next_queues(one, 1)) for _ in range(8)]
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 100]


@pytest.mark.parametrize("batch", [1, 7])
def test_weights_share_out_the_claimed_jobs_and_none_starves(batch):
    enqueue(high=400, default=400, low=400)
    found = Counter(next_queues(claimer("--queue=high=5,default=3,low=1", batch=batch), 270))
    for queue, share in (("high", 5 / 9), ("default", 3 / 9), ("low", 1 / 9)):
        assert abs(found[queue] - share * sum(found.values())) <= 2 * batch


def test_an_empty_queue_leaves_its_share_to_the_others_and_gets_no_more_for_it_later(exact):
    one = claimer("--queue=high=3,default=1,low=1")
    enqueue(default=200, low=200)
    assert Counter(next_queues(one, 100)) == {"default": 50, "low": 50}
    enqueue(high=200)
    found = Counter(next_queues(one, 100))
    assert all(
        abs(found[queue] - n) <= 3 for queue, n in (("high", 60), ("default", 20), ("low", 20))
    )


def test_skewed_data_do_not_tilt_the_weights():
    enqueue(high=30, default=3000)
    one = claimer("--queue=high=2,default=1")
    found = Counter(next_queues(one, 30))
    assert 18 <= found["high"] <= 22
    rest = Counter(next_queues(one, 60))
    assert rest["high"] + found["high"] == 30
    assert sum(rest.values()) == 60


def test_queues_of_one_pattern_come_in_turn_and_share_its_weight(monkeypatch):
    # After a look for more, which follows in a second, the first of them has its turn again.
    monkeypatch.setattr(queue_poller, "NEW_QUEUES_SECONDS", 3600.0)
    for name in ("mail-a", "mail-b", "rest"):
        Note.objects.enqueue_many({"queue": name} for _ in range(40))
    assert Counter(next_queues(claimer("--queue=mail-*=2,*=1"), 30)) == {
        "mail-a": 10,
        "mail-b": 10,
        "rest": 10,
    }
    assert set(next_queues(claimer("--queue=rest,mail-*"), 10)) == {"rest"}


@pytest.mark.parametrize(
    ("args", "queues"),
    [
        (["--queue=*", "--except=queueapp.Note:mail-*"], {"a.b", "aXb"}),
        (["--queue=*", "--except=*:mail-*"], {"a.b", "aXb"}),
        (["--except=*:a.b"], {"aXb", "mail-1", "mail-2"}),
        (["--queue=mail-*"], {"mail-1", "mail-2"}),
        (["--queue=a.*,*-2"], {"a.b", "mail-2"}),
    ],
)
def test_a_star_stands_for_any_text_and_nothing_else_does(args, queues):
    for name in ("a.b", "aXb", "mail-1", "mail-2"):
        Note.objects.create(queue=name)
    assert set(next_queues(claimer(*args), 8)) == queues


def test_a_table_may_be_served_by_a_pattern():
    for name in ("mail-1", "other"):
        Note.objects.create(queue=name)
        Fleeting.objects.create(queue=name)
    with InlineWorker("queueapp.Note:mail-*") as worker:
        worker.run()
    assert Note.objects.filter(queue="other").count() == 1
    assert (Note.objects.ready().count(), Fleeting.objects.ready().count()) == (1, 2)


def test_a_named_queue_is_found_among_more_queues_than_are_looked_at_together(monkeypatch):
    monkeypatch.setattr(queue_poller, "QUEUES_MAX", 3)
    for name in "abcdef":
        Note.objects.create(queue=name)
    Note.objects.create(queue="z")
    assert next_queues(claimer("--queue=z,*"), 1) == ["z"]


def test_one_job_alone_comes_from_the_first_queue_that_has_some():
    enqueue(default=1)
    enqueue(Fleeting, high=1)
    chosen = options("queueapp.Note", "queueapp.Fleeting", "--queue=high,default")
    assert [run_once(chosen) for _ in range(3)] == [1, 1, 0]
    enqueue(default=1)
    enqueue(Fleeting, high=1)
    run_once(chosen)
    assert (Note.objects.ready().count(), Fleeting.objects.ready().count()) == (1, 0)


def test_one_job_alone_comes_from_no_lane_of_a_paused_queue_and_keeps_to_the_rate():
    with limits(rate="1/h", rate_key="{text}"):
        Note.objects.create(text="smtp")
        Note.objects.create(text="smtp")
        chosen = options("queueapp.Note")
        Note.objects.pause("default")
        assert run_once(chosen) == 0
        Note.objects.resume("default")
        assert [run_once(chosen) for _ in range(2)] == [1, 0]


@pytest.mark.any_database
def test_one_job_alone_is_drawn_by_lot_where_there_are_weights():
    order = parse_order("high=3,default=1")
    firsts = Counter(order.draw()[0] for _ in range(2000))
    assert 1300 < firsts[0] < 1700
    assert set(firsts) == {0, 1}


def test_what_a_worker_serves_is_told_by_queue_and_pattern():
    chosen = options("queueapp.Note", "--queue=high,mail-*")
    assert chosen.serves() == {"default": ["queueapp.note:high", "queueapp.note:mail-*"]}
    a_worker(serves=chosen.serves()["default"])
    [member] = list_workers("default")
    takes = [member.takes("queueapp.note", name) for name in ("high", "mail-7", "default")]
    assert takes == [True, True, False]
    assert not member.takes("queueapp.fleeting", "high")


def test_the_order_may_be_a_setting_and_the_environment_and_the_option_win(settings, monkeypatch):
    settings.DBQUEUE = {"QUEUE_ORDER": ["a", "b"]}
    assert str(order_of(None)) == "a,b"
    assert str(options().queue_order) == "a,b"
    monkeypatch.setenv("DBQUEUE_QUEUE_ORDER", "c=2, d=1")
    assert str(options().queue_order) == "c=2,d=1"
    assert str(options("--queue=e").queue_order) == "e"


def test_a_setting_that_is_no_order_is_refused_by_name(settings):
    settings.DBQUEUE = {"QUEUE_ORDER": ["a=3", "b"]}
    with pytest.raises(ImproperlyConfigured, match=r"\['QUEUE_ORDER'\] makes no sense: 'b' has no"):
        order_of(None)


@pytest.mark.any_database
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a=3,b", "'b' has no weight: give one to each queue"),
        ("a=0", "the weight of 'a' must be a whole number of at least 1 and at most 1000, not '0'"),
        ("a=1001", "at most 1000, not '1001'"),
        ("a=1.5", "not '1.5'"),
        ("a,b,a", "'a' is named twice"),
        ("a,,b", "queue must be a non-empty string"),
        ("", "queue must be a non-empty string"),
        ("x" * 201, "the limit is 200"),
        (",".join(map(str, range(101))), "101 queues are named in order; the limit is 100"),
    ],
)
def test_what_is_no_order_is_refused(text, words):
    parser = Command().create_parser("manage.py", "runworker")
    with pytest.raises(CommandError, match="--queue") as refused:
        parser.parse_args([f"--queue={text}"])
    assert words in str(refused.value)


def test_a_table_whose_queue_is_not_in_the_order_is_refused():
    with pytest.raises(CommandError, match=r"note:big is not among the queues high, low"):
        options("queueapp.Note:big", "--queue=high,low")
    assert options("queueapp.Note:big", "--queue=b*").served[0].takes("big")


@pytest.mark.any_database
def test_a_pattern_means_a_whole_name():
    assert matches("mail-*", "mail-")
    assert matches("*", "a\nb")
    assert not matches("mail-*", "a-mail-1")
    assert not matches("a?c", "abc")
