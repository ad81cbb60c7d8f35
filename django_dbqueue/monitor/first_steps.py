"""A word of advice where nothing was ever queued."""

from django.db.utils import Error

from ..lifecycle.table import table_of
from ..metrics.counts import is_empty
from ..models import Minute
from ..worker.options import Options


def advice_for_beginners(options: Options) -> str:
    """How to enqueue, where no job has ever been; else ''."""
    try:
        for served in options.served:
            minutes = Minute.objects.using(served.using).filter(job_table=served.job_table)
            if not is_empty(table_of(served.model, served.using)) or minutes.exists():
                return ""
    except Error:
        return ""
    # The user's own queue table rather than one of ours.
    names = sorted((s.label.startswith("dbqueue"), s.model.__name__) for s in options.served)
    return (
        f"Nothing is queued yet. In another terminal, in `python manage.py shell`, try:\n"
        f"  {names[0][1]}.objects.create(...)"
    )
