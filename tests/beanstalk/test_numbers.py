"""What numbers ``runbeanstalkd`` takes, and what it refuses."""

import pytest
from django.core.management import CommandError

from django_dbqueue.beanstalk.management.commands.runbeanstalkd import Command

pytestmark = pytest.mark.any_database
NUMBERS = {
    "--max-job-size": (1, 2**30),
    "--max-connections": (1, 1_000_000),
    "--max-per-address": (1, 1_000_000),
    "--max-unauthenticated": (1, 1_000_000),
}


def told(option, value):
    parsed = Command().create_parser("manage.py", "runbeanstalkd").parse_args([f"{option}={value}"])
    return vars(parsed)[option.strip("-").replace("-", "_")]


@pytest.mark.parametrize("option", NUMBERS)
def test_a_number_within_its_limits_is_taken(option):
    for value in NUMBERS[option]:
        assert told(option, value) == value


@pytest.mark.parametrize("option", NUMBERS)
def test_a_number_beyond_its_limits_is_refused_with_them(option):
    least, most = NUMBERS[option]
    for value in (least - 1, -5, most + 1, "1e3", "", "x"):
        with pytest.raises(CommandError, match=rf"{option}: must be .*{least} (to|and) {most}"):
            told(option, value)


@pytest.mark.parametrize("port", ["65536", "-1", "x", ""])
def test_a_port_that_there_is_not_is_refused(port):
    with pytest.raises(CommandError, match="--listen: must be HOST:PORT"):
        told("--listen", f"127.0.0.1:{port}")
