"""A word of advice where nothing was ever queued."""

from collections.abc import Iterable

from django.db.utils import Error

from ..lifecycle.table import table_of
from ..metrics.counts import is_empty
from ..models import Minute
from ..worker.options import Options
from ..worker.served import Served


def advice_for_beginners(options: Options) -> str:
    """How to enqueue, where no job has ever been; else ''."""
    try:
        if not all(_is_untouched(served) for served in options.served):
            return ""
    except Error:
        return ""
    model = _easiest(options.served)
    return (
        f"Nothing is queued yet. In another terminal, in `python manage.py shell`, try:\n"
        f"  {model}.objects.create(...)"
    )


def _is_untouched(served: Served) -> bool:
    minutes = Minute.objects.using(served.using).filter(job_table=served.job_table)
    return is_empty(table_of(served.model, served.using)) and not minutes.exists()


def _easiest(served: Iterable[Served]) -> str:
    """The user's own queue table rather than one of ours."""
    names = sorted((s.label.startswith("dbqueue"), s.model.__name__) for s in served)
    return names[0][1]
