"""Programs as text, from templates: what a fuzzer reports runs by itself."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2


def program(template: str, **values: Any) -> str:
    """Write a program.

    Args:
        template: the name of a file in `templates`, whose first lines say what it needs.
        values: what it needs.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rnnc.verify", "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"repr": repr, "tuple": tuple}
    return environment
