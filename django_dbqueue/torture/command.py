"""``manage.py dbqueue torture``: a torture in a process of its own, with settings of its own."""

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import connections

from .fleet import environment, python
from .options import Plan
from .scratch import scratch_config


def torture(options: dict[str, Any]) -> int:
    """Run one; the exit code: 0 where every invariant held."""
    seed, keep = options["seed"], options["keep"]
    plan = Plan.of(options | {"seed": random.randrange(10**6) if seed is None else seed})
    folder = Path(tempfile.mkdtemp(prefix="dbqueue-torture-") if keep is None else keep).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise CommandError(f"--keep: {folder} is not empty")
    config = scratch_config(connections[options["database"]].settings_dict, folder)
    command = python("django_dbqueue.torture", "campaign", json.dumps(plan.as_dict()))
    known = environment(config, str(folder), "injector", seed=plan.seed)
    # To the end: it cleans up after itself, also when it is told to stop.
    process = subprocess.Popen(command, env=known)
    # A terminal's Ctrl-C reaches it, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    code = process.wait()
    if code or keep:
        print(f"histories and logs: {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return code
