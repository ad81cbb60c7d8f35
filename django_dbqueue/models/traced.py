from django.db import models


class Traced(models.Model):
    """A column for a queue table: the trace in which a job was enqueued, where traces are on.

    ``class Thumbnail(Traced, Job)``: with it a job's run is a part of that trace. The text is what
    OpenTelemetry's propagators write, or Sentry's headers, as JSON.
    """

    trace_context = models.TextField(null=True, blank=True, editable=False)

    class Meta:
        abstract = True
