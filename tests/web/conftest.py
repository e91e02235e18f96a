"""Pages in a real browser: Debian's Chromium, headless, driven by Playwright."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

# `make test-web` sets it; the other targets need no browser.
WANTED = os.environ.get("RNNC_WEB") == "1"
collect_ignore_glob = [] if WANTED else ["test_*.py"]


def beside(name):
    """A module of this folder."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    module = beside("browser")
    with sync_playwright() as playwright:
        # As root, as in a container, Chromium has no sandbox.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=module.executable(), args=flags)
        yield found
        found.close()


@pytest.fixture
def visited(browser):
    """Opens an address, and gives the page with the lists of its messages and requests."""
    contexts = []

    def visit(address, wait_until="load", **context):
        context = {"viewport": {"width": 1280, "height": 900}} | context
        contexts.append(browser.new_context(**context))
        page = contexts[-1].new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(address, wait_until=wait_until)
        return page

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture
def opened(visited):
    """The same for a file."""

    def open_file(path, **context):
        return visited(Path(path).as_uri(), **context)

    return open_file


@pytest.fixture(scope="session")
def explorers():
    return beside("explorers")


@pytest.fixture(scope="module")
def explorer(browser, explorers):
    """A running explorer, for all tests of a file."""
    with explorers.server("--no-open", "--port", "0") as link:
        found = explorers.Explorer(link, browser)
        yield found
        for context in found.contexts:
            context.close()
