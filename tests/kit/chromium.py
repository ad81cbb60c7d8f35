"""The system's Chromium, for tests of pages and for the docs' pictures."""

import os
import shutil

from playwright.sync_api import Browser, Playwright

# The first draws on no screen, and takes two thirds of the processors' time of the others.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def executable() -> str:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    assert found, (
        f"no browser: none of {', '.join(NAMES)} is on the PATH; apt-get install {NAMES[0]}"
    )
    return found


def launch(playwright: Playwright) -> Browser:
    sandbox = [] if os.getuid() else ["--no-sandbox"]
    return playwright.chromium.launch(
        executable_path=executable(), args=[*sandbox, "--disable-gpu"]
    )
