"""Spans go in batches, from a thread of the SDK's, as lines of JSON into the file ``SPANS``."""

import os
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from testproject.settings import *  # noqa: F403

DBQUEUE = {"TRACING": True}


def _line(span: ReadableSpan) -> str:
    return f"{os.getpid()} {span.to_json(indent=None)}\n"


def _provider() -> TracerProvider:
    provider = TracerProvider()
    out = Path(os.environ["SPANS"]).open("a")  # noqa: SIM115  # as long as the process
    # Far longer than the test: what is not flushed is not written.
    processor = BatchSpanProcessor(ConsoleSpanExporter(out=out, formatter=_line), 512, 600_000)
    provider.add_span_processor(processor)
    return provider


trace.set_tracer_provider(_provider())
