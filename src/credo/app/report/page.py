"""A report is a page of sections, and a section a list of blocks: plain values that HTML and JSON are made of.

    Page ─▶ Section ─▶ Text | Figure | Table | Tiles | Code

What writes a section knows nothing of HTML; what shows one (`page.html`, a notebook, a browser application) knows
nothing of models.
"""

import html as markup
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

import credo


class Text(NamedTuple):
    """Sentences: a paragraph each, or as `style` says."""

    sentences: tuple[str, ...]
    style: str = ""
    """"lead" at the top of a page, "list", "small" for notes, "heading" within a section."""


class Figure(NamedTuple):
    """A picture."""

    image: str
    """An SVG in a data URI, see `credo.app.plots.style.data_uri`."""
    alt: str
    """What is to be seen, for those who cannot see it."""
    caption: str = ""
    narrow: bool = False
    """Whether what follows stands beside it where there is room."""


class Cell(NamedTuple):
    """A cell of a table that is more than its text."""

    text: str
    mark: str = ""
    """"best" for the best of its column, "off" for what should not be."""
    note: str = ""
    """Small words below."""


class Row(NamedTuple):
    """A row of a table that is more than its cells."""

    cells: tuple[str | Cell, ...]
    mark: str = ""
    """"chosen" or "muted"."""


class Table(NamedTuple):
    """Cells in rows; all columns are numbers but those numbered in `left`."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    left: tuple[int, ...] = (0,)
    summary: str = ""
    """A table with one is folded behind it..."""
    open: bool = True
    """... unless it is open."""


class Tiles(NamedTuple):
    """Numbers at a glance: label, value and a note each."""

    tiles: tuple[tuple[str, str, str], ...]


class Code(NamedTuple):
    """Something to type or to run."""

    text: str


Block = Text | Figure | Table | Tiles | Code


class Section(NamedTuple):
    """A part of a page under one title; the headline has none."""

    id: str
    title: str
    blocks: tuple[Block, ...]


class Page(NamedTuple):
    """A report. A notebook shows it, `html` writes it down."""

    title: str
    sections: tuple[Section, ...]
    command: str = ""
    """What made it, for reproduction."""
    made: str = ""
    """How: seed, model, seconds."""

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style is its own as well."""
        return f'<iframe srcdoc="{markup.escape(html(self))}" width="100%" height="800" frameborder="0"></iframe>'

    def write(self, path: str | Path) -> Path:
        """Writes the page as one HTML file that needs nothing else, neither network nor script."""
        Path(path).write_text(html(self), encoding="utf-8")
        return Path(path)


def html(page: Page) -> str:
    """The page as one HTML file; text cannot write HTML."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = resources.files("credo.app.report").joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(template).render(page=page, kind=_kind, version=credo.__version__)


def as_json(page: Page) -> dict[str, Any]:
    """The page as plain values: each block says what kind it is."""
    sections = [
        {"id": s.id, "title": s.title, "blocks": [{"kind": _kind(b), **_plain(b)} for b in s.blocks]}
        for s in page.sections
    ]
    return {"title": page.title, "sections": sections, "command": page.command, "made": page.made}


def _kind(block: Block | Cell | str) -> str:
    return type(block).__name__.lower()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value
