"""The scratch database: made next to the alias' own, migrated, dropped."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection, connections
from django.db.utils import Error

COPIED = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS", "TEST")


def scratch_config(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The configuration of a database, told what its scratch database is called."""
    wanted = {name: config[name] for name in COPIED if name in config}
    is_file = config["ENGINE"].rpartition(".")[2].startswith(("sqlite", "spatialite"))
    name = folder / "torture.sqlite3" if is_file else f"test_{config['NAME']}_torture"
    options = {k: v for k, v in config.get("OPTIONS", {}).items() if k != "pool"}
    test = {k: v for k, v in config.get("TEST", {}).items() if k not in {"MIRROR", "DEPENDENCIES"}}
    return wanted | {"OPTIONS": options, "TEST": test | {"NAME": str(name)}}


@contextmanager
def scratch_database() -> Iterator[dict[str, Any]]:
    """While this lasts, the default connection leads there; its configuration for others.

    One that an earlier run has left behind is dropped first.
    """
    own_name = str(connection.settings_dict["NAME"])
    creation: Any = connection.creation
    creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    config = {name: connection.settings_dict[name] for name in COPIED}
    try:
        yield config
    finally:
        connections.close_all()
        try:
            creation.destroy_test_db(own_name, verbosity=0)
        except Error as error:
            print(f"the scratch database {config['NAME']} is left: {error}", file=sys.stderr)
