"""Templates into pages that need nothing else, neither network nor script."""

from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

Page = dict[str, Any]
"""What a template is filled with."""


def fill(name: str, page: Page) -> str:
    """The template of that name with the values of the page; what is missing is an error, text cannot write HTML."""

    def source(name: str) -> str:
        return resources.files("credo.app.report").joinpath(name).read_text(encoding="utf-8")

    environment = Environment(
        loader=FunctionLoader(source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name).render(**page)
