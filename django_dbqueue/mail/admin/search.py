"""Finding emails by whom they are for and what about, for those who may see that."""

from typing import Any

from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ...admin import search
from ...texts.wording import number
from ..finding import is_whole, keys_to

OLD_MAIL = gettext_lazy(
    "Mail from before the upgrade is found by its recipients once manage.py index_recipients has "
    "run."
)
WITHIN = gettext_lazy("Of subjects the beginning is looked for.")


def found(
    model_admin: Any, request: HttpRequest, rows: QuerySet[Any], term: str, keys: set[Any]
) -> QuerySet[Any]:
    """Those of the rows that have one of the keys, are to this address, or have a subject that
    begins so. Of an address the newest thousand are found. Where very many subjects begin so, they
    are looked for row by row, the newest first."""
    most = search.FOUND_ROWS_MAX
    if "@" in term and model_admin.may_find_by(request, "recipients"):
        theirs = keys_to(term, rows.db, most)
        keys |= set(theirs)
        if len(theirs) == most:
            text = _("To this address the newest %(number)s emails are found.")
            search.note(request, text % {"number": number(most)})
        elif not is_whole(rows.model, rows.db):
            search.note(request, str(OLD_MAIL))
    if model_admin.may_find_by(request, "subject"):
        begins = Q(subject__istartswith=term)
        all_rows = rows.model._base_manager.using(rows.db).order_by()
        alike = list(all_rows.filter(begins).values_list("pk", flat=True)[:most])
        if len(alike) == most:
            # Not by its index: SQLite would read all that it has for each part of the list.
            rows = rows.alias(one_by_one=Coalesce("subject", Value("")))
            return rows.filter(Q(one_by_one__istartswith=term) | Q(pk__in=sorted(keys)))
        keys |= set(alike)
        if not keys:
            link = _("Look through all of them")
            search.note(request, str(WITHIN), link, subject__icontains=term)
    return rows.filter(pk__in=sorted(keys))
