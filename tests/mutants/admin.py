"""Mutants of the admin: who may see and do what, asked before, recorded, escaped."""

BASE, LISTS, PAGES = "admin/base.py", "admin/lists.py", "admin/pages.py"
PERMISSIONS, MASKING, ARGUMENTS = "admin/permissions.py", "admin/masking.py", "admin/arguments.py"
ACTIONS, CONFIRMATION, EXPORT = "admin/actions.py", "admin/confirmation.py", "admin/export.py"
CURSOR, PAUSE, QUEUES, WORKERS = (
    *("operate/cursor.py", "admin/pause.py", "admin/queues.py", "admin/workers.py"),
)
EMAILS, CONTENTS, PAGE = "mail/admin/emails.py", "mail/admin/contents.py", "mail/admin/page.py"

TIMES, ORDERS, CHANGELIST = "admin/times.py", "operate/orders.py", "admin/changelist.py"

MUTANTS = [
    (
        "monitor/web.py",
        "        with override(None):\n            return self._verdict()",
        "        return self._verdict()",
        "a machine is answered in the language of the one who asked first",
    ),
    (
        "operate/recording.py",
        "    with override(None):  # the log is English in every language",
        "    if True:",
        "the log is in as many languages as people read",
    ),
    (
        "management/commands/dbqueue.py",
        'is_english = options.get("json") or',
        "is_english =",
        "what a command says to programs is in the language of people",
    ),
    (
        "texts/labels.py",
        'if word is not None and vars(field)["_verbose_name"] is None:',
        "if word is not None:",
        "the name that a project gives a column is not shown",
    ),
    (
        TIMES,
        "return queryset.none()",
        "return queryset",
        "an action on all that match no time is done to all jobs",
    ),
    (
        TIMES,
        'return queryset if end is None else queryset.filter(**{f"{self.column}__lte": end})',
        "return queryset",
        "a list until a moment shows what came after it",
    ),
    (
        ORDERS,
        "    Status.BURIED: BY_FAILURE,\n",
        "",
        "failed jobs are not shown by when they failed",
    ),
    (
        CHANGELIST,
        "LONG_WALK_SECONDS if self.is_long else walking.WALK_SECONDS",
        "walking.WALK_SECONDS",
        "a list that looks on asks for hundreds of clicks",
    ),
    (
        PERMISSIONS,
        'has_cancel_permission = allows("delete")',
        'has_cancel_permission = allows("retry")',
        "who may retry may cancel for good",
    ),
    (
        PAGES,
        "if model_admin is None or not model_admin.has_view_permission(request):",
        "if model_admin is None:",
        "pages lead to what may not be seen",
    ),
    (
        BASE,
        "may_ask = is_named or self.may_find_by(request, lookup)",
        "may_ask = True",
        "the list tells letter by letter what may not be seen",
    ),
    (
        BASE,
        "        if not self.has_inspect_permission(request):\n            names = without",
        "        if False:\n            names = without",
        "the list shows the texts of errors to everybody",
    ),
    (
        BASE,
        "return not is_own and super().has_delete_permission(request, obj)",
        "return super().has_delete_permission(request, obj)",
        "a job that is claimed is deleted by Django's own page",
    ),
    (
        LISTS,
        "if model_admin.is_masked(field.name) and not field.primary_key:",
        "if False:",
        "a list shows the column that the project calls secret",
    ),
    (
        LISTS,
        "return queryset.filter(queue=self.value()) if self.value() else queryset",
        "return queryset",
        "an action on all that match is done to every queue",
    ),
    (
        LISTS,
        "return in_state(queryset, status) if self.has_states else queryset.filter(status=status)",
        "return in_state(queryset, status) if self.has_states else queryset",
        "the list of an archive shows every state, whichever was asked for",
    ),
    (
        MASKING,
        "if len(value) == 2 and isinstance(value[0], str) and is_sensitive(value[0], more):",
        "if False:",
        "a header's secret is shown",
    ),
    (
        MASKING,
        'if not text.lstrip().startswith(("{", "[")):',
        'if not text.startswith(("{", "[")):',
        "a secret in JSON as text is shown where a space stands before it",
    ),
    (
        MASKING,
        "hidden = HOLDING if is_secret else ()",
        "hidden = ()",
        "a value next to the name of a secret is shown",
    ),
    (
        ARGUMENTS,
        "if shown is not None and field.name not in shown:",
        "if False:",
        "the page shows all columns to who may not inspect",
    ),
    (
        ARGUMENTS,
        "        if is_sensitive(field.name, more):\n",
        "        if is_sensitive(field.name):\n",
        "what the project calls secret is shown on the page",
    ),
    (
        ACTIONS,
        "verb, matching.ROWS_MAX, ",
        "verb, 10**6, ",
        "an action on all that match is done to a million of them at once",
    ),
    (
        ACTIONS,
        " or action.verb.is_final):",
        "):",
        "jobs are cancelled for good without a question",
    ),
    (
        ACTIONS,
        "flag = DELETION if verb.is_final else CHANGE",
        "flag = CHANGE",
        "the log calls a cancelled job changed",
    ),
    (
        ACTIONS,
        "confirmation.log(request, progress.first, message, progress.taken, flag)",
        "pass",
        "nobody knows who did it",
    ),
    (
        CONFIRMATION,
        "    if found.has_more or len(keys) > matching.ROWS_MAX:\n",
        "    if False:\n",
        "mail is erased beyond 500 at once",
    ),
    (
        CONFIRMATION,
        "if (keys or found.is_cut) and not is_asked:",
        "if False:",
        "messages are erased without a question",
    ),
    (
        CONFIRMATION,
        'return request.POST.get("confirmed") == "yes"',
        'return "confirmed" in request.POST',
        "whatever is answered to a question is a yes",
    ),
    (
        EXPORT,
        'FORMULA = tuple("=+-@',
        'FORMULA = tuple("=+-',
        "a cell of an export is a formula",
    ),
    (
        EXPORT,
        "if self.is_masked(field.name):",
        "if False:",
        "what the project calls secret is exported",
    ),
    (
        EXPORT,
        "is_seen = may_inspect or field.primary_key or field.name in model_admin.open_columns",
        "is_seen = True",
        "what a job holds is exported to who may not inspect",
    ),
    (
        EXPORT,
        '            self.entry.save(update_fields=["change_message"])\n',
        "",
        "the log does not say how many rows were exported",
    ),
    (
        CURSOR,
        'sign = "-" if self.is_descending != backwards else ""',
        'sign = "-" if self.is_descending else ""',
        "the way back through a list skips rows",
    ),
    (
        CURSOR,
        "    if isinstance(found, int) and abs(found) > BIGINT_MAX:\n        raise",
        "    if False:\n        raise",
        "a number that is too big in the address of a list is an error of the page",
    ),
    (
        PAUSE,
        "    if not model_admin.has_pause_permission(request):\n        raise",
        "    if False:\n        raise",
        "everybody may pause queues",
    ),
    (
        PAUSE,
        'return float(self.cleaned_data["minutes"] * 60)',
        'return float(self.cleaned_data["minutes"])',
        "a pause of minutes lasts for seconds",
    ),
    (
        PAUSE,
        "not 0 < self._left <= DAYS_MAX * 86400:",
        "not self._left <= DAYS_MAX * 86400:",
        "a queue is paused until a time that is over",
    ),
    (
        PAUSE,
        "    confirmation.log(request, [row], logged)\n",
        "",
        "nobody knows who paused a queue",
    ),
    (QUEUES, '(resume_view, ("POST",))', "(resume_view, READING)", "a link resumes a queue"),
    (
        WORKERS,
        "        if not self.has_stop_permission(request):\n            raise",
        "        if False:\n            raise",
        "everybody may stop workers",
    ),
    (
        WORKERS,
        'else format_html("{}", job)',
        "else SafeString(job)",
        "what a worker says of its jobs is taken for markup",
    ),
    (
        WORKERS,
        "and its jobs wait for their time.\n        return False",
        "and its jobs wait for their time.\n        return True",
        "the row of a dead worker is deleted, and nobody misses it",
    ),
    (
        EMAILS,
        'not_exported = frozenset({"message"})',
        "not_exported = frozenset()",
        "an export holds whole messages",
    ),
    (
        EMAILS,
        'has_settle_permission = _allows("settle")',
        'has_settle_permission = _allows("resend")',
        "who may send again may mark as sent",
    ),
    (
        EMAILS,
        'is_hidden = lookup.partition("__")[0] == "message"',
        "is_hidden = False",
        "a filter of the list reads every message",
    ),
    (
        EMAILS,
        '            log(request, done.old, f"Sent again as {names}")\n',
        "            pass\n",
        "nobody knows who has sent a mail again",
    ),
    (
        PAGE,
        'text = one.text if may_inspect else ""',
        "text = one.text",
        "what servers said is shown to who may not inspect",
    ),
    (
        CONTENTS,
        "sandbox; default-src 'none'; img-src data:",
        "default-src 'none'; img-src data: https:",
        "the preview of a mail fetches pictures from elsewhere",
    ),
    (
        CONTENTS,
        "        if not self.has_inspect_permission(request):\n            raise",
        "        if False:\n            raise",
        "everybody who sees mail may read it",
    ),
]
