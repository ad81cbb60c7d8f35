"""The figures that README and docs print: of which code they are, and whether all places agree."""

import json
import sys
from collections import Counter

import pytest

from benchmarks import published as published_figures
from benchmarks.hot_path import HOT_PATH, PACKAGE, code_of, fingerprint
from benchmarks.published import (
    BEST,
    DEFAULT,
    LIKE_OURS,
    ONE_CONNECTION,
    PEER,
    PLACES,
    SENTENCE,
    STALE,
    TABLE,
    confirmed,
    figures_of,
    is_of_today,
    published,
    read_run,
    sentence,
    table,
    with_part,
)
from django_dbqueue.testing import InlineWorker
from tests.queueapp.models import Kept

pytestmark = pytest.mark.any_database

BATCHES, BATCH = 20, 50
SOURCE = '''"""One."""


def f(x: int) -> str:  # why
    """Two."""
    return f"{x}"
'''
STAMP = {"commit": "abc", "date": "2030-01-01", "hot_path": "123", "rounds": 3}
RATES = {BEST: 800, DEFAULT: 500, LIKE_OURS: 1000, ONE_CONNECTION: 700, PEER: 8}


def a_run(**changed):
    found = {label: {"median": rate} for label, rate in (RATES | changed).items()}
    return {**STAMP, "places": {place: {"contestants": found} for place in PLACES}}


def test_they_are_of_the_code_of_today():
    assert is_of_today(published()), STALE


@pytest.mark.parametrize(("page", "text"), [(TABLE, table), (SENTENCE, sentence)])
def test_a_page_prints_what_was_published(page, text):
    printed = page.read_text()
    assert with_part(printed, text(published()), page.name) == printed


def test_only_a_change_of_code_is_one():
    before = code_of(SOURCE)
    head = "def f(x: int) -> str:\n"
    assert code_of(f'{head}    return f"{{x}}"\n') == before
    assert code_of('def f(\n    x: int,\n) -> str:\n    return f"{x}"\n') == before
    for changed in ('    return f"{x + 1}"\n', '    return "Two."\n', '    return f"x"\n'):
        assert code_of(head + changed) != before
    inside, after = "for x in y:\n    a()\n    b()\n", "for x in y:\n    a()\nb()\n"
    assert code_of(inside) != code_of(after)


@pytest.mark.usefixtures("db_rows")
def test_the_hot_path_is_what_a_worker_calls_for_each_batch():
    called = Counter()

    def note(frame, event, _argument):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(f"{PACKAGE}/"):
            called[path.removeprefix(f"{PACKAGE}/")] += 1

    Kept.objects.enqueue_many([{}] * BATCH * (BATCHES + 1))
    with InlineWorker("queueapp.kept", "--batch-size", str(BATCH)) as inline:
        inline.beat()
        drain(inline)
        sys.setprofile(note)
        try:
            for _ in range(BATCHES):
                drain(inline)
        finally:
            sys.setprofile(None)
    hot = {name for name, calls in called.items() if calls >= BATCHES}
    hot -= {"testing/inline.py"}
    assert len(hot) > 20
    assert hot <= set(HOT_PATH)
    assert {name for name in HOT_PATH if not name.startswith("dialects/")} <= hot


def drain(inline):
    inline.claim()
    buffer = inline.consumer.buffer
    for item in [buffer.get() for _ in range(len(buffer))]:
        inline.take(item)
    inline.record()


def test_figures_are_confirmed_as_long_as_they_hold_next_to_bare_sql():
    found = figures_of(a_run())
    assert found["rates"]["sqlite"][BEST] == 800
    later = confirmed(found, a_run(**{BEST: 1400, DEFAULT: 1000, LIKE_OURS: 2000}))
    assert later["confirmed"]["ratios"] == dict.fromkeys(PLACES[:3], 0.7)
    assert "0.70 (PostgreSQL)" in table(later)
    with pytest.raises(SystemExit, match=r"MariaDB: django-dbqueue, best has 0\.60 of the rate"):
        confirmed(found, a_run(**{BEST: 600}))
    with pytest.raises(SystemExit, match=r"MariaDB: django-dbqueue, default has 0\.30 of"):
        confirmed(found, a_run(**{DEFAULT: 300}))


def test_a_table_has_a_row_for_each_and_cells_only_where_there_is_a_result():
    run = a_run(**{"rq, default": 40})
    run["places"]["redis"] = {"contestants": {"rq, best": {"median": 1234.4}}}
    rows = table(figures_of(run)).splitlines()
    assert "| django-dbqueue, best | 800 | 800 | 800 | |" in rows
    assert "| rq, best / default | - / 40 | - / 40 | - / 40 | 1,234 / - |" in rows
    assert "| **ours, best : bare SQL, like ours** | 0.80 | 0.80 | 0.80 | |" in rows
    assert "| **ours, best : the fastest other queue** | 20 | 20 | 20 | |" in rows


def test_nothing_is_published_of_a_run_without_a_result_of_somebody():
    with pytest.raises(SystemExit, match="MariaDB: there is no result of django-dbqueue, default"):
        figures_of(a_run(**{DEFAULT: None}))
    with pytest.raises(SystemExit, match="Redis: there is no result of any"):
        figures_of({**STAMP, "places": {name: a_run()["places"][name] for name in PLACES[:3]}})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"command": "python -m benchmarks.drain --workers 4"}, "Only a whole run"),
        ({"rounds": 1}, "Only a whole run"),
        ({"hot_path": "of other code"}, "with other code"),
        ({"commit": "abc-dirty"}, "in no commit"),
        (None, "Measure first"),
    ],
)
def test_only_a_whole_run_of_a_commit_of_todays_code_is_published(
    monkeypatch, tmp_path, changed, said
):
    monkeypatch.setattr(published_figures, "RESULTS", tmp_path)
    run = a_run() | {"command": "python -m benchmarks.drain", "hot_path": fingerprint()}
    if changed is not None:
        (tmp_path / "drain.json").write_text(json.dumps(run))
        assert read_run("drain.json")["rounds"] == 3
        (tmp_path / "drain.json").write_text(json.dumps(run | changed))
    with pytest.raises(SystemExit, match=said):
        read_run("drain.json")


def test_a_page_without_marks_is_named():
    with pytest.raises(SystemExit, match=r"x\.md has no place"):
        with_part("no marks", "text", "x.md")
