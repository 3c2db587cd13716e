"""The flame graph."""

from __future__ import annotations

from xml.etree import ElementTree

from extempo.profiling.call_tree import call_trees
from extempo.profiling.flame import WIDTH, folded, frames_of, svg_of

from .trees import KERNEL, MODULE, OP, made

CALLS = [(10_000, 50_000, MODULE), (20_000, 40_000, OP), (25_000, 35_000, KERNEL)]


def test_boxes_are_as_wide_as_calls_took_time():
    (tree,) = call_trees(made(CALLS, end=100_000), [])
    root = ElementTree.fromstring(svg_of(tree, "a <title>"))
    boxes = [box for box in root.iter("{http://www.w3.org/2000/svg}g") if box.get("class") == "b"]
    widths = {box.get("data-n"): float(box.get("data-w")) for box in boxes}
    assert widths["all"] == WIDTH
    assert widths["add"] == WIDTH * 0.1  # the kernel, which has the name of the op that it is in


def test_no_box_is_wider_than_the_one_around_it():
    (tree,) = call_trees(made(CALLS, end=100_000), [])

    def check(frame):
        assert sum(child.time for child in frame.children.values()) <= frame.time + 1
        for child in frame.children.values():
            check(child)

    check(frames_of(tree))


def test_stacks_have_their_own_microseconds():
    (tree,) = call_trees(made(CALLS, end=100_000), [])
    assert sum(int(line.rpartition(" ")[2]) for line in folded(tree)) in range(95, 106)
