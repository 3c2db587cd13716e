"""DOT and Mermaid: each box once, groups nested, words escaped."""

import re

import extempo as ex
from extempo import nn
from extempo.inspect import draw

from .models import Reader


def test_dot_has_each_box_and_edge_and_nests_groups():
    drawing = draw(Reader(), [1, 2, 3]).unfold()
    text = drawing.dot()
    assert text.startswith("digraph {")
    assert text.count("{") == text.count("}")
    assert len(re.findall(r"^ *n\d+ \[label", text, re.M)) == len(drawing.view.boxes)
    assert len(re.findall(r"^ *n\d+ -> n\d+ ", text, re.M)) == len(drawing.view.edges)
    assert text.count("subgraph cluster_") == len(drawing.view.frames) - 1
    assert "constraint=false" in text  # what the loop hands on does not push boxes down


def test_mermaid_has_each_box_and_edge_and_nests_groups():
    drawing = draw(Reader(), [1, 2, 3]).unfold()
    text = drawing.mermaid()
    assert "flowchart TD" in text
    assert text.count("subgraph") == len(re.findall(r"^ *end$", text, re.M)) == len(drawing.view.frames) - 1
    assert len(re.findall(r"-->\||-\.->\|", text)) == len(drawing.view.edges)


def test_words_are_escaped():
    drawing = draw(nn.ReLU(), ex.ones(1), title='say "<hi>"')
    assert 'label="say \\"<hi>\\""' in drawing.dot()
    assert 'title: "say \\"<hi>\\""' in drawing.mermaid()
