"""A word of advice where nothing was ever queued."""

from django.db.utils import Error
from django.utils.translation import gettext as _

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
    _is_ours, name = min((s.label.startswith("dbqueue"), s.model.__name__) for s in options.served)
    is_task = any(s.label.startswith("dbqueue_tasks.") for s in options.served)
    has_own = any(not s.label.startswith("dbqueue") for s in options.served)
    call = "your_task.enqueue(...)" if is_task and not has_own else f"{name}.objects.create(...)"
    text = _("Nothing is queued yet. In another terminal, in `python manage.py shell`, try:")
    return f"{text}\n  {call}"
