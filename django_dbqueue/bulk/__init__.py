"""Actions on any number of jobs, each a job of its own that says how far it is."""
