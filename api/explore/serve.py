"""Serves the page on 127.0.0.1, behind its guard, and opens the browser."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from html import escape
from importlib import resources
from pathlib import Path

from ..errors import RnncError
from .evaluator import Evaluator
from .guard import HOSTS, App, Guard
from .policy import Policy

# Of a request, in bytes. A browser sends less than 2,000.
_LONGEST_HEADERS = 16 * 1024


class PortError(RnncError):
    """The page has no port to listen on."""


def bound(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1 only.

    Args:
        port: its number; 0 for a free one.

    Raises:
        PortError: another program has the port, or the user may not have it.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":  # there it would allow two programs on one port
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOSTS[0], port))
        found.listen()
    except OSError as error:
        found.close()
        taken = error.errno == errno.EADDRINUSE
        what = "a port that another program uses" if taken else f"a port with {error.strerror}"
        wanted, write = "a free port", "--port 0, which finds one"
        raise PortError(f"--port {port}", what, wanted, write) from error
    return found


def serve(start: object, port: int, browser: bool, say: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C.

    Args:
        start: a `page.Start`.
        port: its number; 0 for a free one.
        browser: whether to open the page in a browser.
        say: prints the link.

    Raises:
        PortError: the port is not to be had.
    """
    listening = bound(port)
    number = listening.getsockname()[1]
    guard = Guard(None, number)
    with tempfile.TemporaryDirectory(prefix="rnnc-explore-") as folder, listening:
        # NiceGUI would make a folder for its storage beside the user's files.
        os.environ["NICEGUI_STORAGE_PATH"] = folder
        import uvicorn

        guard.app = Policy(_application(start), number)
        config = uvicorn.Config(
            guard,
            loop="asyncio",  # uvloop leaves sockets of this process open in the warm one
            http="h11",  # httptools reads a header without end
            h11_max_incomplete_event_size=_LONGEST_HEADERS,
            log_level="warning",
            access_log=False,  # it would hold the token
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            timeout_graceful_shutdown=1,
        )
        say(f"{guard.link}\nThe link works once, in one browser. Ctrl-C ends the page.")
        opened = _opened(guard, Path(folder)) if browser else contextlib.nullcontext()
        with opened, contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


def _application(start: object) -> App:
    """NiceGUI's application with the page, and nothing else that can be asked for."""
    from fastapi import FastAPI
    from nicegui import app, ui

    from .page import Page, Start

    assert isinstance(start, Start)
    evaluator = Evaluator()
    app.on_startup(evaluator.start)
    app.on_shutdown(evaluator.stop)
    style = "".join(_text(*file) for file in (("report", "page.css"), ("explore", "explore.css")))
    script = "".join(_text(*file) for file in (("report", "page.js"), ("explore", "explore.js")))

    async def page() -> None:
        ui.add_head_html(f"<style>{style}</style><script>{script}</script>")
        client = ui.context.client
        shown = Page(evaluator, start)
        client.on_delete(shown.closed)
        client.on_connect(shown.connected)

    ui.page("/", title="rnnc explore", language="en-US")(page)
    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    ui.run_with(
        outer,
        title="rnnc explore",
        language="en-US",
        tailwind=False,
        gzip_middleware_factory=None,  # the policy reads the page
        binding_refresh_interval=None,
        reconnect_timeout=10,  # of a busy machine
        show_welcome_message=False,
    )
    app.config.socket_io_js_transports = ["websocket"]  # the guard refuses POST
    application: App = outer
    return application


def _text(room: str, name: str) -> str:
    return resources.files(f"rnnc.{room}").joinpath("templates").joinpath(name).read_text("utf-8")


@contextlib.contextmanager
def _opened(guard: Guard, folder: Path) -> Iterator[None]:
    """Open the page. A file leads to it: all users can read the arguments of a browser."""
    file = folder / "open.html"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as out:
        out.write(f'<meta http-equiv="refresh" content="0;url={escape(guard.link)}">')
    guard.used = lambda: file.unlink(missing_ok=True)
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        # Elsewhere a browser in the terminal would open.
        webbrowser.open(file.as_uri())
    yield
