"""The no-op job of Django Tasks, in Django itself from 6.0 on and a package before."""

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task  # type: ignore[import-not-found,no-redef,unused-ignore]

from benchmarks.marks import mark


@task()
def noop(number: int) -> None:
    mark(number)
