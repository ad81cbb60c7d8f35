"""Workers: a supervisor that runs no user code, and children that claim, run and finish jobs."""
