"""What millions of rows, and a snapshot that is held open, cost: see ``__main__``."""

MODULE = "benchmarks.growth.inside"
READY = "ready"  # what a process says that waits for a line to begin
ROWS_VARIABLE = "BENCH_ROWS"  # finished ones in the full table
# Seconds: when finished jobs are archived, and when archived ones are deleted; without them a day,
# and never.
ARCHIVE_VARIABLE = "BENCH_ARCHIVE_AFTER"
PRUNE_VARIABLE = "BENCH_PRUNE_AFTER"
