"""The shell in which tests work through tutorials notices what goes wrong, and leaves nothing."""

import pytest

from tests.kit import shell as module
from tests.kit.printed_pages import Step, write_file
from tests.kit.processes import has_ended
from tests.kit.shell import shell
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.any_database, pytest.mark.process]


@pytest.fixture
def session(tmp_path):
    with shell(tmp_path) as session:
        yield session


def test_one_command_that_fails_among_others_is_an_error(session):
    session.enter("true\necho one\n")
    with pytest.raises(AssertionError, match="failed: false"):
        session.enter("false\ntrue\n")
    with pytest.raises(AssertionError, match="failed: false"):
        session.enter("true\nfalse", may_fail="test 1 = 2")
    session.enter("echo one\ntest 1 = 2", may_fail="test 1 = 2")


def test_lines_are_seen_in_their_order_with_others_between_them(session, monkeypatch):
    def shows_not(text):
        # Here alone: a command may take longer on a busy machine.
        with monkeypatch.context() as patch:
            patch.setattr(module, "PATIENCE", 0.2)
            with pytest.raises(AssertionError, match="not seen"):
                session.shows(text)

    session.enter("echo one; echo two; echo three 3")
    session.shows("one\nthree ...")
    shows_not("two\none")
    session.enter("echo four")
    shows_not("one")


def test_it_stays_in_the_folder_and_the_environment_that_it_has_entered(session, tmp_path):
    session.enter("mkdir inside\ncd inside\nexport WORD=kept\n")
    session.enter("echo $WORD")
    session.shows("kept")
    assert session.place == tmp_path / "inside"


def test_a_letter_of_which_a_half_is_written_is_no_error(session):
    session.enter(r"printf 'one \303'")
    session.shows("one")
    session.enter(r"printf '\303'; printf '\251t\303\251'")
    session.shows("été")


def test_what_it_has_started_is_gone_with_it(tmp_path):
    with shell(tmp_path) as session:
        session.enter("sleep 1000 &\necho pid $!")
        pid = int(session.seen.split("pid ")[1].split()[0])
        assert not has_ended(pid)
    wait_until(lambda: has_ended(pid))


def test_a_block_is_written_where_its_first_line_says(tmp_path):
    place = tmp_path / "a.py"
    write_file(Step("python", "# a.py\n\none = 1\n", 1), tmp_path, "6.1")
    write_file(Step("python", "# a.py, at the end\ntwo = 2\n", 1), tmp_path, "6.1")
    write_file(Step("python", "# a.py, at the end (with Django 5.2)\nn = 0\n", 1), tmp_path, "6.1")
    assert place.read_text().split("\n\n")[1].endswith("two = 2\n")
    assert "n = 0" not in place.read_text()
    with pytest.raises(AssertionError, match="does not say into which file"):
        write_file(Step("python", "three = 3\n", 1), tmp_path, "6.1")
