#!/bin/sh
# Unpack a MySQL server below a folder, with all libraries that it needs, from the packages of
# Debian's unstable suite on the mirror that this system uses. Nothing is installed.
set -eu

case ${1:-} in
/*) folder=$1 ;;
?*) folder=$PWD/$1 ;;
*) echo "usage: fetch_mysql.sh FOLDER" >&2 && exit 2 ;;
esac
[ ! -x "$folder/usr/sbin/mysqld" ] || exit 0

command -v apt-get >/dev/null || {
    echo "not Debian: no MySQL is fetched; start one and set DBQUEUE_MYSQL_URL" >&2
    exit 1
}

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/*$' | head -n 1)
[ -n "$mirror" ] || {
    echo "no Debian mirror among the sources of apt: no MySQL is fetched" >&2
    exit 1
}

mkdir -p "${folder%/*}"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/root"
# As if no package were installed, so that all libraries come along.
: >"$work/state/status"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] $mirror unstable main" >"$work/sources.list"

apt() {
    apt-get -qq -o Debug::NoLocking=true -o APT::Sandbox::User=root \
        -o Dir::State="$work/state" -o Dir::State::status="$work/state/status" \
        -o Dir::Cache="$work/cache" -o Dir::Cache::archives="$work/cache/archives" \
        -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- "$@"
}

apt update
apt install --download-only --no-install-recommends -y mysql-server-core
for package in "$work"/cache/archives/*.deb; do
    dpkg-deb --extract "$package" "$work/root"
done
libraries=$(echo "$work"/root/usr/lib/*-linux-gnu*)
"$(ls "$work"/root/usr/lib*/ld-linux*.so* | head -n 1)" --library-path "$libraries" \
    "$work/root/usr/sbin/mysqld" --no-defaults --version
rm -rf "$folder"
mv "$work/root" "$folder"
