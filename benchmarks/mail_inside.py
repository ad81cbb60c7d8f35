"""What runs in a contestant's own environment: queueing mail, and sending what is queued.

    python -m benchmarks.mail_inside CONTESTANT VERB [MESSAGES]

Prints one line of JSON.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import django

from benchmarks.django_project import DjangoProject, Mode

SMTP = "django.core.mail.backends.smtp.EmailBackend"
PORT = int(os.environ.get("BENCH_SINK_PORT", "25"))
TEXT = "Thank you for your order. It has been sent today.\n" * 20


def configured(queue: str, options: dict[str, Any]) -> dict[str, Any]:
    """Mail goes into a queue, and from there to the sink."""
    if django.VERSION >= (6, 1):
        out = {"BACKEND": SMTP, "OPTIONS": {"host": "127.0.0.1", "port": PORT}}
        return {"MAILERS": {"default": {"BACKEND": queue, "OPTIONS": options}, "out": out}}
    return {"EMAIL_BACKEND": queue, "EMAIL_HOST": "127.0.0.1", "EMAIL_PORT": PORT}


class Mail(DjangoProject):
    def messages(self, count: int) -> list[Any]:
        from django.core.mail import EmailMultiAlternatives  # noqa: PLC0415

        html = f"<p>{TEXT}</p>"
        return [
            EmailMultiAlternatives(
                f"Order {number}",
                TEXT,
                "Shop <shop@x.example>",
                [f"Customer <c{number}@x.example>"],
                alternatives=[(html, "text/html")],
            )
            for number in range(count)
        ]

    def backend(self) -> Any:
        from django.core import mail  # noqa: PLC0415

        return mail.mailers.default if django.VERSION >= (6, 1) else mail.get_connection()

    def as_list(self, count: int) -> float:
        """Seconds for one ``send_messages()`` of them all."""
        messages, backend = self.messages(count), self.backend()
        return seconds(lambda: backend.send_messages(messages))

    def one_by_one(self, count: int) -> float:
        messages = self.messages(count)
        return seconds(lambda: [message.send() for message in messages])

    def send(self, count: int) -> float:
        """Queue so many and send them; the moment when the last outcome was committed."""
        self.fill(count)
        with suppress(SystemExit):  # of a worker, with 0
            self.work()
        return self.ended(count)

    def enqueue(self, jobs: int) -> None:
        self.backend().send_messages(self.messages(jobs))

    def ended(self, count: int) -> float:
        raise NotImplementedError


OURS = configured("django_dbqueue.mail.backends.EmailBackend", {"using": "out"})
PEERS = configured("post_office.EmailBackend", {}) | {
    "TEMPLATES": [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
}

MAILER: dict[str, Any] = {"DEFAULT_MAILER": "out"} if django.VERSION >= (6, 1) else {}


UNTIL_EMPTY = ("--stop-when-empty", "-v", "0")


class Ours(Mail):
    apps = ("django_dbqueue", "django_dbqueue.mail")
    model = "dbqueue_mail.Email"
    modes = {
        name: Mode(
            ("runworker", "--processes", processes, "--threads", threads, *UNTIL_EMPTY), {}, OURS
        )
        for name, processes, threads in (("1", "1", "1"), ("4", "1", "4"), ("2x4", "2", "4"))
    }

    def ended(self, count: int) -> float:
        from django.db.models import Max  # noqa: PLC0415

        done = self.table.objects.done()
        assert done.count() == count
        last: float = done.aggregate(last=Max("finished_at"))["last"].timestamp()
        return last


class PostOffice(Mail):
    apps = ("post_office",)
    model = "post_office.Email"
    modes = {
        name: Mode(
            ("send_queued_mail", "--processes", processes, "--log-level", level),
            {},
            PEERS | {"POST_OFFICE": options},
        )
        for name, processes, level, options in (
            ("default", "1", "2", MAILER),
            ("1", "1", "0", MAILER | {"BATCH_SIZE": 1000, "THREADS_PER_PROCESS": 1}),
            ("4", "1", "0", MAILER | {"BATCH_SIZE": 1000, "THREADS_PER_PROCESS": 4}),
            ("2x4", "2", "0", MAILER | {"BATCH_SIZE": 1000, "THREADS_PER_PROCESS": 4}),
        )
    }

    def as_list(self, count: int) -> float:
        """By its own function for many; its ``send_messages()`` inserts one by one."""
        from post_office import mail  # type: ignore[import-not-found]  # noqa: PLC0415

        wanted = [
            {
                "sender": message.from_email,
                "recipients": message.to,
                "subject": message.subject,
                "message": message.body,
                "html_message": message.alternatives[0][0],
            }
            for message in self.messages(count)
        ]
        return seconds(lambda: mail.send_many(wanted))

    def by_backend(self, count: int) -> float:
        return super().as_list(count)

    def ended(self, count: int) -> float:
        now = time.time()
        assert self.table.objects.filter(status=0).count() == count
        return now


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main(contestant: str, verb: str, *counts: str) -> None:
    name, _, mode = contestant.partition(":")
    project = {"ours": Ours, "post_office": PostOffice}[name](mode)
    if verb in {"as_list", "by_backend", "one_by_one"}:
        project.empty()
    print(json.dumps(getattr(project, verb)(*map(int, counts))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
