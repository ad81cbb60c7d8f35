"""The processes of a torture that are no workers; ``manage.py dbqueue torture`` starts them."""

import json
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import django
from django.db.utils import Error

from ..exceptions import first_line
from .stops import STOPS, leave


def campaign(plan_text: str) -> int:
    from .campaign import Campaign  # noqa: PLC0415  # needs the apps, as all here
    from .database_faults import behind_a_proxy, faults_for_this_database  # noqa: PLC0415
    from .fault_injector import CannotTorture  # noqa: PLC0415
    from .options import Plan  # noqa: PLC0415
    from .recorder import given  # noqa: PLC0415
    from .scratch import scratch_database  # noqa: PLC0415
    from .summary import figures_text, verdicts_text  # noqa: PLC0415

    plan = Plan(**json.loads(plan_text))
    with ExitStack() as stack:
        config = stack.enter_context(scratch_database())
        if plan.read_only:
            faults = faults_for_this_database()
            try:
                # Else a fault that there was not would explain whatever goes wrong.
                faults.read_only(on=False)
                config = stack.enter_context(faults.account(config))
            except Error as error:
                print(f"--read-only: {first_line(error)}", file=sys.stderr)
                return 2
        proxied, proxy = config, None
        if plan.silence:
            proxied, proxy = stack.enter_context(behind_a_proxy(config))
        one = Campaign(plan, Path(given()["folder"]), config, proxied, proxy)
        try:
            report, events = one.run()
        except CannotTorture as error:
            print(error, file=sys.stderr)
            return 2
    print(figures_text(plan, report, events))
    print(verdicts_text(report, one.troubles))
    return int(bool(one.troubles) or not report.holds)


def produce(number: str, rate: str, long_jobs: str) -> int:
    from .producer import Producer  # noqa: PLC0415
    from .recorder import given  # noqa: PLC0415

    Producer(int(number), float(long_jobs), given()["seed"]).run(float(rate))
    return 0


def main(verb: str, *arguments: str) -> int:
    if verb == "campaign":
        for number in STOPS:
            signal.signal(number, leave)
    django.setup()
    return campaign(*arguments) if verb == "campaign" else produce(*arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
