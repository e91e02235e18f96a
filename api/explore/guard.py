"""The guard in front of the page: whose requests and websockets reach it, and by which headers.

The page runs code, so its port must be closed to other users of the machine and to other pages in
the same browser. Each request is refused unless it has the right host, comes from no other page,
and has the cookie that the printed link was exchanged for.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

HOSTS = ("127.0.0.1", "localhost")
# 256 bits, in each of the two secrets.
SECRET_BYTES = 32
# On every answer. The page's own policy is in `policy.py`.
HEADERS: Headers = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
# A proxy's headers change addresses in the page. There is no proxy here.
_DROPPED = (b"forwarded", b"x-forwarded-")
# Old browsers do not send Sec-Fetch-Site; their foreign requests lack the cookie.
_OWN_SITES = ("", "none", "same-origin")


class Guard:
    """An ASGI application that lets only the owner's browser through to another one.

    Attributes:
        app: the guarded application.
        port: of the server.
        token: in the printed link; a browser exchanges it once for a cookie.

    Example:
        >>> from rnnc.explore.guard import Guard
        >>> guard = Guard(None, 8080)
        >>> guard.link == f"http://127.0.0.1:8080/?token={guard.token}"
        True
    """

    def __init__(self, app: App | None, port: int) -> None:
        self.app = app
        self.port = port
        self.token = secrets.token_urlsafe(SECRET_BYTES)
        self.used: Callable[[], None] = lambda: None
        self._session = secrets.token_urlsafe(SECRET_BYTES)
        self._exchanged = False
        # A browser leaves port 80 out.
        ends = ("", ":80") if port == 80 else (f":{port}",)
        self._hosts = {host + end for host in HOSTS for end in ends}

    @property
    def link(self) -> str:
        """The address with the token. By number: another user may listen on localhost's IPv6."""
        return f"http://{HOSTS[0]}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The cookie's name. Cookies ignore ports, so two explorers need two names."""
        return f"rnnc_explore_{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request or websocket on, or refuse it.

        Args:
            scope: of ASGI.
            receive: of ASGI.
            send: of ASGI.
        """
        kind = scope["type"]
        if kind == "lifespan":
            await self._pass(scope, receive, send)
        elif kind == "websocket":
            if self._refusal(scope):
                # Before `websocket.accept`, so that the server answers with 403.
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self._pass(scope, receive, send)
        elif kind == "http":
            await self._http(scope, receive, _with_headers(send))
        else:
            raise ValueError(f"a scope of the type {kind!r}")

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None
        kept = [h for h in scope.get("headers", ()) if not h[0].lower().startswith(_DROPPED)]
        await self.app({**scope, "headers": kept}, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = self._stranger(scope)
        if reason:
            await _answer(send, 403, reason)
        elif scope["method"] not in ("GET", "HEAD"):
            # Everything but pages and their files goes through the websocket. No route takes files.
            await _answer(send, 405, "Only GET and HEAD.", [(b"allow", b"GET, HEAD")])
        elif "token" in (query := parse_qs(_text(scope["query_string"]))):
            await self._exchange(scope, query["token"], send)
        elif self._has_cookie(scope):
            await self._pass(scope, receive, send)
        elif _header(scope, b"sec-fetch-site") in ("cross-site", "same-site"):
            # The link was followed from another page, or from the file that opens the browser: the
            # browser withholds a strict cookie until this page itself leads to the next.
            await _answer(send, 403, _NO_COOKIE, again=scope["path"] == "/")
        else:
            await _answer(send, 403, _NO_COOKIE)

    async def _exchange(self, scope: Scope, tokens: list[str], send: Send) -> None:
        right = len(tokens) == 1 and _same(tokens[0], self.token)
        if right and scope["method"] == "GET" and not self._exchanged:
            self._exchanged = True
            self.used()
            await _answer(send, 303, "", [(b"location", b"/"), self._set_cookie])
        else:
            await _answer(send, 403, _USED if right else _WRONG)

    @property
    def _set_cookie(self) -> tuple[bytes, bytes]:
        text = f"{self.cookie}={self._session}; HttpOnly; SameSite=Strict; Path=/"
        return b"set-cookie", text.encode()

    def _stranger(self, scope: Scope) -> str:
        """Why a request is not from the owner's own page or address bar, or nothing."""
        hosts = _headers(scope, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            # Another name may lead to this machine: its page must not count as ours.
            return "Wrong host. Use the link that rnnc explore printed."
        origins = _headers(scope, b"origin")
        own = f"http://{hosts[0].lower()}"
        # All browsers send the origin of a websocket, and programs have no business here.
        if origins != [own] and (origins or scope["type"] == "websocket"):
            return "This request comes from another page."
        site = _header(scope, b"sec-fetch-site")
        if site not in _OWN_SITES and not _is_navigation(scope):
            return "This request comes from another page."
        return ""

    def _refusal(self, scope: Scope) -> str:
        reason = self._stranger(scope)
        return reason or ("" if self._has_cookie(scope) else _NO_COOKIE)

    def _has_cookie(self, scope: Scope) -> bool:
        found = [
            value
            for header in _headers(scope, b"cookie")
            for name, _, value in (part.strip().partition("=") for part in header.split(";"))
            if name == self.cookie
        ]
        return len(found) == 1 and _same(found[0], self._session)


_NO_COOKIE = "Open the link that rnnc explore printed: it holds a token that works once."
_USED = "The token of this link has been used: it works once."
_WRONG = "Wrong token. Use the link that rnnc explore printed."
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>rnnc explore</title>{again}</head>
<body><h1>rnnc explore</h1><p>{reason}</p>
<p>In the browser that opened it, the page is <a href="/">here</a>. For another browser, start
<code>rnnc explore</code> again.</p></body></html>
"""
_AGAIN = '<meta http-equiv="refresh" content="0;url=/">'


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


def _is_navigation(scope: Scope) -> bool:
    """Return True if a browser opens the address in a tab. A page in a frame never does."""
    return (
        scope["type"] == "http"
        and _header(scope, b"sec-fetch-mode") == "navigate"
        and _header(scope, b"sec-fetch-dest") == "document"
    )


def _headers(scope: Scope, name: bytes) -> list[str]:
    return [_text(value) for key, value in scope["headers"] if key.lower() == name]


def _header(scope: Scope, name: bytes) -> str:
    """A header that only browsers send, or nothing."""
    return ", ".join(_headers(scope, name)).lower()


def _text(value: bytes) -> str:
    return value.decode("latin-1")


async def _answer(
    send: Send, status: int, reason: str, headers: Headers | None = None, again: bool = False
) -> None:
    page = _PAGE.format(reason=escape(reason), again=_AGAIN if again else "")
    body = page.encode() if reason else b""
    policy = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
    own = [(b"content-type", b"text/html; charset=utf-8"), policy]
    own += [(b"content-length", str(len(body)).encode()), *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Send:
    """A `send` whose answers have `HEADERS` in place of their own."""
    names = {name for name, _ in HEADERS}

    async def sends(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [h for h in message.get("headers", ()) if h[0].lower() not in names]
            message = {**message, "headers": [*own, *HEADERS]}
        await send(message)

    return sends
