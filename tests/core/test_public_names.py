"""Public classes report the package that they are public in."""

from __future__ import annotations

from collections import OrderedDict

import extempo as ex
from extempo.core.public_names import publish, show_as


def test_classes_of_extempo_get_the_public_package_and_others_stay():
    inside = type("Inside", (), {"__module__": "extempo.core.somewhere"})
    outside = type("Outside", (), {"__module__": "numpy"})
    values = {"Inside": inside, "Outside": outside, "OrderedDict": OrderedDict, "number": 3, "fn": publish}
    publish("extempo.public", ["Inside", "Outside", "OrderedDict", "number", "fn", "not there"], values)
    assert inside.__module__ == "extempo.public"
    assert outside.__module__ == "numpy"
    assert OrderedDict.__module__ == "collections"
    assert publish.__module__ == "extempo.core.public_names"


def test_a_class_that_is_not_listed_stays_where_it_is():
    hidden = type("Hidden", (), {"__module__": "extempo.core.somewhere"})
    publish("extempo", [], {"Hidden": hidden})
    assert hidden.__module__ == "extempo.core.somewhere"


def test_what_is_public_already_is_published_no_further():
    tensor = type("Top", (), {"__module__": "extempo"})
    publish("extempo.inner", ["Top"], {"Top": tensor})
    assert tensor.__module__ == "extempo"


def test_dtypes_print_the_name_that_is_shown():
    try:
        show_as("torch")
        assert (repr(ex.float32), repr(ex.Size([2])), ex.zeros(1).type()) == (
            "torch.float32", "torch.Size([2])", "torch.FloatTensor",
        )  # fmt: skip
    finally:
        show_as("extempo")
    assert repr(ex.float32) == "extempo.float32"
