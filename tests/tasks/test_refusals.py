"""What the backend refuses before anything is written, and what it reads all the same."""

import sys
from types import ModuleType

import pytest
from django.db import transaction
from django.test import override_settings

from django_dbqueue.exceptions import Bury
from django_dbqueue.tasks import compat, task
from django_dbqueue.tasks.checks import check_backend
from django_dbqueue.tasks.models import Task
from tests.kit.jobs import overwrite
from tests.tasks import calls
from tests.tasks.test_backend import PATH, backend, rows, work_off

pytestmark = pytest.mark.usefixtures("db_rows")
LONG = f"tests.{'x' * 250}"


def test_a_task_whose_path_no_row_can_hold_is_refused(monkeypatch):
    monkeypatch.setattr(calls.noop.func, "__module__", LONG)
    with transaction.atomic():
        with pytest.raises(compat.InvalidTask, match=r"module_path has 261 .* limit is 255"):
            calls.noop.enqueue()
        with pytest.raises(compat.InvalidTask, match="module_path"):
            calls.noop.enqueue_many([(1,)])
        assert rows() == []


@pytest.mark.parametrize(
    "lost", [calls.Grouped.in_a_class, calls.nameless, calls.renamed], ids=lambda one: one.name
)
def test_a_task_that_no_worker_would_find_is_refused(lost):
    with pytest.raises(compat.InvalidTask, match=f"no worker would find .*{lost.name}"):
        lost.enqueue()
    with pytest.raises(compat.InvalidTask, match="no worker would find"):
        lost.enqueue_many([()])
    assert rows() == []


def of_the_main_module(monkeypatch, name, **attributes):
    """A task that is declared there, with nothing else but these."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(f"def {name}(): pass", vars(module))
    vars(module).update(attributes, **{name: task(vars(module)[name])})
    return vars(module)[name]


def test_so_is_one_that_was_typed_into_a_shell(monkeypatch):
    typed = of_the_main_module(monkeypatch, "typed")
    with pytest.raises(compat.InvalidTask, match="typed is in the shell of this process"):
        typed.enqueue()


def test_one_of_a_project_in_a_single_file_is_taken(monkeypatch):
    of_the_main_module(monkeypatch, "written", __file__="app.py").enqueue()
    assert [row.task_path for row in rows()] == ["__main__.written"]


def test_one_that_was_made_of_another_tasks_function_is_taken():
    task(priority=5)(calls.decorated.func).enqueue(1)
    work_off()
    assert rows()[0].return_value == ["tenant", 1]


def test_one_of_a_backend_whose_name_is_too_long_is_refused():
    name = "b" * 101
    named, why = {name: {"BACKEND": PATH}}, r"backend has 101 .* limit is 100"
    with override_settings(TASKS=named), pytest.raises(compat.InvalidTask, match=why):
        calls.noop.using(backend=name)


@pytest.mark.parametrize(("args", "kwargs"), [(None, {}), ((), None), ((), 5)])
def test_arguments_that_are_none_break_no_transaction(args, kwargs):
    with transaction.atomic():
        with pytest.raises(TypeError):
            backend().enqueue(calls.noop, args, kwargs)
        assert rows() == []


def test_a_row_that_a_hand_gave_an_unknown_status_has_a_result():
    given = calls.add.enqueue(1)
    overwrite(rows()[0], status=99)
    good = calls.add.enqueue(2)
    work_off()
    given.refresh()
    assert given.status == compat.TaskResultStatus.FAILED
    assert given.errors[0].exception_class is Bury
    assert "unknown state 99" in given.errors[0].traceback
    assert calls.add.get_result(good.id).return_value == 2
    assert Task.objects.count() == 2


def found(**entry):
    with override_settings(TASKS={"default": {"BACKEND": PATH, **entry}}):
        return list(check_backend("default", entry.get("OPTIONS", {})))


@pytest.mark.parametrize("options", [None, ["database"], "database"])
def test_options_that_are_no_dict_are_found_by_the_system_checks(options):
    assert [one.id for one in found(OPTIONS=options)] == ["dbqueue_tasks.E004"]


@pytest.mark.parametrize("queues", ["mail", ["x" * 201], [""], [5], ["default", "a\0b"]])
def test_so_are_queues_that_no_task_can_be_in(queues):
    assert [one.id for one in found(QUEUES=queues)] == ["dbqueue_tasks.E005"]


def test_so_is_a_key_that_nothing_reads():
    [one] = found(ENQUEUE_ON_COMMIT=True)
    assert one.id == "dbqueue_tasks.W001"
    assert "'enqueue_on_commit'" in one.hint
    assert "'QUEUE'" in found(QUEUE=["mail"])[0].msg


def test_an_entry_as_the_documentation_has_it_is_right():
    assert found(QUEUES=["default", "é 1"], OPTIONS={"enqueue_on_commit": True}) == []
