"""Which tests run where, shown in a project of a few."""

from textwrap import dedent

import pytest

from tests.kit.processes import ROOT

pytest_plugins = "pytester"
pytestmark = pytest.mark.process
CONFTEST = f"""
import sys

import pytest

sys.path.insert(0, {str(ROOT)!r})
from tests.kit import selection

def pytest_addoption(parser):
    selection.add_options(parser)

def pytest_itemcollected(item):
    selection.mark(item)

def pytest_ignore_collect(collection_path, config):
    return selection.lacks_word(config, collection_path) or None

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    selection.select(config, items)

@pytest.fixture
def django_db_setup():
    pass

@pytest.fixture
def database_url(django_db_setup):
    pass
"""
TESTS = """
import pytest

def test_plain():
    pass

@pytest.mark.each_database
def test_of_sql():
    pass

def test_of_rows(django_db_setup):
    pass

@pytest.mark.any_database
def test_of_pages(django_db_setup):
    pass

@pytest.mark.any_database
@pytest.mark.each_database
def test_of_locks(django_db_setup):
    pass

@pytest.mark.nightly
def test_long(django_db_setup):
    pass

@pytest.mark.timing
def test_of_time(database_url):
    pass

def test_worker(database_url):
    pass

def test_other_worker(database_url):
    pass

def test_third_worker(database_url):
    pass

@pytest.mark.each_database
def test_worker_of_this_database(database_url):
    pass

@pytest.mark.any_database
def test_worker_of_any_database(database_url):
    pass

@pytest.mark.browser
def test_clicks():
    pass
"""
IN_PROCESS = ["test_plain", "test_of_sql", "test_of_rows", "test_of_pages", "test_of_locks"]
PROCESSES = [
    *("test_of_time", "test_worker", "test_other_worker", "test_third_worker"),
    "test_worker_of_this_database",
]
SHARED = "test_worker", "test_other_worker", "test_third_worker"
ONCE, BROWSER = "test_worker_of_any_database", "test_clicks"


@pytest.fixture
def selected(pytester):
    """The names of the tests that run with these arguments."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)

    def select(*arguments):
        done = pytester.runpytest_inprocess("-v", "-p", "no:django", *arguments)
        assert done.ret == 0
        lines = [line for line in done.outlines if "PASSED" in line]
        return [line.partition("::")[2].split()[0] for line in lines]

    return select


def test_all_run_on_sqlite_but_those_of_the_night(selected):
    assert selected() == [*IN_PROCESS, *PROCESSES, ONCE, BROWSER]
    assert "test_long" in selected("--full")


def test_on_each_database_runs_what_can_reach_it_or_depends_on_it(selected):
    found = selected("--each-database")
    assert found == ["test_of_sql", "test_of_rows", "test_of_locks", *PROCESSES]


def test_processes_are_known_by_what_they_ask_for(selected):
    assert selected("-m", "process") == [*PROCESSES, ONCE]
    assert selected("-m", "not process") == [*IN_PROCESS, BROWSER]


def test_of_few_processes_or_browsers_the_first_of_those_that_are_left_runs(selected):
    assert selected("--few-processes") == [*IN_PROCESS, "test_of_time"]
    assert selected("--few-processes", "-m", "not timing") == [*IN_PROCESS, "test_worker"]
    assert selected("--few-processes", "-m", "not process") == [*IN_PROCESS, BROWSER]


def test_the_shares_of_several_servers_have_all_processes_between_them(selected):
    found = [selected("--share", f"{number}/2") for number in (1, 2)]
    for name in (*IN_PROCESS, "test_of_time", "test_worker_of_this_database", ONCE):
        assert all(name in share for share in found)
    for name in SHARED:
        assert sum(name in share for share in found) == 1


def test_the_shares_of_two_databases_have_all_pages_between_them(pytester, selected):
    pages = """
        import pytest

        @pytest.mark.parametrize("number", range(9))
        def test_page(django_db_setup, number):
            pass

        @pytest.mark.each_database
        def test_list(django_db_setup):
            pass

        def test_page_of_worker(database_url):
            pass

        def test_parser():
            pass
    """
    (pytester.mkdir("mail") / "test_pages.py").write_text(dedent(pages))
    assert "test_parser" not in selected("--each-database")
    everything = selected()
    found = [selected("--share", f"{number}/2") for number in (1, 2)]
    for name in everything:
        is_one = name.startswith("test_page") or name in SHARED
        assert sum(name in share for share in found) == (1 if is_one else 2)


def test_with_each_turn_a_share_is_the_next_ones(selected):
    at_first = [selected("--share", f"{number}/3") for number in (1, 2, 3)]
    a_turn_later = [selected("--share", f"{number}/3", "--turn=1") for number in (1, 2, 3)]
    assert a_turn_later == [at_first[2], at_first[0], at_first[1]]
    assert selected("--share", "1/3", "--turn=3") == at_first[0]
    assert {name for share in at_first for name in share} >= {*SHARED}


def test_the_rest_is_what_a_server_with_the_same_arguments_leaves_out(pytester, selected):
    asked = "--each-database", "--share=1/2", "--turn=5"
    everything = selected()
    theirs, the_rest = selected(*asked), selected(*asked, "--the-rest")
    assert "test_plain" in the_rest
    assert "test_of_sql" in theirs
    assert sorted([*theirs, *the_rest]) == sorted(everything)


def test_files_that_do_not_name_a_word_are_not_even_imported(pytester, selected):
    pytester.makepyfile(test_broken="import nonsense")
    assert selected("--files-naming", "timing", "-m", "timing") == ["test_of_time"]


def test_how_many_are_left_out_is_told(pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_inprocess("-p", "no:django", "--each-database")
    done.assert_outcomes(passed=8, deselected=5)
