"""Curves as SVG and as text."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from extempo.inspect.curves import curve, sparkline, tick_labels


def parts(picture, tag):
    return [part for part in ElementTree.fromstring(picture.svg()) if part.tag.endswith(tag)]


def test_points_are_inside_of_the_picture_and_higher_values_are_above():
    picture = curve({"loss": [2.0, 1.0, 4.0]}, "Loss")
    places = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in parts(picture, "circle")]
    assert all(0 < x < picture.width and 0 < y < picture.height for x, y in places)
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert places[2][1] < places[0][1] < places[1][1]


def test_what_is_not_finite_is_left_out():
    picture = curve({"loss": [1.0, math.nan, math.inf, 0.5]})
    titles = [circle[0].text for circle in parts(picture, "circle")]
    assert titles == ["loss, epoch 1: 1", "loss, epoch 4: 0.5"]
    assert "nothing to show" in curve({"loss": [math.nan]}).svg()
    assert "nothing to show" in curve({}).svg()


def test_one_point_and_equal_values_have_axes():
    for values in ([3.0], [3.0, 3.0], [0.0]):
        assert parts(curve({"loss": values}), "line")


def test_names_stand_in_as_many_rows_as_they_need():
    few, many = curve({"a": [1.0], "b": [2.0]}), curve({f"a long name {i}": [float(i)] for i in range(12)})
    assert many.height > few.height
    assert "a long name 11" in many.svg()
    assert len(parts(curve({"alone": [1.0, 2.0]}), "rect")) == 1  # the paper; one line needs no legend


def test_labels_of_an_axis_can_be_told_apart():
    assert tick_labels([0.1, 0.2]) == ["0.1", "0.2"]
    assert len(set(tick_labels([1.00001, 1.00002, 1.00003]))) == 3


@pytest.mark.parametrize(
    ("values", "line"), [([], ""), ([1.0], "▁"), ([1.0, 0.5, 0.0], "█▅▁"), ([0.0, math.nan, 1.0], "▁x█")]
)
def test_a_curve_in_one_line_of_text(values, line):
    assert sparkline(values) == line


def test_a_long_curve_is_as_wide_as_it_may_be():
    assert len(sparkline([float(i) for i in range(1_000)], width=40)) == 40
