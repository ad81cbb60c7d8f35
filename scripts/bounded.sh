#!/bin/sh
# What enqueueing into a bounded queue costs, on each server and on SQLite.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for url in "$DBQUEUE_MARIADB_URL" "$DBQUEUE_POSTGRESQL_URL" "sqlite:///$folder/bench.sqlite3"; do
    BENCH_DATABASE_URL=$url .venv/bin/python -m benchmarks.bounded "$@"
done
