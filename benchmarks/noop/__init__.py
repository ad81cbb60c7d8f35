"""The job that does nothing, once for every queue that is measured."""
