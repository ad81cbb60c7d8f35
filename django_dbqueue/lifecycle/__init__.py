"""The only place that changes a job's state.

Every verb is one conditional UPDATE (or one INSERT) whose affected row count is the answer. It
takes the queue table as an argument and imports no model.
"""
