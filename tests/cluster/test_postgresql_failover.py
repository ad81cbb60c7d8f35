"""PostgreSQL with a standby: the primary is killed under load, and the standby is promoted."""

import pytest
from replicas import PostgreSQLNode

from tests.kit.failover import cluster, prove_that_nothing_is_lost, prove_what_is_lost

pytestmark = [
    *(pytest.mark.cluster, pytest.mark.process, pytest.mark.any_database, pytest.mark.proof),
]
URL = "postgresql://postgres"


def node(folder, number):
    return PostgreSQLNode(folder / str(number))


def test_behind_a_synchronous_standby_nothing_is_lost(django_db_blocker, log, full):
    with django_db_blocker.unblock(), cluster(node, URL, synchronous=True) as made:
        print(prove_that_nothing_is_lost(made, log, 10 if full else 2))


def test_behind_an_asynchronous_standby_only_the_last_commits_are_lost(
    django_db_blocker, log, full
):
    with django_db_blocker.unblock(), cluster(node, URL, synchronous=False) as made:
        print(prove_what_is_lost(made, log, 5 if full else 2, lag=1.0))
