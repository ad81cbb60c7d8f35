"""A primary with a replica: it is killed under load, and the replica is promoted."""

import pytest
from replicas import MariaDBNode, PostgreSQLNode

from tests.kit.failover import cluster, prove_that_nothing_is_lost, prove_what_is_lost


def postgresql(folder, number):
    return PostgreSQLNode(folder / str(number))


def mariadb(folder, number):
    return MariaDBNode(folder / str(number), number, folder / "template")


pytestmark = [
    *(pytest.mark.cluster, pytest.mark.process, pytest.mark.any_database, pytest.mark.proof),
    pytest.mark.parametrize(
        ("node", "url"),
        [(postgresql, "postgresql://postgres"), (mariadb, "mysql://root")],
        ids=["postgresql", "mariadb"],
    ),
]


def test_behind_a_synchronous_replica_nothing_is_lost(django_db_blocker, log, full, node, url):
    with django_db_blocker.unblock(), cluster(node, url, synchronous=True) as made:
        print(prove_that_nothing_is_lost(made, log, 10 if full else 2))


def test_behind_an_asynchronous_replica_only_the_last_commits_are_lost(
    django_db_blocker, log, full, node, url
):
    with django_db_blocker.unblock(), cluster(node, url, synchronous=False) as made:
        print(prove_what_is_lost(made, log, 5 if full else 2, lag=1.0))
