"""A process that starts from one that has set the project up is as if it had done so itself."""

import os

import pytest

from tests.kit.warm_processes import ROOT, run

pytestmark = pytest.mark.process
TELL = """
import os, time
from django.conf import settings
from django_dbqueue.conf import conf
print(settings.TIME_ZONE, time.tzname[0], conf["BEAT_INTERVAL"], os.environ.get("NEW"))
"""


def told(**environment):
    env = os.environ | {"DBQUEUE_TESTS": "1", "DEBUG": "0"} | environment
    done = run(["manage.py", "shell", "--no-imports", "-c", TELL], cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("time", ["1", "2"])
def test_each_has_the_environment_it_was_given(time):
    assert told(DBQUEUE_BEAT_INTERVAL=time, NEW=time)[1:] == ["UTC", f"{time}.0", time]


def test_what_the_set_up_reads_is_read_anew_where_it_differs():
    assert told(TEST_TIME_ZONE="UTC")[0] == "UTC"
    for zone, short in [("Asia/Tokyo", "JST"), ("Africa/Lagos", "WAT"), ("Asia/Karachi", "PKT")]:
        assert told(TEST_TIME_ZONE=zone)[:2] == [zone, short]
