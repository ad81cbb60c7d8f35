"""What tells other systems of jobs: traces, and errors; each is an extra, and off by default."""
