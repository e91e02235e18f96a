"""A running explorer, and browsers with its cookie."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from urllib.parse import urlsplit

# A busy machine takes longer than a person should wait.
PATIENCE = 60_000  # ms
RUN = "from rnnc.cli.app import app; app(prog_name='rnnc')"


@contextlib.contextmanager
def server(*words, **options):
    """The link of an explorer that runs."""
    command = [sys.executable, "-c", RUN, "explore", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


class Explorer:
    """A running explorer, and the cookie of the browser that opened its link."""

    def __init__(self, link, browser):
        self.link, self.browser = link, browser
        self.home = link.partition("?")[0]
        self.host = urlsplit(link).netloc
        self.contexts = []
        first = self.context()
        page = first.new_page()
        self.first_answer = page.goto(link)
        self.first_address = page.url
        self.seen_by_scripts = page.evaluate("document.cookie")
        self.state = first.storage_state()
        (self.cookie,) = self.state["cookies"]

    def context(self, **options):
        self.contexts.append(self.browser.new_context(**options))
        return self.contexts[-1]

    def open(self, **options):
        options = {"viewport": {"width": 1280, "height": 900}} | options
        page = self.context(storage_state=self.state, **options).new_page()
        page.set_default_timeout(PATIENCE)
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("websocket", lambda socket: page.asked.append(socket.url))
        page.goto(self.home)
        page.locator(".answer math").first.wait_for()
        return page
