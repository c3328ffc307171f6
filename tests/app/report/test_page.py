"""A page is a list of sections: each block shows in HTML what it holds, and nothing else."""

import json
import re

from credo.app.report.page import Cell, Code, Figure, Page, Row, Section, Table, Text, Tiles, as_json, html

EVIL = "<script>alert('x')</script> & {{ page }}"
BLOCKS = (
    Text(("One.", EVIL), "lead"),
    Text(("First", "second"), "list"),
    Text(("Within",), "heading"),
    Figure("data:image/svg+xml;base64,AA==", "a line", "What is seen.", narrow=True),
    Table(
        ("name", "score"),
        (Row((Cell("a", note="the first"), Cell("1.5", "best")), "chosen"), Row(("b", EVIL))),
        summary="All 2",
        open=False,
    ),
    Tiles((("error", "3", EVIL),)),
    Code("credo fit 'a b'"),
)
PAGE = Page(
    "A & B", (Section("headline", "", BLOCKS[:1]), Section("rest", "The rest", BLOCKS[1:])), "credo fit", "5 s."
)


def body(page: Page) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>", "", html(page), flags=re.DOTALL))


def test_each_block_is_shown_once():
    page = body(PAGE)
    for said in (
        '<section id="headline"> <div class="lead"> <p>One.</p>',
        "<h2>The rest</h2> <ul> <li>First</li> <li>second</li> </ul> <h3>Within</h3>",
        '<figure class="narrow"> <div class="scroll"><img src="data:image/svg+xml;base64,AA==" alt="a line">',
        "<figcaption>What is seen.</figcaption>",
        '<details><summary>All 2</summary> <div class="scroll"><table>',
        '<thead><tr><th>name</th><th class="n">score</th>',
        '<tr class="chosen"><td>a<span class="note">the first</span></td><td class="n best">1.5</td></tr>',
        "<div><span>error</span><b>3</b>",
        "<pre>credo fit &#39;a b&#39;</pre>",
        "<h1>A &amp; B</h1>",
        "Made by <code>credo fit</code>",
    ):
        assert page.count(said) == 1, said


def test_text_cannot_write_html_and_nothing_is_loaded():
    page = html(PAGE)
    assert "<script" not in page and page.count("&lt;script&gt;") == 3 and "http" not in page
    assert "prefers-color-scheme: dark" in page and "max-width: 760px" in page


def test_json_holds_what_the_page_holds():
    found = json.loads(json.dumps(as_json(PAGE)))
    kinds = [block["kind"] for section in found["sections"] for block in section["blocks"]]
    assert kinds == ["text", "text", "text", "figure", "table", "tiles", "code"]
    table = found["sections"][1]["blocks"][3]
    assert table["rows"][0] == {
        "cells": [{"text": "a", "mark": "", "note": "the first"}, {"text": "1.5", "mark": "best", "note": ""}],
        "mark": "chosen",
    }
    assert found["title"] == "A & B" and found["command"] == "credo fit"


def test_a_notebook_shows_the_page_in_a_frame(tmp_path):
    shown = PAGE._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<section" not in shown and "&lt;section" in shown
    assert PAGE.write(tmp_path / "a.html").read_text(encoding="utf-8") == html(PAGE)
