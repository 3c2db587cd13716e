"""What every argument of every public callable means, one sentence each: the files in `sentences/` have them.

A section of a file is a list of callables (with `*`, without the package where that is clear) and the arguments that
it explains; where several sections know an argument of a callable, the last one wins. An `Args:` section in a docstring
comes before all of them.
"""

from __future__ import annotations

import functools
import re
import tomllib
from fnmatch import translate
from pathlib import Path
from typing import NamedTuple

SENTENCES = Path(__file__).parent / "sentences"
FILES = ["ops", "running", "nn", "optim", "data", "distributed", "distributions", "tools"]  # in this order


class Unexplained(LookupError):
    """No sentence says what an argument means."""


class Section(NamedTuple):
    names: str
    pattern: re.Pattern[str]
    sentences: dict[str, str]

    def matches(self, path: str) -> bool:
        # What is done in place has the arguments of what is not; what a layer is called with stands with its settings.
        plain = path.removesuffix("_").removesuffix(".forward")
        return bool(self.pattern.match(path) or self.pattern.match(plain))


@functools.cache
def sections() -> list[Section]:
    """All sections; those that win come first."""
    read = [tomllib.loads((SENTENCES / f"{name}.toml").read_text()) for name in FILES]
    in_order = [Section(names, _matcher(names), said) for file in read for names, said in file.items()]
    return in_order[::-1]


def _matcher(names: str) -> re.Pattern[str]:
    return re.compile("|".join(translate(each) for name in names.split() for each in (name, f"*.{name}")))


def _section(path: str, argument: str) -> Section:
    for section in sections():
        if argument in section.sentences and section.matches(path):
            return section
    raise Unexplained(f"{path}: nothing says what `{argument}` means; add a sentence to scripts/site/sentences")


def explain(path: str, argument: str, docstring: str) -> str:
    """What an argument of the callable at that path means."""
    said = in_docstring(docstring).get(argument)
    return said[0].upper() + said[1:] if said else _section(path, argument).sentences[argument]


# ---- docstrings that explain arguments themselves

# Lines such as `name: what it means`, or `name, other: ...`, up to the next one or a blank line; below `Args:` or not.
_NAMES = r"[a-z_]\w*(?:, [a-z_]\w*)*: "
_ITEM = re.compile(rf"^ {{0,4}}({_NAMES}.+(?:\n(?! {{0,4}}{_NAMES}) *\S.*)*)\n?", re.M)
_NEXT = re.compile(rf"(?:^|(?<=\. )|(?<=\), ))({_NAMES})")  # another may follow in the same line
_HEADING = re.compile(r"^Args:\n", re.M)


def in_docstring(text: str) -> dict[str, str]:
    """What a docstring says of arguments, by name."""
    said: dict[str, str] = {}
    for item in _ITEM.finditer(_before_example(text)):
        parts = _NEXT.split(" ".join(item[1].split()))[1:]
        for names, sentence in zip(parts[::2], parts[1::2], strict=True):
            said.update(dict.fromkeys(names[:-2].split(", "), sentence.strip(" ,")))
    return said


def without_items(text: str) -> str:
    """The docstring without what `in_docstring` takes from it."""
    prose = _before_example(text)
    return _ITEM.sub("", _HEADING.sub("", prose)) + text[len(prose) :]


def _before_example(text: str) -> str:
    return text.partition(">>> ")[0]
