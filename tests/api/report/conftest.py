"""A page of `rnnc report`, and what reads it."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
import rnnc
from rnnc.codegen.cuda.limits import limits_of
from rnnc.report.contents import Report
from rnnc.report.page import page_of


def page_with(*cells, shape=None, gpu="H200", variant="auto"):
    shape = shape or rnnc.Shape(heads=12, head_dim=64)
    reports = [
        Report.of(cell, shape, limits_of(gpu), variant, prefix)
        for cell, prefix in zip(cells, "ab", strict=False)
    ]
    return page_of(reports, "rnnc report")


@pytest.fixture(scope="package", autouse=True)
def _without_nvdisasm():
    """Pages are the same with and without nvdisasm, which takes another compilation of each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rnnc.report.code.nvdisasm", lambda: None)
        yield


@pytest.fixture(scope="package")
def page():
    """Makes the page of some cells."""
    return page_with


@pytest.fixture(scope="package")
def lstm(_without_nvdisasm):
    """The page of an LSTM."""
    return page_with(rnnc.cells.lstm)


class Page(HTMLParser):
    """The tags of a page, its ids, and the text of each element."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        """All text, with single spaces."""
        return " ".join("".join(self.texts).split())


@pytest.fixture(scope="package")
def parsed():
    """Reads a page."""
    return Page
