"""The report as one HTML file: data, templates, style and script, without a request to anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import metadata, resources

import jinja2
from markupsafe import Markup

from ..codegen.shape import Shape
from .compare import facts_of
from .contents import Report

# Each section's template and id, and its word in the navigation.
_SECTIONS = {
    "compare": "What differs",
    "card": "Cell",
    "plan": "Plan",
    "time": "Time of a step",
    "limits": "Limits",
    "code": "Equation to code",
    "accuracy": "Accuracy",
    "reproduce": "Reproduce",
}


def page_of(reports: Sequence[Report], command: str) -> str:
    """The HTML of one report, or of two side by side.

    Args:
        reports: one or two.
        command: the words that made them.
    """
    style, script = _text("page.css"), _text("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)};"
        " base-uri 'none'; form-action 'none'"
    )
    data = json.dumps([report.data() for report in reports], indent=1, ensure_ascii=False)
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            reports=reports,
            facts=facts_of(*reports) if len(reports) == 2 else (),
            sections=[s for s in _SECTIONS.items() if s[0] != "compare" or len(reports) == 2],
            parts=tuple(_SECTIONS),
            style=Markup(style),
            script=Markup(script),
            policy=policy,
            command=command,
            data=data,
            download=base64.b64encode(data.encode()).decode(),
            versions=versions(),
        )
    )


def card_of(report: Report) -> str:
    """The card and the plan as HTML, for a notebook.

    Args:
        report: of the cell.
    """
    template = environment().get_template("notebook.html.jinja")
    return template.render(report=report)


def versions() -> dict[str, str]:
    """The versions of the packages that the report depends on."""
    found = {}
    for name in ("rnnc", "torch", "sympy", "nvidia-cuda-nvrtc"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _size(count: float) -> str:
    """Bytes in the largest unit that gives at least 1."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}" if unit != "bytes" else f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


def _call_bytes(shape: Shape, per_unit: int) -> str:
    return _size(per_unit * shape.batch * shape.heads * shape.head_dim * shape.steps)


@cache
def _text(name: str) -> str:
    return resources.files("rnnc.report").joinpath("templates").joinpath(name).read_text("utf-8")


@cache
def environment() -> jinja2.Environment:
    """The templates and what they call."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rnnc.report", "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    environment.filters["size"] = _size
    environment.filters["count"] = lambda number: f"{number:,}"
    environment.globals["call_bytes"] = _call_bytes
    return environment
