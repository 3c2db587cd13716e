"""The look of reports: whole pages and fragments that need nothing from elsewhere."""

import re
from html.parser import HTMLParser

from extempo.inspect.style import figure, fragment, page, variables
from extempo.inspect.svg import Picture


class Balanced(HTMLParser):
    EMPTY = frozenset({"meta", "br", "hr", "img", "input", "link"})

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_page_is_balanced_escapes_its_title_and_loads_nothing():
    text = page("a < b", "<p>body</p>", style="p { color: red; }", script="let a = 1;")
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert "<title>a &lt; b</title>" in text
    assert "let a = 1;" in text
    assert not re.search(r"https?:|@import|<link|src=", text)


def test_each_colour_has_a_light_and_a_dark_value():
    light, dark = variables().split("@media")
    assert set(re.findall(r"--\w+", light)) == set(re.findall(r"--\w+", dark))
    assert "prefers-color-scheme: dark" in dark


def test_a_fragment_has_no_rule_that_reaches_outside_of_it():
    css = re.search(r"<style>(.*?)</style>", fragment("<p>x</p>"), re.S)[1]
    for rule in re.findall(r"([^{}]+)\{[^{}]*\}", css):
        for selector in rule.replace("@media (prefers-color-scheme: dark)", "").split(","):
            assert selector.strip().startswith(".x"), selector


def test_a_wide_page_has_no_margins():
    assert "max-width: 64rem" in page("a", "")
    assert "max-width: 64rem" not in page("a", "", wide=True)


def test_a_light_picture_is_turned_round_in_dark_rooms():
    picture = Picture(10, 10, "a square")
    text = figure(picture)
    assert "invert(1)" in text
    assert text.endswith(f"{picture.svg()}</figure>")
