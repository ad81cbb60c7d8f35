"""Which of several web processes on this host has the worker."""

import fcntl
import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from django.conf import ENVIRONMENT_VARIABLE, settings


class HostLock:
    """A lock on a file, which one process of this host has; the kernel takes it from the dead.

    It is a lock of ``lockf``: a fork does not share it. ``OSError`` where the file cannot be
    opened.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor: int | None = os.open(path, flags, 0o600)

    def acquire(self) -> bool:
        """Whether this process has it."""
        if self._descriptor is None:
            return False
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        with suppress(OSError):  # a file system may have one kind of locks
            # systemd-tmpfiles leaves a file alone that has a lock of this kind, however old it is.
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True

    def release(self) -> None:
        """For good."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_path() -> Path:
    """The same for all processes of one user, project and set of databases."""
    databases = sorted(
        (alias, *(str(config.get(key, "")) for key in ("NAME", "HOST", "PORT")))
        for alias, config in settings.DATABASES.items()
    )
    module = os.environ.get(ENVIRONMENT_VARIABLE, "")
    words = repr((module, getattr(sys.modules.get(module), "__file__", ""), databases))
    digest = hashlib.sha256(words.encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"dbqueue-{os.getuid()}-{digest}.lock"
