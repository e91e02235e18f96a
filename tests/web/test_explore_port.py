"""The port of `rnnc explore` as a stranger meets it."""

from __future__ import annotations

import base64
import contextlib
import http.server
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

# A stranger at the port.


def test_the_token_leaves_the_address_and_works_once(explorer):
    assert explorer.first_address == explorer.home
    assert explorer.seen_by_scripts == ""
    cookie = explorer.cookie
    assert cookie["name"] == f"rnnc_explore_{urlsplit(explorer.link).port}"
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page = explorer.context().new_page()
    assert page.goto(explorer.link).status == 403
    assert "works once" in page.locator("body").inner_text()
    assert page.goto(explorer.home).status == 403


def test_no_process_has_the_token_in_its_arguments(explorer):
    token = explorer.link.partition("token=")[2]
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(file.read_bytes())
    assert len(found) > 3
    assert not any(token.encode() in words for words in found)


def asked(explorer, path, **headers):
    """The status of a request by hand; a websocket's is 101 where it opens."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [f"GET {path} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items() if v)]
    if path.startswith("/_nicegui_ws"):
        lines += ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
        lines += [f"Sec-WebSocket-Key: {key}"]
    with socket.create_connection(("127.0.0.1", urlsplit(explorer.link).port), 20) as line:
        line.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(line.recv(4096).split()[1])


WEBSOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"


@pytest.mark.parametrize("path", ["/", "/_nicegui/VERSION/static/nicegui.js", WEBSOCKET])
def test_page_asset_and_websocket_need_cookie_host_and_origin(explorer, path):
    import nicegui

    path = path.replace("VERSION", nicegui.__version__)
    cookie = f"{explorer.cookie['name']}={explorer.cookie['value']}"
    right = {"Host": explorer.host, "Origin": f"http://{explorer.host}", "Cookie": cookie}
    assert asked(explorer, path, **right) == (101 if path == WEBSOCKET else 200)
    wrong = {
        "Cookie": (None, f"{explorer.cookie['name']}=guess"),
        "Host": ("evil.example", f"evil.example:{urlsplit(explorer.link).port}", "127.0.0.1"),
        "Origin": ("http://evil.example", "null", "http://127.0.0.1:1"),
    }
    for name, values in wrong.items():
        for value in values:
            assert asked(explorer, path, **{**right, name: value}) == 403, (name, value)
    # Without a host, uvicorn or the guard refuses.
    assert asked(explorer, path, **{**right, "Host": None}) in (400, 403)
    assert asked(explorer, path, **{**right, "Origin": None}) == (403 if path == WEBSOCKET else 200)


@pytest.mark.parametrize("part", [b"A: " + 1000 * b"x" + b"\r\n", 1000 * b"x"])
def test_headers_without_an_end_are_refused(explorer, part):
    with socket.create_connection(("127.0.0.1", urlsplit(explorer.link).port), 20) as line:
        line.sendall(b"GET / HTTP/1.1\r\nX: ")
        with pytest.raises(ConnectionError):
            line.sendall(20_000 * part)  # more than buffers of the system hold
    right = {"Cookie": f"{explorer.cookie['name']}={explorer.cookie['value']}"}
    assert asked(explorer, "/", Host=explorer.host, **right) == 200


def test_another_page_of_this_machine_gets_nothing(explorer, tmp_path):
    # The browser has the cookie and sends it: to a browser, another port is the same site.
    home = explorer.home
    (tmp_path / "evil.html").write_text(
        f"""<!doctype html><title>evil</title><script>
        const seen = {{}};
        fetch("{home}", {{credentials: "include"}}).then(
          () => seen.fetch = 1, () => seen.fetch = 0);
        fetch("{home}", {{mode: "no-cors", credentials: "include"}}).then(
          () => seen.blind = 1, () => seen.blind = 0);
        const socket = new WebSocket("{home.replace("http", "ws", 1).rstrip("/")}{WEBSOCKET}");
        socket.onopen = () => seen.socket = 1;
        socket.onerror = () => seen.socket = 0;
        const add = (tag, values) => document.head.append(
          Object.assign(document.createElement(tag), values));
        add("script", {{src: "{home}favicon.ico", onload: () => seen.script = 1,
          onerror: () => seen.script = 0}});
        addEventListener("load", () => {{
          const frame = document.createElement("iframe");
          frame.src = "{home}";
          frame.onload = () => seen.frame = frame.contentDocument === null ? 0 : 1;
          document.body.append(frame);
        }});
        </script><body></body>"""
    )
    handler = lambda *words: http.server.SimpleHTTPRequestHandler(*words, directory=tmp_path)  # noqa: E731
    evil = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=evil.serve_forever, daemon=True).start()
    page = explorer.context(storage_state=explorer.state).new_page()
    answers = []
    page.on("response", lambda response: answers.append((response.url, response.status)))
    page.goto(f"http://127.0.0.1:{evil.server_port}/evil.html")
    page.wait_for_function("'frame' in seen && 'socket' in seen && 'script' in seen")
    page.wait_for_timeout(500)
    seen = page.evaluate("seen")
    evil.shutdown()
    assert (seen["fetch"], seen["socket"], seen["script"], seen["frame"]) == (0, 0, 0, 0)
    statuses = [status for url, status in answers if url.startswith(home)]
    assert statuses
    assert set(statuses) == {403}


def test_the_file_that_opens_the_browser_leads_to_the_page(browser, explorers, tmp_path):
    script = tmp_path / "browser"
    script.write_text('#!/bin/sh\necho "$1" > "$0.address"\n')
    script.chmod(0o700)
    variables = {**os.environ, "BROWSER": f"{script} %s", "DISPLAY": ":99", "TMPDIR": str(tmp_path)}
    with explorers.server("elman", env=variables) as link:
        for _ in range(100):
            if (address := tmp_path / "browser.address").exists() and address.read_text():
                break
            time.sleep(0.1)
        file = Path(urlsplit(address.read_text().strip()).path)
        assert file.stat().st_mode & 0o777 == 0o600
        assert link in file.read_text(encoding="utf-8")
        context = browser.new_context()
        page = context.new_page()
        page.goto(file.as_uri())
        page.locator(".cm-content").wait_for(timeout=explorers.PATIENCE)
        assert page.url == link.partition("?")[0]
        assert not file.exists()
        context.close()
    assert not file.parent.exists()


def test_a_port_in_use_and_a_missing_cell_are_named(explorer, explorers):
    port = str(urlsplit(explorer.link).port)
    for words, said in (
        (["--port", port], "a port that another program uses"),
        (["lstn"], "lstm"),
        (["none.py"], "No such file"),
    ):
        command = [sys.executable, "-c", explorers.RUN, "explore", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert said in done.stderr
        assert "Traceback" not in done.stderr
