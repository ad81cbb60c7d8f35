"""The checker of histories: its figures; and that each of its verdicts is tested."""

from django_dbqueue.torture.verdicts import percentile
from tests.kit.histories import Tale
from tests.torture.test_checker_good_histories import GOOD
from tests.torture.test_checker_of_rows import BAD as BAD_ROWS
from tests.torture.test_checker_of_runs import BAD as BAD_RUNS


def test_there_are_enough_good_and_bad_histories():
    assert (len(GOOD) >= 8, len(BAD_RUNS) + len(BAD_ROWS) >= 24) == (True, True)


def test_every_verdict_has_a_history_that_breaks_it():
    bad = [*BAD_RUNS.values(), *BAD_ROWS.values()]
    assert {name for names, _ in bad for name in names} == {*Tale().report().verdicts}


def test_duplicates_and_kills_are_told_by_their_kind():
    tale = Tale()
    for key, group in enumerate([False, False, True]):
        tale.enqueue(key)
        run = tale.start(key)
        tale.kill(11, **({"group": True, "target": "worker-1"} if group else {}))
        tale.reaped(run)
        tale.ran(key, pid=21)
    tale.enqueue(9)
    run = tale.start(9)
    tale.end(run, "fail")
    tale.failed(run)
    tale.wait(0.2)
    tale.ran(9)
    figures = tale.report().figures
    assert (figures.jobs, figures.unexplained, figures.lost) == (4, 0, 0)
    assert figures.duplicates == {"kill": 3, "failed": 1}
    assert figures.kills == {"child": 2, "group": 1}


def test_a_hand_over_counts_from_the_last_kill_to_the_next_start():
    tale = Tale()
    tale.enqueue(1)
    run = tale.start(1)
    tale.kill(11)
    tale.wait(0.5)
    tale.reaped(run, pid=10)
    tale.ran(1, pid=12)
    tale.enqueue(2)
    run = tale.start(2)
    tale.kill(11)
    tale.wait(3)
    tale.kill(10, supervisor=True, target="worker-1")
    tale.wait(2)
    tale.reaped(run)
    tale.ran(2, pid=21)
    figures = tale.report().figures
    assert [round(s, 1) for s in figures.handover_supervised] == [0.5]
    assert [round(s, 1) for s in figures.handover_alone] == [2.0]


def test_what_a_second_killed_worker_had_fetched_counts_from_there():
    tale = Tale()
    tale.enqueue()
    run = tale.start()
    tale.kill(11)
    tale.reaped(run, pid=10)
    tale.wait(3)
    tale.note("reaped", pid=20, key=1, owner="another", verdict="ready", charged=False)
    tale.wait(0.5)
    tale.ran(pid=31)
    assert [round(s, 1) for s in tale.report().figures.handover_supervised] == [0.5]


def test_what_an_outage_held_up_is_no_hand_over():
    tale = Tale()
    tale.enqueue()
    run = tale.start()
    tale.kill(11)
    tale.note("db_kill", "info", 2)
    tale.wait(5)
    tale.note("db_up", "info", 2)
    tale.reaped(run, pid=10)
    tale.ran(pid=12)
    report = tale.report()
    assert report.holds
    assert report.figures.handover_supervised == []


def test_percentiles_of_none_and_of_some():
    assert percentile([], 0.5) is None
    assert percentile([1.0, 2.0, 3.0], 0.5) == 2.0
    assert percentile([1.0, 2.0, 3.0], 0.99) == 3.0
