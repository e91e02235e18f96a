"""The page of `rnnc report`: what it discloses, what it asks for, and hostile input."""

from __future__ import annotations

import base64
import getpass
import hashlib
import os
import re
import socket
from pathlib import Path

import rnnc

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def test_it_asks_no_server_and_allows_only_its_own_script_and_style(lstm, parsed):
    found = parsed(lstm)
    for tag, attrs in found.tags:
        assert tag not in {"link", "img", "iframe", "object", "base", "form"}
        assert not any(name.startswith("on") or name == "style" for name in attrs)
        for name in ("src", "href"):
            assert attrs.get(name, "#").startswith(("#", "data:application/json;base64,"))
    policy = next(a["content"] for t, a in found.tags if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none';")
    for tag in ("style", "script"):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", lstm, re.DOTALL)
        (text,) = texts
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert len(found.ids) == len(set(found.ids))
    assert len(lstm.encode()) < 1_500_000


def test_it_names_nothing_of_the_machine_that_wrote_it(lstm):
    names = {str(Path.home()), os.getcwd(), socket.gethostname(), getpass.getuser()}
    # Shorter names, such as a user's name "x", are in every text.
    secrets = [n for n in names if len(n) > 4 or ("/" in n and len(n) > 1)]
    data = base64.b64decode(re.search(r"base64,([^\"]+)", lstm)[1]).decode()
    assert secrets
    for secret in secrets:
        assert secret not in lstm
        assert secret not in data


def test_hostile_text_stays_text(parsed, page):
    cell = rnnc.cells.elman.model_copy(update={"doc": HOSTILE})
    shown = page(cell)
    parsed = parsed(shown)
    assert HOSTILE in "".join(parsed.texts)
    assert [tag for tag, _ in parsed.tags].count("script") == 1
    assert "img" not in [tag for tag, _ in parsed.tags]
