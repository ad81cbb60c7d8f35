"""The forms of what an action is told besides the jobs: another queue, priority, time."""

from datetime import datetime
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from ..fields import InstantField, check_name
from ..lifecycle.enqueue import MAX_PRIORITY
from ..lifecycle.policy import MAX_SECONDS

PREFIX = "dbqueue"  # of its fields: the admin has names of its own
QUEUE_CHARACTERS_MAX = 200
PRIORITY = f"Priority: a whole number between 0, the most urgent, and {MAX_PRIORITY:,}."
TIME = "Run at: a date and a time."
TIME_TO_RUN = f"Time to run: whole seconds between 1 and {MAX_SECONDS:,}."


class ValuesForm(forms.Form):
    """The values by their names in code, once it is valid."""

    # Of a field that is a moment, in the time zone of the project.
    has_times: ClassVar[bool] = False

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}


class MoveForm(ValuesForm):
    queue = forms.CharField(
        label="To queue",
        max_length=QUEUE_CHARACTERS_MAX,
        strip=False,
        widget=forms.TextInput(attrs={"list": "dbqueue-known-queues", "autocomplete": "off"}),
        error_messages={"required": "To queue: name it."},
    )

    def clean_queue(self) -> str:
        name: str = self.cleaned_data["queue"]
        try:
            check_name(name, "queue")
        except ValidationError as error:
            raise forms.ValidationError(error.messages) from error
        return name


class PriorityForm(ValuesForm):
    priority = forms.IntegerField(
        min_value=0,
        max_value=MAX_PRIORITY,
        error_messages=dict.fromkeys(("required", "invalid", "min_value", "max_value"), PRIORITY),
    )


def moment_field(*, required: bool) -> forms.DateTimeField:
    return forms.DateTimeField(
        label="Run at",
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
            except (ValidationError, ValueError, OverflowError) as error:
                raise forms.ValidationError(TIME) from error
        return due


class RescheduleForm(TimesForm):
    due = moment_field(required=True)


class RetryForm(TimesForm):
    time_to_run = forms.IntegerField(
        label="Time to run",
        required=False,
        min_value=1,
        max_value=MAX_SECONDS,
        help_text="Seconds; empty: as it was.",
        error_messages=dict.fromkeys(("invalid", "min_value", "max_value"), TIME_TO_RUN),
    )
    due = moment_field(required=False)
