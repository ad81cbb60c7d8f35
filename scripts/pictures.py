"""The pictures of the docs, taken of the real pages: four stills, and a film of a kill.

    python scripts/pictures.py [film] [stills]

Everything happens in a folder of its own: the test project on SQLite, a mail server that takes its
time, real workers, Django's server, and Chromium. The results are in docs/images/.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from film import SECONDS_A_FRAME, Film
from picture_site import PASSWORD, USER, Site
from playwright.sync_api import Page, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
QUEUES = "/admin/dbqueue/queue/"
ORDERS = 400  # more than are sent while the film is taken
PHOTOS = 12
FRAMES = 27
BEFORE_WRITTEN = 12  # seconds: a worker writes what it did every ten
KILL_AT = 6  # the number of a frame
FILM_SIZE: ViewportSize = {"width": 1120, "height": 800}
STILL_WIDTH = 1280


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", choices=["film", "stills", []], default=[])
    what = parser.parse_args(argv).what or ["film", "stills"]
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        try:
            with site.mail_server(), browser(site) as page:
                if "film" in what:
                    take_film(site, page)
                if "stills" in what:
                    take_stills(site, page)
        finally:
            site.close()
    return 0


@contextmanager
def browser(site: Site) -> Iterator[Page]:
    """A page on which somebody is logged in, without the admin's list of apps."""
    from tests.kit.chromium import launch  # the checkout is on the path by now

    # Playwright keeps an event loop in this thread, from which Django fears to be called.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        process = launch(playwright)
        profile = process.new_context(locale="en-GB", timezone_id="UTC", color_scheme="light")
        profile.add_init_script("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
        page = profile.new_page()
        page.goto(f"{site.address}/admin/")
        page.fill("#id_username", USER)
        page.fill("#id_password", PASSWORD)
        page.click("[type=submit]")
        yield page
        process.close()


def take_film(site: Site, page: Page) -> None:
    """The first page, while one of two workers is killed."""
    site.place_orders(ORDERS)
    survivor, victim = site.start_worker("web-1"), site.start_worker("web-2")
    site.wait_for_workers(2)
    page.set_viewport_size(FILM_SIZE)
    page.goto(site.address + QUEUES)
    page.select_option("select[data-dbqueue-live]", "1")
    page.evaluate("document.activeElement.blur()")
    time.sleep(BEFORE_WRITTEN)
    film, caption = Film(), "Two workers, web-1 and web-2, deliver mail."
    for number in range(FRAMES):
        begin = time.monotonic()
        if number == KILL_AT:
            held = site.held_by(victim)
            victim.kill()
            caption = f"kill -9: web-2 is gone, and had {held} mails in hand."
        elif number > KILL_AT and site.held_by(victim):
            caption = f"{number - KILL_AT} s later: web-1 goes on. {held} mails wait for web-2."
        elif number > KILL_AT and "again" not in caption:
            caption = f"{number - KILL_AT} s later: web-1 has them. They run again, none is lost."
        film.add(page.screenshot(), caption)
        time.sleep(max(0, begin + SECONDS_A_FRAME - time.monotonic()))
    survivor.stop()
    print(film.save(IMAGES / "worker-killed.gif"))


def take_stills(site: Site, page: Page) -> None:
    site.paint_photos(PHOTOS)
    site.run("dbqueue", "demo-data")
    site.place_orders(ORDERS)
    worker = site.start_worker("web-1")
    site.wait_for_workers(1)
    time.sleep(BEFORE_WRITTEN)
    for name, height, address in (
        ("overview", 1500, QUEUES),
        ("failures", 640, f"{QUEUES}failures/"),
        ("charts", 900, f"{QUEUES}charts/?table=dbqueue_mail.email&queue=demo&span=day"),
        ("job", 900, site.address_of_a_buried_job()),
    ):
        page.set_viewport_size({"width": STILL_WIDTH, "height": height})
        page.goto(site.address + address)
        page.screenshot(path=IMAGES / f"{name}.png")
        print(IMAGES / f"{name}.png")
    worker.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
