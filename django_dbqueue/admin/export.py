"""Jobs as a CSV file, written while it is sent: in memory there are never more than 500 of them."""

import csv
import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from io import StringIO
from typing import Any

from django.db import connections
from django.db.models import BinaryField, Field, QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import override

from ..dialects import dialect_of
from ..operate import walking
from ..operate.recording import message, record_of
from ..states import Status
from .confirmation import filters, selected_keyset
from .masking import MASK, masked

CHUNK_ROWS = 500
# With one of these at its beginning a cell is a formula, for some programs.
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


class Export:
    """One file; the entry in the admin's log says at the end how many rows went into it."""

    def __init__(self, model_admin: Any, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        may_inspect = model_admin.has_inspect_permission(request)
        self.fields: list[Field[Any, Any]] = []
        for field in model_admin.model._meta.concrete_fields:
            is_seen = may_inspect or field.primary_key or field.name in model_admin.open_columns
            is_left_out = field.name in model_admin.not_exported or isinstance(field, BinaryField)
            if is_seen and not is_left_out:
                self.fields.append(field)
        self.more, self.is_masked = model_admin.masked, model_admin.is_masked
        names = [one.attname for one in self.fields]
        rows = queryset.select_related(None).only(*names)
        self.keyset = selected_keyset(model_admin, request, rows)
        self.dialect = dialect_of(connections[rows.db])
        self.using, self.filters = rows.db, filters(request)
        model = model_admin.model
        with override(None):  # the log is English, and so is the file
            about = str(model._meta.verbose_name_plural)
            self.labels = {status: str(word) for status, word in model_admin.state_words.items()}
        who, asked = request.user.pk, self.filters
        self.entry = record_of(who, model, about, "export: begun", using=rows.db, filters=asked)
        self.rows = 0

    def lines(self) -> Iterator[bytes]:
        how = "stopped after"
        try:
            yield _csv([["state" if f.name == "status" else f.attname for f in self.fields]])
            chunks = walking.chunks(self.keyset, CHUNK_ROWS)
            while True:
                # Not for longer than the statement: others may use the connection in between.
                with self.dialect.decode_leniently():
                    rows = next(chunks, None)
                if rows is None:
                    break
                self.rows += len(rows)
                yield _csv([self._cell(field, row) for field in self.fields] for row in rows)
            how = "sent"
        finally:
            said = f"export: {how} {self.rows:,} rows"
            self.entry.change_message = message(said, self.using, self.filters)
            self.entry.save(update_fields=["change_message"])

    def _cell(self, field: "Field[Any, Any]", row: Any) -> Any:
        if field.name == "status":
            is_plain = row.state == dict(Status.choices).get(row.status)
            return self.labels[row.status] if is_plain else row.state
        if self.is_masked(field.name):
            return MASK
        value = masked(getattr(row, field.attname), self.more)
        if isinstance(value, dict | list):
            value = json.dumps(value, ensure_ascii=False, default=str)
        if value is None or isinstance(value, int | float | Decimal):
            return value
        text = value.isoformat() if hasattr(value, "isoformat") else str(value)
        return f"'{text}" if text.startswith(FORMULA) else text


def export(
    model_admin: Any, request: HttpRequest, queryset: QuerySet[Any]
) -> StreamingHttpResponse:
    """The rows that were chosen, or all that match."""
    name = f"{model_admin.opts.label_lower}.csv"
    return StreamingHttpResponse(
        Export(model_admin, request, queryset).lines(),
        content_type="text/csv; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        },
    )


def _csv(rows: Iterable[list[Any]]) -> bytes:
    page = StringIO()
    csv.writer(page).writerows(rows)
    return page.getvalue().encode(errors="replace")
