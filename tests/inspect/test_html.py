"""What Jupyter shows of modules and ragged tensors."""

from xml.etree import ElementTree

import extempo as ex
from extempo import nn


def rows(html: str) -> list[list[str]]:
    table = ElementTree.fromstring(html)
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")][1:]


def test_a_ragged_tensor_shows_each_row_and_its_length():
    html = ex.ragged([[1, 2, 3], [], [4]])._repr_html_()
    assert rows(html) == [["0", "[1, 2, 3]", "3"], ["1", "[]", "0"], ["2", "[4]", "1"]]
    assert "ragged (3, *)" in html


def test_many_rows_are_shown_in_part():
    shown = rows(ex.ragged([[i] for i in range(40)])._repr_html_())
    assert [row[0] for row in shown] == ["0", "1", "2", "...", "37", "38", "39"]


def test_rows_of_vectors_are_escaped_and_whole():
    html = ex.ragged([[[1.5, 2.0]], [[3.0, 4.0], [5.0, 6.0]]])._repr_html_()
    assert rows(html)[1][1].split() == ["[[3.,", "4.],", "[5.,", "6.]]"]


def test_a_module_shows_its_parts_and_how_much_there_is_to_learn():
    html = nn.Sequential(nn.Linear(2, 3))._repr_html_()
    assert "in_features=2" in html
    assert "9 parameters" in html


def test_what_a_module_says_of_itself_is_escaped():
    class Odd(nn.Module):
        def extra_repr(self) -> str:
            return "a < b"

    assert "a &lt; b" in Odd()._repr_html_()
