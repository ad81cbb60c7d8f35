#!/usr/bin/env python3
"""Run the contract suite on the databases and the Python of another Debian, in a chroot.

    matrix.py [--suite SUITE] [--mirror URL] [--only DATABASE]... [PYTEST ARGUMENTS...]

SUITE is `stable`, if none is named; DATABASE is sqlite, mariadb, postgresql or mysql. MySQL is of
Debian's unstable suite, as for `make mysql`. What is run there: see scripts/matrix_tests.py.

Needs root, debootstrap and a mirror of Debian, which is that of this system's apt unless named.
Whatever runs there has namespaces of its own for processes and mounts: however this script ends,
no process of it is left, and nothing is mounted. The chroot stays in build/matrix/SUITE for the
next run, which brings it up to date; `make clean` removes it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from database_servers import Failure

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "matrix"
DATABASES = ("sqlite", "mariadb", "postgresql", "mysql")
PACKAGES = (
    *("mariadb-server", "postgresql", "python3-venv"),
    *("default-libmysqlclient-dev", "gcc", "libc6-dev", "pkg-config", "python3-dev"),
)
CHECKOUT = "srv/dbqueue"
# What a run leaves there for the next one, and what no run takes along.
KEPT = (".venv", "build")
LEFT_OUT = (".*", "__pycache__", "*.egg-info", "*.sqlite3*", "build", "dist")
# So that the packages' servers do not start, and PostgreSQL's makes no cluster.
POLICY = ("usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")
NO_CLUSTER = ("etc/postgresql-common/createcluster.d/none.conf", "create_main_cluster = false\n")
# What this machine says of packages and whom it trusts holds there, too.
OF_MACHINE = ("etc/resolv.conf", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")
OF_PIP = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_CERT")
# They end with us, even where we are killed; the first process there ends all the others.
APART = (
    *("setpriv", "--pdeathsig=KILL"),
    *("unshare", "--fork", "--pid", "--kill-child", "--mount", "--propagation=private"),
    "--mount-proc",
)
# The shell stays, for somebody has to reap what loses its parent.
ENTER = 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; chroot "$0" "$@"; exit'


def run_apart(*command: str) -> int:
    """Run it in namespaces of its own, to its end; all of it ends when we are interrupted."""
    process = subprocess.Popen([*APART, *command], env=environment(), start_new_session=True)
    try:
        return process.wait()
    finally:
        process.kill()
        process.wait()


def environment() -> dict[str, str]:
    """Nothing of this machine's own Python; but how it reaches packages."""
    asked = {
        name: value
        for name, value in os.environ.items()
        if name in OF_PIP or name.lower().endswith("_proxy")
    }
    paths = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    own = {"PATH": paths, "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    return {**asked, **own}


def call_inside(root: Path, script: str, *arguments: str) -> int:
    """Run a shell's script in the copied checkout within the chroot."""
    inner = f"cd /{CHECKOUT} && {script}"
    return run_apart("sh", "-ec", ENTER, str(root), "sh", "-ec", inner, "sh", *arguments)


def must(what: str, code: int) -> None:
    if code:
        raise Failure(f"{what} failed: exit code {code}")


def check_machine() -> None:
    if os.geteuid() != 0:
        raise Failure("a chroot is made by root alone: run this as root")
    for program in ("debootstrap", "setpriv", "unshare"):
        if not shutil.which(program):
            raise Failure(f"{program} not found: install it (debootstrap, util-linux)")


def mirror_of_machine() -> str:
    """The mirror of Debian among the sources of this system's apt."""
    ask = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    if shutil.which("apt-get"):
        found = subprocess.run(ask, capture_output=True, check=False, text=True).stdout.split()
        for address in found:
            if address.rstrip("/").endswith("/debian"):
                return address
    raise Failure("no mirror of Debian among the sources of apt: name one with --mirror")


def bootstrap(root: Path, suite: str, mirror: str) -> None:
    """A small Debian in that folder, unless a run before has made it whole."""
    done = root.with_name(f"{root.name}.done")
    if done.exists():
        return
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    options = ("--variant=minbase", "--include=ca-certificates")
    must("debootstrap", run_apart("debootstrap", *options, suite, str(root), mirror))
    for name, text in (POLICY, NO_CLUSTER):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    done.touch()


def copy_machine(root: Path) -> None:
    for name in OF_MACHINE:
        if (Path("/") / name).exists():
            shutil.copyfile(Path("/") / name, root / name)
    if shutil.which("apt-config"):
        dump = subprocess.run(["apt-config", "dump"], capture_output=True, check=True, text=True)
        ours = [line for line in dump.stdout.splitlines() if line.startswith("Acquire::")]
        (root / "etc/apt/apt.conf.d/machine").write_text("\n".join([*ours, ""]))


def copy_checkout(target: Path) -> None:
    empty(target, KEPT)
    ignore = shutil.ignore_patterns(*LEFT_OUT)
    shutil.copytree(ROOT, target, ignore=ignore, symlinks=True, dirs_exist_ok=True)


def empty(folder: Path, kept: tuple[str, ...] = ()) -> None:
    """Make the folder, or remove what is in it but for these names."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name in kept:
            continue
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink()


def install(root: Path, *, mysql: bool) -> None:
    packages = "apt-get -q update; apt-get -q -y --no-install-recommends"
    must(
        "apt-get", call_inside(root, f'{packages} dist-upgrade; {packages} install "$@"', *PACKAGES)
    )
    if mysql:
        must("MySQL", call_inside(root, "sh scripts/fetch_mysql.sh build/mysql"))
    newest = "-m pip install -q --upgrade --upgrade-strategy eager -e '.[test,mysql,postgresql]'"
    must("pip", call_inside(root, f"python3 -m venv .venv; .venv/bin/python {newest}"))


def test(root: Path, databases: list[str], arguments: list[str]) -> int:
    run = '.venv/bin/python scripts/matrix_tests.py "$@"'
    servers = [f"--{name}" for name in databases if name != "sqlite"]
    if servers:
        run = f"python3 scripts/servers.py run {' '.join(servers)} -- {run}"
    only = [option for name in databases for option in ("--only", name)]
    return call_inside(root, run, *only, *arguments)


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description="Run the contract suite in a chroot; other arguments are pytest's.",
        allow_abbrev=False,
    )
    parser.add_argument("--suite", default="stable", help="of Debian: stable, testing, trixie, ...")
    parser.add_argument("--mirror", help="of Debian; else that of this system's apt")
    parser.add_argument("--only", action="append", default=[], choices=DATABASES)
    return parser.parse_known_args(argv)


def on_signal(signum: int, _frame: object) -> None:
    raise SystemExit(128 + signum)


def main(argv: list[str]) -> int:
    options, arguments = parse(argv)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, on_signal)
    root = BUILD / options.suite
    databases = options.only or list(DATABASES)
    try:
        check_machine()
        bootstrap(root, options.suite, options.mirror or mirror_of_machine())
        copy_machine(root)
        copy_checkout(root / CHECKOUT)
        empty(root / "tmp")  # of what a run that was ended had there
        install(root, mysql="mysql" in databases)
        return test(root, databases, arguments)
    except Failure as failure:
        print(f"matrix.py: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
