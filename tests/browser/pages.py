"""Every page of the admin that is ours: its name, and where it is in a scene."""

import pytest

NOTE, KEPT = "/admin/queueapp/note/", "/admin/queueapp/archivedkept/"
THUMBNAIL = "/admin/shop/thumbnail/"
QUEUE, WORKER = "/admin/dbqueue/queue/", "/admin/dbqueue/worker/"
EMAIL, OLD_EMAIL = "/admin/dbqueue_mail/email/", "/admin/dbqueue_mail/archivedemail/"
MAILER, SUPPRESSION = "/admin/dbqueue_mail/mailer/", "/admin/dbqueue_mail/suppression/"
SCHEDULE = "/admin/dbqueue_schedules/schedule/"
TUBE_JOB = "/admin/dbqueue_beanstalk/tubejob/"
BULK_ACTION = "/admin/dbqueue_bulk/bulkaction/"
TASK, ASYNC_TASK = "/admin/dbqueue_tasks/task/", "/admin/dbqueue_tasks/asynctask/"
STATES = ("ready", "claimed", "done", "delayed", "buried")

LISTS = {
    "index": "/admin/",
    "app": "/admin/dbqueue/",
    "jobs": NOTE,
    **{f"jobs {name}": f"{NOTE}?state={number}" for number, name in enumerate(STATES)},
    "jobs none": f"{NOTE}?queue=empty",
    "archive": KEPT,
    "thumbnails": THUMBNAIL,
    "queues": QUEUE,
    "pause form": f"{QUEUE}pause/?table=queueapp.note&queue=default",
    "charts": f"{QUEUE}charts/?table=queueapp.note",
    **{
        f"charts {span}": f"{QUEUE}charts/?table=queueapp.note&queue=default&span={span}"
        for span in ("day", "week")
    },
    "charts none": f"{QUEUE}charts/?table=queueapp.kept&queue=none&span=hour",
    "failures": f"{QUEUE}failures/",
    "search": f"{QUEUE}search/?q=a",
    "search none": f"{QUEUE}search/",
    "search strange": f"{QUEUE}search/?q=%3Cscript%3Epwned%3D1%3C%2Fscript%3E",
    "activity": f"{QUEUE}activity/",
    "workers": WORKER,
    "mail": EMAIL,
    **{f"mail {name}": f"{EMAIL}?state={number}" for number, name in enumerate(STATES)},
    "mail archive": OLD_EMAIL,
    "mailers": MAILER,
    "suppressions": SUPPRESSION,
    "suppression form": f"{SUPPRESSION}add/",
    "tasks": TASK,
    "async tasks": ASYNC_TASK,
    "tube jobs": TUBE_JOB,
    "bulk actions": BULK_ACTION,
    "schedules": SCHEDULE,
    "schedule form": f"{SCHEDULE}add/",
}
# By the name of the row in the scene; of each table the one that has most to show comes first.
ROWS = {
    **dict.fromkeys(("failed", "done", "buried", "claimed", "ready", "waiting", "delayed"), NOTE),
    "old": KEPT,
    "thumbnail": THUMBNAIL,
    **dict.fromkeys(("refused", "sent", "fancy", "retrying", "unsent"), EMAIL),
    "archived": OLD_EMAIL,
    "worker": WORKER,
    "mailer": MAILER,
    "suppression": SUPPRESSION,
    "schedule": SCHEDULE,
    "task": TASK,
    "async_task": ASYNC_TASK,
    "tube_job": TUBE_JOB,
    **dict.fromkeys(("broken_bulk_action", "bulk_action"), BULK_ACTION),
}
PARTS = {"page": "change", "history": "history", "delete": "delete"}
OTHERS = ["history failed", "history refused", "delete suppression", "delete schedule"]
ALL = [*LISTS, *(f"page {name}" for name in ROWS), *OTHERS]
# The list of one state differs by its rows.
OF_ONE_STATE = {f"{table} {state}" for table in ("jobs", "mail") for state in STATES}
KINDS = [name for name in ALL if name not in OF_ONE_STATE - {"jobs delayed"}]


def _template(name):
    """What is the same for all pages that differ by their rows or their filters only."""
    part, _, row = name.partition(" ")
    return LISTS[name].partition("?")[0] if name in LISTS else (part, ROWS[row])


ONE_OF_EACH = list({_template(name): name for name in reversed(ALL)}.values())[::-1]


def names(always, nightly):
    """For ``parametrize``: those of every run, and those of ``--full``."""
    rest = [name for name in nightly if name not in always]
    return [*always, *(pytest.param(name, marks=pytest.mark.nightly) for name in rest)]


def address(name, scene):
    if name in LISTS:
        return LISTS[name]
    part, _, row = name.partition(" ")
    return page_of(ROWS[row], getattr(scene, row), PARTS[part])


def page_of(place, row, part="change"):
    return f"{place}{row.pk}/{part}/"


# A stranger's mail wants images from elsewhere: they are shut off.
SHUT_OFF = ("console: Loading the image", "failed: cid:", "failed: https://evil.example/")


def expected(name):
    return SHUT_OFF if name == "page fancy" else ()
