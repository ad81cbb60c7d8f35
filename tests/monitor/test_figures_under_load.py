"""Every figure of the operator's page against a real count, under a mixed load with kills.

``make figures`` runs it for long; FIGURES_SECONDS says for how long, FIGURES_SEED with which load.
"""

import os
import random
import time
from contextlib import ExitStack

import pytest
from django.contrib.auth.models import User

from django_dbqueue.mail.models import Email
from tests.kit.figures.audit import audited, now, snapshot
from tests.kit.figures.fleet_judge import FleetJudge
from tests.kit.figures.judge import Judge, Ledger, truth_of
from tests.kit.figures.load import MODELS, Fleet, Load
from tests.kit.figures.shown import command, health, machines, page

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.each_database,
    pytest.mark.proof,
    pytest.mark.nightly,
]

SHORT, FULL = 8.0, 600.0  # seconds
RATE = 25.0  # jobs a second
OFF_SHOWN = 5  # of each kind
KILL_EVERY, LOOK_EVERY = 4.0, 7.0  # seconds


class Proof:
    def __init__(self, fleet, load, browser):
        self.fleet, self.load, self.browser = fleet, load, browser
        self.ledger, self.looks = Ledger(), 0

    def run(self, seconds, *, kills):
        dice, began, before = self.load.dice, time.monotonic(), self.load.enqueued
        self.load.crashes = kills
        look_at, kill_at = began + LOOK_EVERY / 2, began + KILL_EVERY / 2
        while time.monotonic() < began + seconds:
            if kills and time.monotonic() >= kill_at:
                self.fleet.kill(dice)
                kill_at += KILL_EVERY * dice.uniform(0.5, 1.5)
            if time.monotonic() >= look_at:
                self.look()
                look_at = time.monotonic() + LOOK_EVERY
            self.load.step()
            ahead = began + (self.load.enqueued - before) / RATE - time.monotonic()
            time.sleep(min(1.0, max(0.0, ahead)))

    def look(self, *, is_quiet=False):
        self.looks += 1
        for sums in (self.ledger.ended, self.ledger.missing, self.ledger.at_risk):
            sums.clear()
        with snapshot():
            truth = truth_of(MODELS, self.fleet.kills, is_quiet=is_quiet)
            began = now()
            document = machines(User.objects.get())
            truth.until = now()
            judge = Judge(self.ledger, truth, began)
            judge.judge(document)
            FleetJudge(self.ledger, truth, self.fleet, began).judge(document)
            judge.began = now()
            shown = command()
            truth.until = now()
            judge.queues(shown)
            rows = list(page(self.browser))
            truth.until = now()
            self.look_at_page(judge, document, rows)
            # A beat becomes late meanwhile.
            level, after = health(), machines(User.objects.get())
            levels = [one["verdict"]["level"] for one in (document, after)]
            self.ledger.hold("health", level in levels, f"{level} is shown, {levels} is real")

    def look_at_page(self, judge, document, rows):
        """It says the same, in the same snapshot, in other words."""
        queues = {(one["table"], one["queue"]): one for one in document["queues"]}
        for row in rows:
            if row["table"] not in judge.truth.tables:
                continue
            one = queues[row["table"], row["queue"]]
            ages = {state: state in one["counted_seconds_ago"] for state in row["counts"]}
            shown = row["counts"], sorted(row["at_least"]), row["aged"], row["done"]
            done = row["done"] if judge.truth.turned else one["completed_last_hour"]
            told = one["counts"], sorted(one["at_least"]), ages, done
            self.ledger.equal("the page", shown, told, f"{row['table']} {row['queue']}")

    def report(self, server, seconds):
        whole, ledger = sum(kill.whole for kill in self.fleet.kills), self.ledger
        acts = ", ".join(f"{name} {number}" for name, number in sorted(self.load.done.items()))
        print(f"\n{seconds:.0f} s, {self.load.enqueued} jobs, {self.looks} looks; by hand: {acts}")
        print(f"the slowest change by hand took {self.load.slowest:.1f} s")
        print(f"{len(self.fleet.kills)} kills, {whole} of them of whole workers")
        print(f"{len(server.received)} emails taken, {Email.objects.done().count()} done")
        for name, missing in ledger.missing.items():
            most, ended = ledger.at_risk[name], ledger.ended[name]
            print(f"  of {ended} {name} {missing} not counted: {most} ended just before a kill")
        for kind, number in sorted(ledger.compared.items()):
            off = sum(text.startswith(f"{kind}:") for text in ledger.off)
            print(f"  {kind:<28}{number:>8} compared {off:>5} off")
            if off:
                told = [text for text in ledger.off if text.startswith(f"{kind}:")]
                print("\n".join(told[:OFF_SHOWN]))


@pytest.mark.usefixtures("server")
def test_every_figure_is_a_real_count_or_as_old_as_it_says(database_url, browser, server, full):
    seconds = float(os.environ.get("FIGURES_SECONDS", FULL if full else SHORT))
    load = Load(int(os.environ.get("FIGURES_SEED", random.randrange(10**6))))
    with audited(*MODELS), ExitStack() as stack:
        load.fill_stock()
        proof = Proof(Fleet(database_url, server, stack), load, browser)
        proof.run(seconds / 3, kills=False)
        proof.fleet.stop()
        proof.look(is_quiet=True)
        for name, missing in proof.ledger.missing.items():
            proof.ledger.equal("missing without a kill", missing, 0, name)
        proof.fleet.start_all()
        proof.run(seconds * 2 / 3, kills=True)
        proof.look()
        proof.fleet.stop()
        proof.look(is_quiet=True)
        proof.report(server, seconds)
    assert proof.ledger.off == []
