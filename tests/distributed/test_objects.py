"""Objects between processes; those of several ranks are in test_collectives.py."""

from __future__ import annotations

import pytest

from extempo import distributed as dist
from extempo.errors import ArgumentError


@pytest.mark.usefixtures("alone")
def test_objects_of_one_process_stay_its_own():
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    dist.gather_object("b", objects)
    assert objects == ["b"]
    dist.scatter_object_list(objects, ["c"])
    assert objects == ["c"]
    dist.broadcast_object_list(objects, src=0)
    assert objects == ["c"]


@pytest.mark.usefixtures("alone")
def test_lists_of_another_length_are_refused():
    with pytest.raises(ArgumentError, match="each of 1 ranks, got 2"):
        dist.all_gather_object([1, 2], 3)
    with pytest.raises(ArgumentError, match="got None"):
        dist.gather_object(3)
    with pytest.raises(ArgumentError, match="not both"):
        dist.broadcast_object_list([1], src=0, group_src=0)
