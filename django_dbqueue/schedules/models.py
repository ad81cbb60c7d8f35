"""Schedules, and what became of each of their ticks."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connections, models, router, transaction
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

from ..exceptions import shown
from ..fields import DbNow, InstantField, NameField
from ..lifecycle.enqueue import MAX_PRIORITY
from ..texts.wording import number_later
from .known_pause import KnowsPause
from .managers import ScheduleManager
from .planning import CATCH_UP_MAX, Missed, following
from .problems import wrong
from .targets import TARGETS, Target, check_json
from .timing import Timing, check_start, parse, zone_of

CATCH_UP_SECONDS_MAX = 30 * 86400
ERROR_CHARS_MAX = 500
# What a person says of a schedule, besides a pause; the scheduler writes the other columns.
SAID = (
    *("name", "timing", "time_zone", "starts_at", "kind", "target", "arguments", "queue"),
    *("priority", "missed", "catch_up_within", "overlap", "is_declared"),
)
TYPES = {"timing": str, "kind": str, "target": str, "priority": int | None}
OF_TIMING = ("timing", "time_zone", "starts_at")
PLANNED = ("is_paused", "next_tick", "next_at", "error")


class Overlap(models.TextChoices):
    ALLOW = "allow", gettext_lazy("enqueue it all the same")
    SKIP = "skip", gettext_lazy("skip the tick")
    REPLACE = "replace", gettext_lazy("cancel the waiting one first")


class Schedule(KnowsPause):
    """One job at each tick of ``timing``.

    ``next_tick`` is the instant in UTC of the tick that comes next; ``next_at`` is when somebody
    looks at it: later than the tick where its target was broken at the last try. Both are null
    where it is paused, or never ticks again.
    """

    name = NameField(unique=True)
    timing = models.CharField(
        max_length=200,
        help_text=gettext_lazy("every 10 s (or min, h, d), or a cron expression: 0 3 * * 1-5"),
    )
    time_zone = models.CharField(
        max_length=100,
        blank=True,
        help_text=gettext_lazy("Such as Europe/Berlin; empty: the project's."),
    )
    starts_at = InstantField(
        null=True,
        blank=True,
        help_text=gettext_lazy("No tick before it; intervals are counted from it."),
    )
    kind = models.CharField(gettext_lazy("kind of target"), max_length=20, default="table")
    target = models.CharField(
        max_length=200,
        help_text=gettext_lazy("A queue table (app.Model), or the dotted path of a task."),
    )
    arguments: Any = models.JSONField(
        default=dict,
        blank=True,
        help_text=gettext_lazy('Of a task: {"args": [], "kwargs": {}}. Else: columns.'),
    )
    queue = NameField(
        null=True, blank=True, help_text=gettext_lazy("Empty: the default of the target.")
    )
    priority = models.BigIntegerField(
        null=True, blank=True, help_text=gettext_lazy("Empty: the default of the target.")
    )
    missed = models.CharField(
        gettext_lazy("if ticks were missed"),
        max_length=10,
        choices=Missed.choices,
        default=Missed.LATEST,
        help_text=format_lazy(
            gettext_lazy("While no worker ran. Of all at most {most} are made up for."),
            most=number_later(CATCH_UP_MAX),
        ),
    )
    catch_up_within = models.PositiveIntegerField(
        default=86400,
        validators=[MinValueValidator(1), MaxValueValidator(CATCH_UP_SECONDS_MAX)],
        help_text=format_lazy(
            gettext_lazy("Seconds; at most {most}. Older ticks are not made up for."),
            most=number_later(CATCH_UP_SECONDS_MAX),
        ),
    )
    overlap = models.CharField(
        gettext_lazy("if the last job has not ended"),
        max_length=10,
        choices=Overlap.choices,
        default=Overlap.ALLOW,
    )
    is_paused = models.BooleanField(gettext_lazy("paused"), default=False, editable=False)
    is_declared = models.BooleanField(
        gettext_lazy("declared in code"), default=False, editable=False
    )
    next_tick = InstantField(null=True, editable=False)
    next_at = InstantField(null=True, editable=False, db_index=True)
    error = models.CharField(max_length=ERROR_CHARS_MAX, blank=True, editable=False)
    # Ticks so far; the old ones among their rows are deleted.
    count = models.PositiveBigIntegerField(gettext_lazy("ticks so far"), default=0, editable=False)
    # What it enqueued last, by which kind of target.
    last_kind = models.CharField(max_length=20, blank=True, editable=False)
    last_target = models.CharField(max_length=200, blank=True, editable=False)
    last_job = models.CharField(max_length=64, blank=True, editable=False)

    objects: ClassVar["models.Manager[Schedule]"] = ScheduleManager()

    class Meta:
        default_permissions = ("add", "change", "delete", "view", "pause", "run")

    def __str__(self) -> str:
        return str(self.name)

    @property
    def zone(self) -> str:
        name: str = self.time_zone or settings.TIME_ZONE
        return name

    def ticks(self) -> Timing:
        """``ValidationError`` where the timing means nothing."""
        return parse(self.timing, self.zone, self.start())

    def start(self) -> datetime | None:
        """In UTC, in whole seconds; ``ValidationError`` where it is no instant."""
        meta: Any = self._meta
        try:
            start = meta.get_field("starts_at").get_prep_value(self.starts_at)
        except ValueError as error:  # naive under USE_TZ
            raise ValidationError({"starts_at": str(error)}) from None
        return start.replace(microsecond=0) if start else None

    @property
    def was_tried(self) -> bool:
        """Whether its next tick has come, and failed."""
        if self.next_tick is None or self.next_at is None:
            return False
        return bool(self.error) or as_utc(self.next_at) > as_utc(self.next_tick)

    def target_kind(self) -> Target:
        if self.kind not in TARGETS:
            text = gettext_lazy("kind of target must be one of %(known)s, not %(given)s")
            known = ", ".join(sorted(TARGETS))
            raise wrong("kind", text, known=known, given=shown(self.kind))
        return TARGETS[self.kind]

    def clean(self) -> None:
        """All that is wrong, by field; also that the target is there and takes the arguments."""
        if not all(isinstance(getattr(self, name), kind) for name, kind in TYPES.items()):
            return  # as clean_fields() says
        self.time_zone = self.time_zone or ""
        zone_of(self.zone)
        if start := self.start():
            check_start(self.starts_at if isinstance(self.starts_at, datetime) else start)
            here = timezone.get_default_timezone()
            self.starts_at = start if settings.USE_TZ else timezone.make_naive(start, here)
        self.ticks()
        check_json(self.arguments)
        target, number = self.target_kind(), self.priority or 0
        if not target.judges_priority and not 0 <= number <= MAX_PRIORITY:
            text = gettext_lazy("priority must be between 0 and %(most)s, not %(given)s")
            raise wrong("priority", text, most=MAX_PRIORITY, given=number)
        if self.overlap != Overlap.ALLOW and self.overlap not in target.overlaps:
            text = gettext_lazy("overlap: what becomes of a %(kind)s is not known here: only allow")
            raise wrong("overlap", text, kind=target.label)
        target.clean(self, self.alias())

    def alias(self) -> str:
        """The database on which it is, as is all that it enqueues."""
        return str(self._state.db or router.db_for_write(type(self)))

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Write what a person may say; a changed timing is looked for from now on."""
        using = kwargs.get("using") or self.alias()
        self.queue = self.queue or None
        named = kwargs.get("update_fields")
        said = frozenset(SAID if named is None else named)
        with transaction.atomic(using=using):
            planned = self._planned(using, said)
            if not self._state.adding:
                kwargs["update_fields"] = {*said, *planned}
            super().save(*args, **kwargs)
            if planned:
                self.note_written_pause(self.is_paused, using)

    def _planned(self, using: str, said: frozenset[str]) -> Collection[str]:
        """Plan it if its timing or pause is to be another one; the columns to write then."""
        if self._state.adding:
            self.plan(db_now(using))
            return PLANNED
        is_left_out = said.isdisjoint({*OF_TIMING, "is_paused"})
        row = None if is_left_out else self._locked(using)
        if row is None or not self._changes(row, using, said):
            # Its target may have been mended: now, which is later than a tick that was tried.
            broken = type(self)._base_manager.using(using).filter(pk=self.pk).exclude(error="")
            broken.update(next_at=DbNow(), error="")
            return ()
        row.plan(db_now(using))
        self.next_tick, self.next_at, self.error = row.next_tick, row.next_at, row.error
        return PLANNED

    def _changes(self, row: Self, using: str, said: frozenset[str]) -> bool:
        """Give the row what is said here; whether it ticks otherwise then. A pause that was not
        changed here is that of the row."""
        own = self.__dict__
        if own.get("is_paused") == self.known_pause(using):
            self.know_pause(row.is_paused)
            self.is_paused = row.is_paused
        before = row.is_paused, row.timing, row.time_zone, row.start()
        for name in {*said.intersection(OF_TIMING), "is_paused"} & own.keys():
            setattr(row, name, own[name])
        return before != (row.is_paused, row.timing, row.time_zone, row.start())

    def _locked(self, using: str) -> Self | None:
        """Its timing and pause as others have them by now, which stay so until the transaction
        ends; None where it is gone."""
        rows = type(self)._base_manager.using(using).filter(pk=self.pk).select_for_update()
        return rows.only("is_paused", *OF_TIMING).first()

    def delete(self, using: str | None = None, keep_parents: bool = False) -> Any:
        """With its ticks."""
        using = using or self.alias()
        with transaction.atomic(using=using):
            self._locked(using)  # which keeps others from ticking
            return super().delete(using, keep_parents)

    delete.alters_data = True  # type: ignore[attr-defined]

    def plan(self, now: datetime) -> None:
        """From now on."""
        tick = None if self.is_paused else following(self.ticks(), now)
        self.next_tick = self.next_at = tick
        self.error = ""

    def pause(self) -> None:
        """No tick until it is resumed; those in between are not made up for."""
        self._turn(is_paused=True)

    def resume(self) -> None:
        self._turn(is_paused=False)

    def _turn(self, *, is_paused: bool) -> None:
        using = self.alias()
        with transaction.atomic(using=using):
            if row := self._locked(using):
                self.know_pause(row.is_paused)
            self.is_paused = is_paused
            self.save(using=using, update_fields=None if self._state.adding else ["is_paused"])


class Tick(models.Model):
    """One tick, and the job that it became; the row makes it happen once.

    What a person asks for is at no whole second, so that it is none of the timing's ticks.
    """

    schedule = models.ForeignKey(
        Schedule, on_delete=models.CASCADE, related_name="ticks_so_far", db_index=False
    )
    tick = InstantField()
    kind = models.CharField(max_length=20, blank=True)
    target = models.CharField(max_length=200, blank=True)
    # Empty where nothing was enqueued; then ``note`` says why.
    job = models.CharField(max_length=64, blank=True)
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["schedule", "tick"], name="dbqueue_schedules_tick_once")
        ]
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.schedule_id} at {self.tick}"


def as_utc(instant: datetime) -> datetime:
    """Of what a project reads, which is naive without ``USE_TZ``."""
    if timezone.is_naive(instant):
        instant = timezone.make_aware(instant, timezone.get_default_timezone())
    return instant.astimezone(UTC)


def db_now(using: str) -> datetime:
    """The clock of a database, in UTC."""
    compiler = Schedule._base_manager.using(using).query.get_compiler(using=using)
    field, (sql, params) = InstantField(), compiler.compile(DbNow())
    sql, params = field.select_format(compiler, sql, params)
    with connections[using].cursor() as cursor:
        cursor.execute(f"SELECT {sql}", params)
        [value] = cursor.fetchone()
    now = field.from_db_value(value, None, connections[using])
    assert now is not None, "a clock has the time"
    return as_utc(now)
