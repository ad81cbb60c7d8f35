"""MariaDB with a replica by GTID: the primary is killed under load, and the replica is promoted."""

import pytest
from replicas import MariaDBNode

from tests.kit.failover import cluster, prove_that_nothing_is_lost, prove_what_is_lost

pytestmark = [
    *(pytest.mark.cluster, pytest.mark.process, pytest.mark.any_database, pytest.mark.proof),
]
URL = "mysql://root"


def node(folder, number):
    return MariaDBNode(folder / str(number), number, folder / "template")


def test_behind_a_synchronous_replica_nothing_is_lost(django_db_blocker, log, full):
    with django_db_blocker.unblock(), cluster(node, URL, synchronous=True) as made:
        print(prove_that_nothing_is_lost(made, log, 10 if full else 2))


def test_behind_an_asynchronous_replica_only_the_last_commits_are_lost(
    django_db_blocker, log, full
):
    with django_db_blocker.unblock(), cluster(node, URL, synchronous=False) as made:
        print(prove_what_is_lost(made, log, 5 if full else 2, lag=1.0))
