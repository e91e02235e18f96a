"""The site in a browser, from a server of this machine: requests, errors, search, dark mode."""

from __future__ import annotations

import functools
import http.server
import re
import threading
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = [
    "index.html",
    "ten_minutes.html",
    "gallery.html",
    "notebooks/define.html",
    "notebooks/train.html",
    "performance.html",
    "reference/running.html",
]

# Findings in the theme's own parts: its search dialog has no name, and its frames around wide
# tables cannot be scrolled by keyboard.
THEME = {"aria-dialog-name", "scrollable-region-focusable"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def address():
    assert (SITE / "index.html").is_file(), "make docs builds the site"
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def on_site(visited, address):
    """Opens a page of the site."""
    return lambda name, **context: visited(address + name, "networkidle", **context)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_an_error_or_a_request_to_another_host(
    name, width, scheme, on_site, address
):
    page = on_site(name, color_scheme=scheme, viewport={"width": width, "height": 800})
    assert page.said == []
    assert page.asked
    assert [url for url in page.asked if not url.startswith((address, "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = Axe().run(page).response["violations"]
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert [(v["id"], v["nodes"][0]["html"][:120]) for v in serious if v["id"] not in THEME] == []


def test_the_search_finds_a_cell_and_a_public_name(on_site, address):
    page = on_site("index.html")
    places = {
        "slstm": "[href*='gallery.html'][href$='#slstm']",
        "rnnc.scan": "[href*='reference/running.html'][href$='#rnnc.scan']",
    }
    for words, place in places.items():
        page.locator("input[name=query]").fill("")
        page.locator("input[name=query]").click()
        page.locator("input[name=query]").press_sequentially(words, delay=20)
        first = page.locator(f".md-search-result__link{place}").first
        first.wait_for(state="attached", timeout=10_000)
    assert [url for url in page.asked if not url.startswith(address)] == []
    assert page.said == []


def test_the_choice_of_dark_mode_stays_on_the_next_page(on_site):
    page = on_site("index.html", color_scheme="light")
    page.locator("label[title='Dark mode']").click()
    page.get_by_role("link", name="Gallery").first.click()
    page.wait_for_url("**/gallery.html")
    assert page.locator("body").get_attribute("data-md-color-scheme") == "slate"


def test_a_report_opens_from_the_gallery(on_site):
    page = on_site("gallery.html")
    page.get_by_role("link", name=re.compile("^Report of lstm$")).click()
    page.wait_for_url("**/reports/lstm.html")
    assert page.locator("h1").inner_text() == "lstm"
    assert page.said == []


def test_pages_open_from_a_folder_without_a_server(opened):
    page = opened(SITE / "gallery.html")
    page.get_by_role("link", name="Limits").first.click()
    page.wait_for_url("**/limits.html")
    assert all(url.startswith(("file:", "data:")) for url in page.asked)
