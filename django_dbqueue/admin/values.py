"""The forms of what an action is told besides the jobs: another queue, priority, time."""

from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from ..fields import InstantField, check_name
from ..lifecycle.enqueue import MAX_PRIORITY
from ..lifecycle.policy import MAX_SECONDS
from ..operate.acting import told
from ..texts.wording import number_later

PREFIX = "dbqueue"  # of its fields: the admin has names of its own
QUEUE_CHARACTERS_MAX = 200
PRIORITY = format_lazy(
    gettext_lazy("Priority: a whole number between 0, the most urgent, and {most}."),
    most=number_later(MAX_PRIORITY),
)
NAME = format_lazy(
    gettext_lazy(
        "To queue: a name of at most {most} bytes, without control characters, and with no space "
        "at its beginning or end."
    ),
    most=number_later(QUEUE_CHARACTERS_MAX),
)
TIME = gettext_lazy("Run at: a date and a time.")
TIME_TO_RUN = format_lazy(
    gettext_lazy("Time to run: whole seconds between 1 and {most}."),
    most=number_later(MAX_SECONDS),
)


class ValuesForm(forms.Form):
    """The values by their names in code, once it is valid."""

    # Of a field that is a moment, in the time zone of the project.
    has_times: ClassVar[bool] = False

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}


class MoveForm(ValuesForm):
    queue = forms.CharField(
        label=gettext_lazy("To queue"),
        max_length=QUEUE_CHARACTERS_MAX,
        strip=False,
        widget=forms.TextInput(attrs={"list": "dbqueue-known-queues", "autocomplete": "off"}),
        error_messages={"required": gettext_lazy("To queue: name it.")},
    )

    def clean_queue(self) -> str:
        name: str = self.cleaned_data["queue"]
        try:
            check_name(name, "queue")
        except ValidationError as error:
            raise forms.ValidationError(NAME) from error
        return name


class PriorityForm(ValuesForm):
    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        min_value=0,
        max_value=MAX_PRIORITY,
        error_messages=dict.fromkeys(("required", "invalid", "min_value", "max_value"), PRIORITY),
    )


def moment_field(*, required: bool) -> forms.DateTimeField:
    return forms.DateTimeField(
        label=gettext_lazy("Run at"),
        required=required,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}),
        error_messages={"required": TIME, "invalid": TIME},
    )


class TimesForm(ValuesForm):
    has_times = True

    def clean_due(self) -> datetime | None:
        due: datetime | None = self.cleaned_data["due"]
        if due is not None:
            try:
                InstantField().get_prep_value(due)
                told(due)  # as the log has it
            except (ValidationError, ValueError, OverflowError) as error:
                raise forms.ValidationError(TIME) from error
        return due


class RescheduleForm(TimesForm):
    due = moment_field(required=True)


class RetryForm(TimesForm):
    time_to_run = forms.IntegerField(
        label=gettext_lazy("Time to run"),
        required=False,
        min_value=1,
        max_value=MAX_SECONDS,
        help_text=gettext_lazy("Seconds; empty: as it was."),
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), TIME_TO_RUN),
    )
    due = moment_field(required=False)
