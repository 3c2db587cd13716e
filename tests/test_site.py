"""The documentation site: every public name has a page that explains it, and links lead somewhere; without MkDocs."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import extempo as ex

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def _scripts_can_be_imported() -> Iterator[None]:
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))


@pytest.fixture(scope="module")
def reference_pages() -> dict[str, str]:
    from scripts.site import reference

    return dict(reference.pages())


def every_argument() -> Iterator[tuple[str, str, str]]:
    """Of all public functions, classes and their methods: where it is called, an argument, the docstring."""
    from scripts.site import public_names

    for found in public_names.everything():
        if not found.is_callable:
            continue
        home = importlib.import_module(found.namespace)
        for p in public_names.arguments(found.name, found.value, home):
            yield found.path, p.name, inspect.cleandoc(found.value.__doc__ or "")
        if inspect.isclass(found.value) and not issubclass(found.value, BaseException):
            for name, method in public_names.methods(found.value).items():
                plain = getattr(method, "__func__", method)
                if callable(plain):
                    for p in public_names.arguments(name, plain, found.value):
                        yield f"{found.path}.{name}", p.name, inspect.cleandoc(plain.__doc__ or "")


# ---- the reference


def test_every_public_name_has_a_page():
    from scripts.site import public_names, reference

    homes = {**reference.addresses(reference.all_pages()), "extempo.Tensor": "reference/tensor.md"}
    missing = [n.path for n in public_names.everything() if n.path not in homes]
    assert missing == [], "modules that contents.py gives no place on a page"


def test_every_argument_of_every_public_callable_is_explained():
    from scripts.site import arguments

    missing = []
    for path, argument, docstring in every_argument():
        try:
            assert arguments.explain(path, argument, docstring)
        except arguments.Unexplained as error:
            if not argument.startswith("_"):
                missing.append(str(error))
    assert not missing, "\n".join(missing)


def test_every_sentence_is_about_an_argument_that_there_is_and_is_hidden_by_no_other():
    from scripts.site import arguments

    used = set()
    for path, argument, _ in every_argument():
        matching = [s.names for s in arguments.sections() if argument in s.sentences and s.matches(path)]
        used.update((names, argument) for names in matching[:1])
    written = {(section.names, argument) for section in arguments.sections() for argument in section.sentences}
    assert written - used == set()


def test_methods_that_ask_for_more_than_their_class_above_are_shown():
    from scripts.site import public_names

    assert "forward" in public_names.methods(ex.nn.MultiheadAttention)
    assert "forward" not in public_names.methods(ex.nn.Linear)
    assert "step" in public_names.methods(ex.optim.lr_scheduler.ReduceLROnPlateau)
    assert "step" not in public_names.methods(ex.optim.lr_scheduler.StepLR)


def test_pages_of_the_reference_show_call_arguments_and_example(reference_pages):
    page = reference_pages["reference/nn.md"]
    entry = page[page.index("### Linear {") : page.index("### PairwiseDistance {")]
    assert "nn.Linear(\n    in_features: int,\n    out_features: int,\n    bias: bool = True,\n" in entry
    assert "- **`bias`** (`bool`, default `True`): Whether the layer adds a learnable bias." in entry
    assert ">>> nn.Linear(5, 2)(ex.zeros(3, 5)).shape" in entry
    assert re.search(r"\[source\]\(\.\./source/src/extempo/nn/linear_layers\.py\.html#L-\d+\)", entry)


def test_every_method_says_what_it_does():
    from scripts.site import public_names

    classes = [n for n in public_names.everything() if inspect.isclass(n.value)]
    shown = [(n, name) for n in classes for name in public_names.methods(n.value)]
    assert [f"{n.path}.{name}" for n, name in shown if not public_names.text_of_method(n.value, name)] == []
    assert public_names.text_of_method(ex.RaggedTensor, "dtype") == public_names.text_of_method(ex.Tensor, "dtype")
    assert public_names.text_of_method(ex.nn.MSELoss, "forward") == "What it is called with."


def test_names_that_are_no_functions_say_what_they_are(reference_pages):
    page = reference_pages["reference/types.md"]
    assert "Element type: floating, 32 bits." in page
    assert "The same as [`extempo.int64`](types.md#extempo.int64)." in page
    assert "Element type: bool, 8 bits." in page


def test_every_method_of_tensor_is_on_its_page(reference_pages):
    from scripts.site import public_names

    page = reference_pages["reference/tensor.md"]
    for name in public_names.methods(ex.Tensor):
        assert f'"extempo.Tensor.{name}"' in page or f"#extempo.Tensor.{name} }}" in page, name


def test_methods_in_place_show_the_arguments_of_their_function():
    from scripts.site import public_names

    assert [p.name for p in public_names.arguments("add_", ex.Tensor.add_, ex.Tensor)] == ["input", "other", "alpha"]


def test_options_of_factories_are_shown_one_by_one():
    from scripts.site import public_names

    names = [p.name for p in public_names.arguments("ones", ex.ones, ex)]
    assert {"shape", "dtype", "device", "requires_grad"} <= set(names)
    assert "options" not in names


def test_second_names_of_an_argument_are_told_with_it():
    from scripts.site import public_names

    class StandsFor(str):
        __repr__ = str.__str__

    dim_itself = StandsFor("dim")

    def total(input, dim=None, *, axis=dim_itself, mode="dim"): ...

    assert public_names.other_names(inspect.signature(total)) == {"axis": "dim"}
    assert [p.name for p in public_names.arguments("total", total, ex)] == ["input", "dim", "mode"]


def test_a_docstring_that_explains_an_argument_wins():
    from scripts.site import arguments

    items = "Args:\n    x, y: where\n        it is.\n    dim: which one. keepdim: or not.\n"
    text = f"Does it.\n\n{items}\nMore: or less.\n\n>>> a: b"
    said = {"x": "where it is.", "y": "where it is.", "dim": "which one.", "keepdim": "or not."}
    assert arguments.in_docstring(text) == said
    assert arguments.explain("extempo.sum", "dim", text) == "Which one."
    assert " ".join(arguments.without_items(text).split()) == "Does it. More: or less. >>> a: b"


# ---- other pages and links


def test_links_of_repository_files_become_links_of_the_site():
    from scripts.site.repository import relink

    assert (
        relink("[a](docs/ragged.md#top) [b](LICENSE)", ".", "index.md") == "[a](ragged.md#top) [b](source/LICENSE.html)"
    )
    assert relink("[c](../CHANGELOG.md)", "docs", "training.md") == "[c](changelog.md)"
    assert relink("layers[0](x), [d](#here)", "docs", "training.md") == "layers[0](x), [d](#here)"


def test_the_source_view_has_an_anchor_for_each_line():
    from scripts.site import source

    assert source.link("src/extempo/random.py", 3) == "source/src/extempo/random.py.html#L-3"
    n_lines = len((ROOT / "src/extempo/random.py").read_text().splitlines())
    assert f'id="L-{n_lines}"' in source.view("src/extempo/random.py")


def test_the_check_of_links_finds_what_leads_nowhere(tmp_path):
    from scripts.site.check_links import problems

    assert problems(tmp_path) == [f"{tmp_path} has no pages"]
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#x">b</a> <a href="#top">up</a>')
    (tmp_path / "b.html").write_text('<p id="x"><a href="https://example.org">far</a><link rel="canonical" href="c">')
    assert problems(tmp_path) == ["b.html: <link> c: leads to no file"]
    (tmp_path / "b.html").write_text('<img src="https://example.org/x.png"><a href="a.html#bottom">')
    assert [line.rsplit(": ", 1)[1] for line in problems(tmp_path)] == [
        "leads to no such place on the page",
        "is loaded from another host",
        "leads to no such place on the page",
    ]
