"""A browser for the tests of a module, and pages in it that fail their test when they complain."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
DEADLINE = 60_000  # milliseconds that a page may take for anything on a busy machine
LISTENING = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install 'extempo[test]'")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with playwright.sync_playwright() as running:  # of one module only: its event loop stands in the way of others
        opened = running.chromium.launch(executable_path=path)
        yield opened
        opened.close()


class Pages:
    """Opens pages and remembers what they complained of."""

    def __init__(self, browser):
        self._browser = browser
        self.complaints: list[str] = []
        self.opened: list = []

    def open(self, address, width=1280, height=860, scheme="light", motion="reduce"):
        page = self._browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion=motion,
            accept_downloads=True,
        )
        page.set_default_timeout(DEADLINE)
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(f"{error}\n{error.stack}"))
        page.add_init_script(LISTENING)
        self.answer = page.goto(address)
        self.opened.append(page)
        return page

    def _hear(self, kind, text):
        if kind in ("error", "warning"):
            self.complaints.append(text)

    @contextmanager
    def may_lose_the_program(self):
        """Browsers say in the console that nobody answers; nothing else may be said meanwhile."""
        before = len(self.complaints)
        yield
        lost = ("ERR_CONNECTION_REFUSED", "WebSocket connection to", "Failed to load resource")
        self.complaints[before:] = [
            said for said in self.complaints[before:] if not any(words in said for words in lost)
        ]

    def end(self):
        violations = []
        for page in self.opened:
            if not page.is_closed():
                violations += page.evaluate("violations")
                page.close()
        assert not self.complaints, "\n".join(self.complaints)
        assert not violations, "\n".join(violations)


@pytest.fixture
def pages(browser):
    found = Pages(browser)
    yield found
    found.end()


@contextmanager
def downloaded(page):
    """The bytes of the file that a click brings: `with downloaded(page) as file: page.click(...)`, then `file()`."""
    with page.expect_download() as waiting:
        yield lambda: Path(waiting.value.path()).read_bytes()


def eventually(page, expression):
    """Wait until an expression is true; Playwright's own way to wait for one needs unsafe-eval."""
    deadline = time.monotonic() + DEADLINE / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(50)
