"""Addresses that get no more mail."""

from collections.abc import Iterable
from typing import Any

from django.db import connections, models, router
from django.utils.encoding import punycode
from django.utils.translation import gettext_lazy

from ...fields import DbNow, InstantField
from ..deliveries import canonical


class Reason(models.TextChoices):
    BOUNCE = "bounce", gettext_lazy("hard bounce")
    COMPLAINT = "complaint", gettext_lazy("complaint")
    UNSUBSCRIBED = "unsubscribed", gettext_lazy("unsubscribed")
    BY_HAND = "by hand", gettext_lazy("by hand")


class Normal(str):
    """It is compared as it is: some spellings would change a second time."""

    __slots__ = ()


def normal(address: str) -> Normal:
    """An address as it is compared: however it is spelled, it is the same person.

    The domain in punycode: to some databases an umlaut is its vowel.
    """
    if isinstance(address, Normal):
        return address
    local, domain = canonical(address)
    try:
        domain = punycode(domain)
    except UnicodeError:
        pass  # no domain, then
    return Normal(f"{local}@{domain}" if local else domain)


class AddressField(models.CharField):  # type: ignore[type-arg]
    """It is stored, and looked for, as it is compared, whichever way it is written."""

    def deconstruct(self) -> Any:
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.CharField", args, kwargs

    def pre_save(self, model_instance: Any, add: bool) -> Any:
        setattr(model_instance, self.attname, normal(getattr(model_instance, self.attname)))
        return super().pre_save(model_instance, add)

    def get_prep_value(self, value: Any) -> Any:
        return str(normal(value)) if isinstance(value, str) else super().get_prep_value(value)


class SuppressionManager(models.Manager["Suppression"]):
    def among(self, addresses: Iterable[str]) -> dict[str, "Suppression"]:
        """Those of the addresses that get no mail, as they were given."""
        given = {address: normal(address) for address in addresses}
        wanted = sorted(set(given.values()))
        # Read where it was written: a replica may not know of it yet.
        database = router.db_for_write(self.model)
        if not given:
            return {}
        # Asked for every message, and building a query costs more than the query.
        table = connections[database].ops.quote_name(self.model._meta.db_table)
        marks = ", ".join(["%s"] * len(wanted))
        with connections[database].cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {table} WHERE address IN ({marks})", [*map(str, wanted)])
            if cursor.fetchone() is None:
                return {}
        rows = {row.address: row for row in self.using(database).filter(address__in=wanted)}
        return {address: rows[one] for address, one in given.items() if one in rows}

    def suppress(self, address: str, reason: Reason, note: str = "") -> bool:
        """No more mail to this address; False where that was so before."""
        row = self.model(address=Normal(normal(address)[:320]), reason=reason, note=note[:500])
        database = router.db_for_write(self.model)
        before = self.using(database).filter(address=row.address).exists()
        self.using(database).bulk_create([row], ignore_conflicts=True)
        return not before


class Suppression(models.Model):
    """One address, and why."""

    address = AddressField(max_length=320)
    reason = models.CharField(max_length=20, choices=Reason.choices, default=Reason.BY_HAND)
    note = models.CharField(max_length=500, blank=True)
    created_at = InstantField(db_default=DbNow(), editable=False)

    objects = SuppressionManager()

    class Meta:
        verbose_name = gettext_lazy("suppressed address")
        verbose_name_plural = gettext_lazy("suppressed addresses")
        # Of a unique field of this length Django's check would warn at every start on MySQL.
        constraints = [models.UniqueConstraint(fields=["address"], name="dbqueue_mail_suppressed")]

    def __str__(self) -> str:
        # Not the address: this goes to logs, the admin's own among them, which nobody forgets.
        return f"suppressed address {self.pk}"
