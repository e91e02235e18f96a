"""The guard, called as a server calls it: who gets through, and with which headers."""

from __future__ import annotations

import asyncio
import re

import pytest
from rnnc.explore.guard import HEADERS, Guard
from rnnc.explore.policy import Policy, policy_of

PORT = 4321
HOST, ORIGIN = f"127.0.0.1:{PORT}", f"http://127.0.0.1:{PORT}"
PAGE = b"<html><script>let a = 1;</script><script type='module'>b</script><script src='x'></script>"


async def inner(scope, receive, send):
    scope["state"]["reached"] = scope
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    kind = b"text/html" if scope["path"] == "/" else b"text/javascript"
    cached = (b"Cache-Control", b"public, max-age=31536000")
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind), cached]}
    )
    await send({"type": "http.response.body", "body": PAGE[:20], "more_body": True})
    await send({"type": "http.response.body", "body": PAGE[20:]})


class Client:
    """Sends scopes to a guard, as a server does."""

    def __init__(self, guard):
        self.guard = guard
        self.reached = None

    def ask(self, kind="http", path="/", query="", method="GET", **headers):
        """The messages that come back; an underscore in a header's name is a dash."""
        listed = []
        for name, values in headers.items():
            for value in [values] if isinstance(values, str) else values or []:
                listed.append((name.replace("_", "-").encode(), value.encode()))
        state = {}
        scope = {"type": kind, "path": path, "query_string": query.encode(), "headers": listed}
        scope |= {"method": method, "state": state}
        sent = []

        async def send(message):
            sent.append(message)

        asyncio.run(self.guard(scope, None, send))
        self.reached = state.get("reached")
        return sent

    def status(self, **request):
        sent = self.ask(**{"host": HOST} | request)
        return sent[0]["status"]

    def headers(self, **request):
        sent = self.ask(**{"host": HOST} | request)
        return {k.decode().lower(): v.decode() for k, v in sent[0]["headers"]}

    def opens(self, **request):
        """Whether a websocket is accepted."""
        request = {"kind": "websocket", "path": "/_nicegui_ws/", "host": HOST} | request
        sent = self.ask(**request)
        assert len(sent) == 1
        accepted = sent[0]["type"] == "websocket.accept"
        assert accepted == (self.reached is not None)
        assert accepted or sent[0] == {"type": "websocket.close", "code": 1008}
        return accepted


@pytest.fixture
def client():
    return Client(Guard(inner, PORT))


@pytest.fixture
def cookie(client):
    """The cookie of the browser that opened the link."""
    found = client.headers(query=f"token={client.guard.token}")["set-cookie"]
    return found.split(";")[0]


def test_the_link_is_exchanged_once_for_a_cookie_and_leaves_the_address(client):
    guard = client.guard
    assert guard.link == f"http://127.0.0.1:{PORT}/?token={guard.token}"
    headers = client.headers(query=f"token={guard.token}")
    assert client.reached is None
    assert headers["location"] == "/"
    name, _, rest = headers["set-cookie"].partition("=")
    value, *attributes = rest.split("; ")
    assert name == f"rnnc_explore_{PORT}"
    assert set(attributes) == {"HttpOnly", "SameSite=Strict", "Path=/"}
    assert guard.token not in value
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    # A second use is refused, with the cookie and without.
    assert client.status(query=f"token={guard.token}") == 403
    assert client.status(query=f"token={guard.token}", cookie=f"{name}={value}") == 403
    assert client.reached is None
    assert client.status(cookie=f"{name}={value}") == 200


def test_the_exchange_is_a_redirect(client):
    assert client.status(query=f"token={client.guard.token}") == 303


def test_the_secrets_have_128_bits_and_differ_between_guards():
    guards = [Guard(inner, PORT) for _ in range(20)]
    secrets = {guard.token for guard in guards} | {guard._session for guard in guards}
    assert len(secrets) == 40
    assert all(len(secret) * 6 >= 128 for secret in secrets)


@pytest.mark.parametrize("path", ["/", "/_nicegui/3.0/static/nicegui.js", "/favicon.ico"])
def test_nothing_is_served_without_the_cookie(client, cookie, path):
    assert client.status(path=path, cookie=cookie) == 200
    name, _, value = cookie.partition("=")
    for wrong in (None, "", f"{name}=", f"{name}={value[:-1]}", f"{name}x={value}", f"a={value}"):
        assert client.status(path=path, cookie=wrong) == 403
        assert client.reached is None
    assert client.status(path=path, cookie=[cookie, f"{name}=guess"]) == 403
    assert client.status(path=path, cookie=f"other=1; {cookie}; more") == 200


@pytest.mark.parametrize("token", ["", "wrong", "é", "%00"])
def test_a_wrong_token_is_refused_and_spends_nothing(client, token):
    assert client.status(query=f"token={token}&token=x") == 403
    assert client.status(query=f"token={token}") == 403
    assert client.status(query=f"token={client.guard.token}&token=x") == 403
    assert client.status(query=f"token={client.guard.token}", method="HEAD") == 403
    assert client.status(query=f"token={client.guard.token}") == 303


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:80",
        f"[::1]:{PORT}",
        f"127.0.0.1.evil.example:{PORT}",
        f"{HOST}@evil.example",
        [HOST, "evil.example"],
        [HOST, HOST],
    ],
)
def test_a_foreign_host_is_refused(client, cookie, host):
    assert client.status(host=host, cookie=cookie) == 403
    assert client.status(host=host, query=f"token={client.guard.token}") == 403
    assert not client.opens(host=host, origin=ORIGIN, cookie=cookie)


def test_localhost_is_this_machine_and_an_origin_of_its_own(client, cookie):
    here = f"localhost:{PORT}"
    assert client.status(host=here, cookie=cookie) == 200
    assert client.status(host=here.upper(), cookie=cookie) == 200
    assert client.opens(host=here, origin=f"http://{here}", cookie=cookie)
    assert not client.opens(host=here, origin=ORIGIN, cookie=cookie)


def test_a_browser_leaves_out_port_80():
    client = Client(Guard(inner, 80))
    cookie = client.headers(host="127.0.0.1", query=f"token={client.guard.token}")["set-cookie"]
    assert client.status(host="localhost:80", cookie=cookie.split(";")[0]) == 200


FOREIGN = ["http://evil.example", "null", "", "http://127.0.0.1", f"https://{HOST}", f"{ORIGIN}/"]


@pytest.mark.parametrize("origin", [*FOREIGN, "http://127.0.0.1:4322", [ORIGIN, ORIGIN]])
def test_a_foreign_origin_is_refused(client, cookie, origin):
    assert client.status(origin=origin, cookie=cookie) == 403
    assert client.status(origin=origin, query=f"token={client.guard.token}") == 403
    assert not client.opens(origin=origin, cookie=cookie)
    assert client.status(origin=ORIGIN, cookie=cookie) == 200


def test_a_websocket_needs_host_origin_and_cookie(client, cookie):
    assert client.opens(origin=ORIGIN, cookie=cookie)
    assert not client.opens(origin=ORIGIN)
    assert not client.opens(origin=ORIGIN, cookie=cookie + "x")
    assert not client.opens(origin=ORIGIN, query=f"token={client.guard.token}")
    assert not client.opens(cookie=cookie)  # every browser names the origin
    assert not client.opens(host=None, origin=ORIGIN, cookie=cookie)


def test_other_pages_on_this_machine_can_load_nothing(client, cookie):
    # A page of another port is the same site, so the browser sends it the cookie.
    for site in ("same-site", "cross-site"):
        assert client.status(sec_fetch_site=site, sec_fetch_dest="script", cookie=cookie) == 403
        frame = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}
        assert client.status(sec_fetch_site=site, **frame, cookie=cookie) == 403
    for site in ("same-origin", "none"):
        assert client.status(sec_fetch_site=site, cookie=cookie) == 200


def test_the_file_that_opens_the_browser_leads_to_the_page(client):
    # The browser withholds a strict cookie after a link of another page; the answer asks again.
    navigation = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    used = []
    client.guard.used = lambda: used.append(True)
    query = f"token={client.guard.token}"
    assert client.status(query=query, sec_fetch_site="cross-site", **navigation) == 303
    assert used == [True]
    sent = client.ask(host=HOST, sec_fetch_site="cross-site", **navigation)
    assert sent[0]["status"] == 403
    assert b'http-equiv="refresh" content="0;url=/"' in sent[1]["body"]
    for site in ("same-origin", "none", ""):
        sent = client.ask(host=HOST, sec_fetch_site=site, **navigation)
        assert sent[0]["status"] == 403
        assert b"refresh" not in sent[1]["body"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_nothing_can_be_sent_but_through_the_websocket(client, cookie, method):
    assert client.status(method=method, cookie=cookie, origin=ORIGIN) == 405
    assert client.reached is None


def test_every_answer_has_the_headers_once(client, cookie):
    for request in ({"cookie": cookie}, {}, {"host": "evil.example"}, {"method": "POST"}):
        sent = client.ask(**{"host": HOST} | request)
        names = [name.lower() for name, _ in sent[0]["headers"]]
        for name, value in HEADERS:
            assert names.count(name) == 1
            assert dict(sent[0]["headers"])[name] == value
        assert not any(name.startswith(b"access-control") for name in names)


def test_headers_of_a_proxy_do_not_reach_the_page(client, cookie):
    client.ask(host=HOST, cookie=cookie, x_forwarded_prefix="/evil", forwarded="host=evil")
    names = {name for name, _ in client.reached["headers"]}
    assert names == {b"host", b"cookie"}


def test_the_start_and_the_end_of_the_server_pass_and_other_scopes_do_not():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    guard = Guard(app, PORT)
    asyncio.run(guard({"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]
    with pytest.raises(ValueError, match="webtransport"):
        asyncio.run(guard({"type": "webtransport", "headers": []}, None, None))


def test_the_page_allows_its_own_scripts_by_their_hashes(client, cookie):
    client.guard.app = Policy(inner, PORT)
    sent = client.ask(host=HOST, cookie=cookie)
    assert sent[1]["body"] == PAGE
    policy = dict(sent[0]["headers"])[b"content-security-policy"].decode()
    assert policy == policy_of(PAGE, PORT)
    scripts = re.search(r"script-src ([^;]*)", policy)[1]
    assert "'unsafe-inline'" not in scripts
    assert scripts.count("'sha256-") == 2
    for part in ("default-src 'none'", "frame-ancestors 'none'", "form-action 'none'"):
        assert part in policy.split("; ")
    sent = client.ask(host=HOST, path="/a.js", cookie=cookie)
    assert b"".join(m["body"] for m in sent[1:]) == PAGE
