#!/bin/sh
# Install what the tests need from Debian, and what else is named, if it is missing: servers,
# headers, a compiler, a browser.
set -eu

installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

command -v dpkg-query >/dev/null || {
    echo "not Debian: install MariaDB, PostgreSQL, the MySQL client headers, a C compiler and Chromium" >&2
    exit 0
}

PYTHON=${PYTHON:-python3}
browser=chromium-headless-shell
# The whole one serves, too, where nobody may install, or where there is no shell to install.
if [ "$(id -u)" != 0 ] && installed chromium; then
    browser=chromium
fi
missing=""
for package in mariadb-server default-libmysqlclient-dev pkg-config postgresql gcc "$browser" "$@"; do
    installed "$package" || missing="$missing $package"
done
# Only Debian's own Python splits these off.
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
"$PYTHON" -c 'import os, sysconfig as s; os.stat(s.get_path("include") + "/Python.h")' \
    2>/dev/null || missing="$missing python3-dev"

[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
    echo "missing packages; run: sudo apt-get install$missing" >&2
    exit 1
fi

export DEBIAN_FRONTEND=noninteractive
# Read by the postgresql package, which would else create and start a cluster of its own.
no_cluster=/etc/postgresql-common/createcluster.d/dbqueue-no-cluster.conf
# Read by all packages of servers: none starts a service.
no_services=/usr/sbin/policy-rc.d
if [ -e "$no_services" ]; then
    no_services=""
else
    printf '#!/bin/sh\nexit 101\n' >"$no_services"
    chmod 755 "$no_services"
fi
trap 'rm -f "$no_cluster" ${no_services:+"$no_services"}' EXIT
case $missing in
*postgresql*)
    mkdir -p "${no_cluster%/*}"
    echo "create_main_cluster = false" >"$no_cluster"
    ;;
esac
# shellcheck disable=SC2086
if ! { apt-get update -q && apt-get install -q -y --no-install-recommends $missing; }; then
    [ "$missing" = " $browser" ] && installed chromium
fi
