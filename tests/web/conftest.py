"""Pages in a real browser: Debian's Chromium, headless, driven by Playwright."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

# `make test-web` sets it; the other targets need no browser.
WANTED = os.environ.get("RNNC_WEB") == "1"
collect_ignore_glob = [] if WANTED else ["test_*.py"]


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    path = Path(__file__).with_name("browser.py")
    spec = importlib.util.spec_from_file_location("browser", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with sync_playwright() as playwright:
        # As root, as in a container, Chromium has no sandbox.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=module.executable(), args=flags)
        yield found
        found.close()


@pytest.fixture
def opened(browser):
    """Opens a file, and gives the page with the lists of its console's messages and requests."""
    contexts = []

    def open_file(path, **context):
        context = {"viewport": {"width": 1280, "height": 900}} | context
        contexts.append(browser.new_context(**context))
        page = contexts[-1].new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(Path(path).as_uri())
        return page

    yield open_file
    for context in contexts:
        context.close()
