"""The page's Content-Security-Policy: only this server, and only the scripts that it wrote.

NiceGUI's pages hold scripts of their own. Each gets its hash, so that no other text of the page can
become a script. Vue compiles templates in the browser, which needs 'unsafe-eval'.
"""

from __future__ import annotations

import base64
import hashlib
import re

from .guard import HOSTS, App, Message, Receive, Scope, Send

_SCRIPT = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)


def policy_of(page: bytes, port: int) -> str:
    """The policy of a page.

    Args:
        page: its HTML.
        port: of the server.

    Example:
        >>> from rnnc.explore.policy import policy_of
        >>> "script-src 'self' 'unsafe-eval' 'sha256-" in policy_of(b"<script>1</script>", 80)
        True
    """
    hashes = " ".join(f"'sha256-{_hash(text)}'" for text in _SCRIPT.findall(page))
    sockets = " ".join(f"ws://{host}:{port}" for host in HOSTS)
    parts = (
        "default-src 'none'",
        f"script-src 'self' 'unsafe-eval' {hashes}".rstrip(),
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self'",
        f"connect-src 'self' {sockets}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return "; ".join(parts)


class Policy:
    """An ASGI application that adds the policy to the pages of another one.

    Attributes:
        app: the application.
        port: of the server.
    """

    def __init__(self, app: App, port: int) -> None:
        self.app = app
        self.port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and hold a page back until it is whole.

        Args:
            scope: of ASGI.
            receive: of ASGI.
            send: of ASGI.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start: Message = {}
        body = b""

        async def sends(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                if not _is_page(message):
                    await send(self._with_policy(message, b""))
            elif not _is_page(start):
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body"):
                    await send(self._with_policy(start, body))
                    await send({"type": "http.response.body", "body": body})

        await self.app(scope, receive, sends)

    def _with_policy(self, start: Message, page: bytes) -> Message:
        policy = (b"content-security-policy", policy_of(page, self.port).encode())
        return {**start, "headers": [*start.get("headers", ()), policy]}


def _is_page(start: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/html")
        for name, value in start.get("headers", ())
    )


def _hash(text: bytes) -> str:
    # A browser reads every line's end as \n before it hashes.
    text = text.replace(b"\r\n", b"\n")
    return base64.b64encode(hashlib.sha256(text).digest()).decode()
