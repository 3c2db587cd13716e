"""The page "Every name of PyTorch" says of a name what Extempo does when it is asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def page() -> Any:
    """The module that makes the page."""
    sys.path.insert(0, str(ROOT))
    try:
        return importlib.import_module("scripts.site.torch_names")
    finally:
        sys.path.remove(str(ROOT))


@pytest.fixture(scope="module")
def answers(page):
    return page.answers()


def test_names_are_read_by_the_place_that_they_are_in(page):
    assert page.torch_names("# written\n\ntorch:\nabs add\nzeros\n\ntorch.nn:\nLinear\n") == {
        "torch": ["abs", "add", "zeros"],
        "torch.nn": ["Linear"],
    }


def test_every_name_has_an_answer(page, answers):
    names = page.torch_names(page.NAMES.read_text())
    assert {place: list(found) for place, found in answers.items()} == names
    assert {answer.state for found in answers.values() for answer in found.values()} <= set(page.STATES)


def test_what_is_there_is_the_same(answers):
    assert answers["torch"]["matmul"].state == "same"
    assert answers["torch.Tensor"]["softmax"].state == "same"
    assert answers["torch.nn"]["LSTM"].state == "same"


def test_a_difference_that_a_guide_states_is_shown(answers):
    state, note = answers["torch"]["compile"]
    assert (state, "the Python runs at every call" in note) == ("differs", True)


def test_what_is_random_gives_other_numbers_and_windows_of_that_name_do_not(answers):
    assert "other random numbers" in answers["torch.Tensor"]["exponential_"].note
    assert answers["torch.signal.windows"]["exponential"].state == "same"


def test_no_name_of_pytorch_is_missing_without_a_word(answers):
    missing = [
        f"{place}.{name}" for place, found in answers.items() for name in found if found[name].state == "missing"
    ]
    assert missing == []


def test_what_pytorch_does_not_have_is_missing(page):
    asked = page.ask({"torch": ["no_such_", "ceil_", "kl_div"], "torch.xpu": ["no_such"]})
    assert asked["torch"]["no_such_"] == asked["torch.xpu"]["no_such"] == ("missing", "")
    assert asked["torch"]["ceil_"] == asked["torch"]["kl_div"] == ("same", "")


def test_what_is_refused_says_what_to_do_in_the_words_of_the_library(answers):
    state, note = answers["torch"]["sparse_coo_tensor"]
    assert (state, "use a dense tensor" in note) == ("refused", True)
    assert answers["torch.fft"]["rfft"].state == "refused"


def test_every_difference_and_refusal_has_a_note(answers):
    for place, found in answers.items():
        for name, answer in found.items():
            assert answer.note or answer.state in ("same", "missing"), f"{place}.{name}"


def test_what_was_compared_with_pytorch_says_so(answers):
    for place, name in [("torch", "matmul"), ("torch.Tensor", "abs"), ("torch.nn", "LSTM"), ("torch.optim", "Adam")]:
        assert "agrees" in answers[place][name].note
    assert answers["torch.utils.data"]["DataLoader"] == ("same", "")


def test_a_name_that_nobody_knows_is_missing(page):
    assert page.ask({"torch": ["no_such_name"]}) == {"torch": {"no_such_name": ("missing", "")}}


def test_the_page_has_a_row_for_each_name_and_a_filter(page, answers):
    text = page.page(answers)
    assert text.count("<tr>") == sum(map(len, answers.values()))
    assert '<input type="search"' in text
    assert "http" not in text  # it works without a network


@pytest.mark.conformance
def test_the_list_of_names_is_that_of_the_pytorch_that_is_compared_with():
    pytest.importorskip("torch", reason="lists PyTorch's names: pip install -e '.[conformance]'")
    command = [sys.executable, ROOT / "scripts" / "make_torch_names.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
