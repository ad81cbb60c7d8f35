"""A Galera cluster of private MariaDB servers on loopback, and HAProxy before it.

Standard library only, as all servers of these scripts.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from database_servers import DATABASE, Failure, Server, binary, family, send, wait_for
from mysql_servers import MariaDB

LIBRARIES = ("/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so")
# Nodes that say nothing are taken for gone after 2 s; by default it is 5 to 15.
PATIENCE = "evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;evs.keepalive_period=PT0.5S"
# How a node that starts finds out up to where its data goes.
POSITION = re.compile(rb"Recovered position:? ([0-9a-f-]{36}:-?\d+)")
JOIN_SECONDS = 60.0
PROXY = """
global
    maxconn 2000
    external-check
    insecure-fork-wanted
defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h
    timeout check 5s
    default-server inter 1s fall 2 rise 2 on-marked-down shutdown-sessions
listen spread
    bind 127.0.0.1:{spread}
    balance roundrobin
    option external-check
    external-check path "/usr/bin:/bin"
    external-check command {check}
{servers}
"""
PREFERRED = """
listen prefer_{name}
    bind 127.0.0.1:{port}
{servers}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class GaleraNode(MariaDB):
    """One of the ``peers``; the first one to start makes the cluster."""

    def __init__(self, folder: Path, number: int, peers: Sequence[int]) -> None:
        self.name = f"node{number}"
        self.port, self.peers = peers[number], peers
        self.client_port, self.transfer_port, self.state_port = (free_port() for _ in range(3))
        self.makes_cluster = False
        self.position: str | None = None
        super().__init__(folder)
        # The program that copies its data to others does not run as root.
        self.account = "mysql" if os.geteuid() == 0 else None
        self.as_root = []
        found = [path for path in LIBRARIES if Path(path).exists()]
        if not found:
            raise Failure("no libgalera_smm.so: install the package galera-4")
        self.library = found[0]

    def tcp_url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.client_port}/{DATABASE}"

    def initialise(self) -> None:
        if self.makes_cluster:
            super().initialise()
        else:
            self.call("mkdir", str(self.data))

    def create_database(self) -> None:
        if self.makes_cluster:
            super().create_database()
            self.sql("CREATE USER root@'127.0.0.1'; GRANT ALL ON *.* TO root@'127.0.0.1'")

    def command(self) -> list[str]:
        peers = ",".join(f"127.0.0.1:{port}" for port in self.peers)
        provider = (
            f"gmcast.listen_addr=tcp://127.0.0.1:{self.port};"
            f"ist.recv_addr=127.0.0.1:{self.transfer_port};{PATIENCE};gcache.size=128M"
        )
        own = [
            "--wsrep-on=ON",
            f"--wsrep-provider={self.library}",
            f"--wsrep-provider-options={provider}",
            "--wsrep-cluster-name=dbqueue",
            f"--wsrep-cluster-address=gcomm://{peers}",
            f"--wsrep-node-name={self.name}",
            f"--wsrep-node-address=127.0.0.1:{self.port}",
            "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address=127.0.0.1:{self.state_port}",
            "--wsrep-slave-threads=4",
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
            # A node that goes down gets what it has lost from the others.
            "--innodb-flush-log-at-trx-commit=2",
            "--bind-address=127.0.0.1",
            f"--port={self.client_port}",
        ]
        if self.makes_cluster:
            own.append("--wsrep-new-cluster")
        if self.position:
            own.append(f"--wsrep-start-position={self.position}")
        kept = [part for part in super().command() if part != "--skip-networking"]
        return [*kept, *own]

    def ping(self) -> list[str]:
        """It says so of a table once it is a member with all data."""
        return self.asking("SELECT COUNT(*) FROM mysql.user")

    def asking(self, sql: str) -> list[str]:
        login = ["--no-defaults", f"--socket={self.socket}", "--user=root", "--batch"]
        return [self.client, *login, "--skip-column-names", "--connect-timeout=5", "-e", sql]

    def sql(self, statement: str) -> str:
        """What it answers; '' also where it does not."""
        done = subprocess.run(
            self.asking(statement), capture_output=True, check=False, text=True, timeout=30
        )
        return done.stdout.strip()

    def status(self, name: str) -> str:
        return self.sql(f"SHOW GLOBAL STATUS LIKE '{name}'").partition("\t")[2]

    def start_again(self) -> None:
        """After it was killed or stopped, while others are there."""
        self.makes_cluster = False
        self.position = self._recovered_position()
        self.start()
        self.position = None

    def _recovered_position(self) -> str | None:
        """Else it would have all data copied."""
        done = subprocess.run(
            [*self.command(), "--wsrep-recover"],
            capture_output=True,
            check=False,
            cwd=self.folder,
            **self.identity(),
        )
        found = POSITION.findall(done.stderr + done.stdout)
        return found[-1].decode() if found else None

    def thaw(self) -> None:
        for pid in reversed(family(self.pid())):
            send(pid, signal.SIGCONT)

    def isolate(self, *, on: bool = True) -> None:
        """Let it hear nothing of the others, nor they of it."""
        self.sql(f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={on:d}'")

    def is_synced(self) -> bool:
        return self.status("wsrep_local_state_comment") == "Synced"


class Galera:
    """Three nodes, or as many as are asked for."""

    def __init__(self, folder: Path, size: int = 3) -> None:
        peers = [free_port() for _ in range(size)]
        self.nodes = [GaleraNode(folder, number, peers) for number in range(size)]

    def start(self) -> None:
        self.nodes[0].makes_cluster = True
        for node in self.nodes:
            node.start()
        self.nodes[0].makes_cluster = False
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        whole = str(len(self.nodes))

        def is_whole() -> bool:
            return all(
                one.is_synced() and one.status("wsrep_cluster_size") == whole for one in self.nodes
            )

        if not wait_for(is_whole, JOIN_SECONDS):
            raise Failure(
                "\n".join(["the cluster is not whole", *(n.log_tail() for n in self.nodes)])
            )

    def stop(self) -> None:
        for node in reversed(self.nodes):
            node.thaw()
            node.stop()


class HAProxy(Server):
    """Before the nodes: the port ``spread`` takes them in turn; for each node one of ``prefers``
    sends all to it, and to another one while it is away."""

    name = "haproxy"

    def __init__(self, folder: Path, nodes: Sequence[GaleraNode]) -> None:
        super().__init__(folder)
        self.nodes = nodes
        self.spread, self.prefers = free_port(), [free_port() for _ in nodes]
        self.program = binary("haproxy", "haproxy")

    def url_of(self, port: int) -> str:
        return f"mysql://root@127.0.0.1:{port}/{DATABASE}"

    def initialise(self) -> None:
        self.data.mkdir()
        check = self.data / "check"
        # HAProxy gives it the proxy's and the server's addresses.
        sql = "SELECT COUNT(*) FROM mysql.user"
        client = f"{self.nodes[0].client} --no-defaults --user=root --connect-timeout=3"
        check.write_text(f'#!/bin/sh\nexec {client} --host="$3" --port="$4" -e "{sql}"\n')
        check.chmod(0o755)
        lines = {n.name: f"    server {n.name} 127.0.0.1:{n.client_port}" for n in self.nodes}
        servers = "\n".join(f"{line} check" for line in lines.values())
        text = PROXY.format(check=check, spread=self.spread, servers=servers)
        for port, node in zip(self.prefers, self.nodes, strict=True):
            tracked = {name: f"{line} track spread/{name}" for name, line in lines.items()}
            others = [f"{line} backup" for name, line in tracked.items() if name != node.name]
            servers = "\n".join([tracked[node.name], *others])
            text += PREFERRED.format(name=node.name, port=port, servers=servers)
        self.config.write_text(text)

    @property
    def config(self) -> Path:
        return self.data / "haproxy.cfg"

    def command(self) -> list[str]:
        return [self.program, "-db", "-f", str(self.config)]

    def ping(self) -> list[str]:
        login = ["--no-defaults", "--user=root", "--host=127.0.0.1", f"--port={self.prefers[0]}"]
        return [self.nodes[0].client, *login, "--connect-timeout=2", "-e", "SELECT 1"]

    def create_database(self) -> None:
        """It has none of its own."""
