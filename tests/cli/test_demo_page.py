"""The page of the tour: every kind of block, escaped."""

from __future__ import annotations

from xml.etree import ElementTree

from extempo.cli.demo_page import page
from extempo.cli.demo_stages import Stage, Verbatim
from extempo.inspect import Column, Table
from extempo.inspect.svg import Picture


def body_of(*blocks, title="1  Data <in>", before="", after=""):
    text = page([Stage("data", title, before, after, list(blocks), {})], seed=7)
    return text.partition("<body>")[2].rpartition("</body>")[0]


def test_words_are_escaped_whatever_block_they_are_in():
    made = body_of("a < b", Verbatim("x <y>\n  z"), Table([Column("<c>")], [["1 & 2"]]), before="(3,)", after="<4>")
    assert "<h2>1  Data &lt;in&gt;</h2>" in made
    assert "<p>a &lt; b</p>" in made
    assert "<pre>x &lt;y&gt;\n  z</pre>" in made
    assert "&lt;c&gt;" in made
    assert "1 &amp; 2" in made
    assert '<p class="shapes">(3,) &rarr; &lt;4&gt;</p>' in made
    assert "seed 7" in made


def test_a_picture_is_part_of_the_page():
    picture = Picture(20, 10, "cells")
    picture.rect(1, 1, 5, 5, fill="#fff")
    figure = body_of(picture, title="").partition("<figure>")[2].partition("</figure>")[0]
    assert ElementTree.fromstring(figure).attrib["width"] == "20"


def test_a_stage_without_title_and_shapes_has_neither():
    made = body_of("only words", title="")
    assert "<h2>" not in made
    assert "&rarr;" not in made
