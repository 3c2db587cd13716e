"""The picture model: numbers, groups, what is inside of what."""

from extempo.inspect.drawing.model import ROOT, Diagram, Group, Item


def small():
    diagram = Diagram("t")
    group = diagram.add(Group("g", "module", "G"), ROOT)
    a = diagram.add(Item("exp"), group)
    b = diagram.add(Item("sin", inputs=[a]), group)
    c = diagram.add(Item("leaf", "input", "x"), ROOT)
    return diagram, group, a, b, c


def test_elements_have_the_numbers_of_their_places():
    diagram, group, a, b, c = small()
    assert [e.number for e in diagram.elements] == list(range(5))
    assert diagram.root.members == [group, c]
    assert diagram.ancestors(b) == [ROOT, group]
    assert [item.op for item in diagram.inside(group)] == ["exp", "sin"]
    assert [item.number for item in diagram.ops()] == [a, b]


def test_members_move_into_a_group_of_their_own():
    diagram, group, a, b, _ = small()
    loop = diagram.move_into(Group("l", "loop"), [a, b], 1)
    assert diagram.group(group).members == [loop]
    assert diagram.group(loop).turns == 2
    assert diagram.group(loop).title == "l x 2"
    assert diagram.elements[a].parent == loop
