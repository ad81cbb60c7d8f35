"""A real browser, and everything that it complains about."""

from functools import cached_property
from pathlib import Path
from urllib.parse import urljoin

from playwright.sync_api import ViewportSize, sync_playwright

from tests.browser.people import SUPERUSER
from tests.kit.chromium import launch

AXE = Path(__file__).parent / "axe" / "axe.min.js"
SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
# A picture of the site: for about:blank Chromium would start another process, in which it compiles
# all scripts once more.
BLANK = "/static/admin/img/icon-yes.svg"
ADD_SCRIPT = """url => new Promise((loaded, failed) => {
    const script = document.createElement("script");
    Object.assign(script, {src: url, onload: loaded, onerror: failed});
    document.head.append(script);
}).then(() => null)"""
RUN_AXE = """
([rules, forgiven]) => axe.run(document, {
  iframes: false, preload: false, resultTypes: ["violations"],
  ...(rules.length ? {runOnly: {type: "rule", values: rules}} : {}),
}).then((found) => found.violations.flatMap((one) => one.nodes.filter(
  (node) => !document.querySelector(node.target[0]).closest(forgiven[one.id] || "none")
).map((node) => [
  one.id, node.target.join(" "), node.any.concat(node.all).map((it) => it.message).join(", ")
])))
"""
# Lights fade; colours on the way from one to the other are nobody's.
SETTLE = "document.getAnimations().forEach((one) => one.finish())"
# What Django's own pages leave to be wished, by rule and place.
OF_DJANGO = {"label-title-only": "#searchbar", "link-in-text-block": ".breadcrumbs, .small"}
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}


class Chrome:
    """One process; a profile per role, with scripts or without."""

    def __init__(self, address, people):
        self.address = address
        self.people = people
        self.problems = []
        self.expected = []
        self.profiles = {}
        self.opened = []
        self.playwright = sync_playwright().start()
        self.process = launch(self.playwright)

    def close(self):
        self.process.close()
        self.playwright.stop()

    def open(self, url, role=SUPERUSER, *, scripts=True, expected=()):
        """A page; ``expected`` are beginnings of what may go wrong there."""
        self.expected += expected
        profile = self._profile(role, scripts)
        # A new one costs as much as the rest of a test.
        page = profile.pages[0] if profile.pages else profile.new_page()
        page.goto(self.address + url)
        self.opened.append(Page(page))
        return self.opened[-1]

    def end_test(self):
        for page in self.opened:
            page.leave()
        self.opened = []
        found = [p for p in self.problems if not p.startswith(tuple(self.expected) or "never")]
        self.problems, self.expected = [], []
        return found

    def _profile(self, role, scripts):
        if (role, scripts) not in self.profiles:
            self.profiles[role, scripts] = self._new_profile(role, scripts)
        return self.profiles[role, scripts]

    def _new_profile(self, role, scripts):
        profile = self.process.new_context(
            java_script_enabled=scripts, viewport=DESKTOP, locale="en-GB", timezone_id="UTC"
        )
        session = self.people.cookie_of(role)
        profile.add_cookies([{"name": "sessionid", "value": session, "url": self.address}])
        profile.set_default_timeout(20_000)
        profile.on("console", self._on_console)
        profile.on("weberror", lambda it: self.problems.append(f"error: {it.error}"))
        profile.on("requestfailed", self._on_failed)
        profile.on("response", self._on_response)
        return profile

    def _on_console(self, message):
        is_icon = message.location["url"].endswith("/favicon.ico")
        if message.type in {"error", "warning"} and not is_icon:
            self.problems.append(f"console: {message.text}")

    def _on_failed(self, request):
        # The browser gives up by itself what a new page, or a download, makes needless.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed: {request.url} {request.failure}")

    def _on_response(self, response):
        if response.status >= 400:
            path = response.url.removeprefix(self.address)
            self.problems.append(f"{response.status}: {path}")


class Page:
    """A page of ours, with what every test asks of it; the rest is Playwright's."""

    def __init__(self, page):
        self.own = page
        self.is_changed = False

    def __getattr__(self, name):
        return getattr(self.own, name)

    @cached_property
    def _axe(self):
        # From the site itself: the page's policy holds, and the browser compiles it only once.
        # Playwright's own way fails where the page is told of any breach of its policy meanwhile.
        self.own.evaluate(ADD_SCRIPT, f"/static/{AXE.name}")
        return RUN_AXE

    def look_like(self, scheme, size):
        self.own.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        self.own.set_viewport_size(size)
        self.own.evaluate(SETTLE)
        self.is_changed = True

    def leave(self):
        """As it was, for the next test."""
        for other in self.own.context.pages[1:]:
            other.close()
        # What refreshes itself stops.
        self.own.goto(urljoin(self.own.url, BLANK))
        if self.is_changed:
            self.look_like("light", DESKTOP)

    def inaccessible(self, *rules):
        """What axe finds, by all its rules or by these."""
        found = self.own.evaluate(self._axe, [list(rules), OF_DJANGO])
        return [f"{rule} {place}: {why}" for rule, place, why in found]

    def overflow(self):
        """By how many pixels the document is wider than the window."""
        return self.own.evaluate("document.documentElement.scrollWidth - innerWidth")

    def keep_picture(self, name):
        # What hides the caret or ends animations would be a style in the page.
        path = SCREENSHOTS / f"{name}.png"
        self.own.screenshot(path=path, full_page=True, caret="initial")
