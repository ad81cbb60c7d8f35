#!/bin/sh
# 10 claimers x 10,000 jobs with enqueuers at work, in batches of 1 and of 10, on each server.
set -eu
for url in "$DBQUEUE_MARIADB_URL" "$DBQUEUE_POSTGRESQL_URL"; do
    for batch in 1 10; do
        echo "${url%%:*}, batches of $batch"
        DATABASE_URL=$url .venv/bin/python -m tests.kit.stress --claimers 10 --jobs 10000 --batch "$batch"
    done
done
