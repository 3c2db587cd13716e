"""Tables are never wider than asked for, lose no column, and say the same as HTML and as records."""

from hypothesis import given
from hypothesis import strategies as st

from extempo.inspect import Column, Table
from extempo.inspect.tables import NO_BREAK, bytes_text, seconds_text

words = st.text(alphabet="abcdefgh -", min_size=0, max_size=90)


@st.composite
def tables(draw) -> Table:
    n_columns = draw(st.integers(1, 14))
    flags = [draw(st.lists(st.booleans(), min_size=3, max_size=3)) for _ in range(n_columns)]
    columns = [Column(draw(words), right, may_shrink, wraps=wraps) for right, may_shrink, wraps in flags]
    rows = draw(st.lists(st.lists(words, min_size=n_columns, max_size=n_columns), max_size=4))
    return Table(columns, rows, draw(words))


@given(tables())
def test_no_line_is_wider_than_80_characters(table):
    assert all(len(line) <= 80 for line in str(table).splitlines())


def test_a_column_that_may_shrink_is_cut_before_any_other():
    table = Table([Column("name", may_shrink=True), Column("value", right=True)], [["x" * 100, "y" * 30]])
    assert table.text().splitlines()[1] == "x" * 47 + "…" + "  " + "y" * 30


def test_a_column_that_wraps_loses_nothing_and_is_made_narrow_before_any_is_cut():
    long = " ".join(f"word{i}" for i in range(20))
    table = Table([Column("name", may_shrink=True), Column("text", wraps=True)], [["x" * 60, long], ["y", "short"]])
    lines = table.text().splitlines()
    assert lines[1].startswith("x" * 60 + "  word0")
    assert " ".join(lines[1:-1]).split()[1:] == long.split()
    assert lines[-1].split() == ["y", "short"]


def test_a_column_of_spaces_stays_one_wide():
    table = Table([Column("x" * 90), Column(" " * 4, wraps=True)], [["y", " " * 9]])
    assert all(len(line) <= 80 for line in table.text().splitlines())


def test_a_no_break_space_keeps_words_together_and_is_shown_as_a_space():
    shapes = ", ".join(f"({i},{NO_BREAK}{i})" for i in range(10, 25))
    lines = Table([Column("shapes", wraps=True)], [[shapes]]).text().splitlines()
    assert len(lines) == 3
    assert all(line.count("(") == line.count(")") for line in lines)
    assert "(10, 10), (11, 11)" in lines[1]


def test_columns_that_find_no_place_stand_below_behind_the_first():
    table = Table([Column("epoch", right=True), *(Column(f"figure {i}") for i in range(10))], [["7", *"abcdefghij"]])
    lines = table.text().splitlines()
    assert [line.split()[0] for line in lines] == ["epoch", "7", "epoch", "7"]
    shown = " ".join(lines[1::2]).split()
    assert [entry for entry in shown if entry != "7"] == list("abcdefghij")


def test_html_escapes_what_the_entries_hold():
    assert "<td>a &lt; b</td>" in Table([Column("rule")], [["a < b"]]).html()
    assert '<td class="number">3</td>' in Table([Column("n", right=True)], [["3"]])._repr_html_()


def test_records_have_the_headings_as_keys():
    assert Table([Column("a"), Column("b")], [["1", "2"]]).records() == [{"a": "1", "b": "2"}]


def test_a_table_without_rows_is_its_headings():
    assert str(Table([Column("a"), Column("b")], [])) == "a  b"


def test_sizes_and_durations_are_told_in_fitting_units():
    assert [bytes_text(n) for n in (1023, 1024, 3 * 2**30, 5000 * 2**30)] == ["1023 B", "1.0 KB", "3.0 GB", "5000.0 GB"]
    assert [seconds_text(s) for s in (0.0, 0.0005, 0.5, 1.0)] == ["0 us", "500 us", "500 ms", "1.0 s"]
