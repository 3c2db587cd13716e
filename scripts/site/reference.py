"""The reference: every public name, with its signature, text, arguments, example and source.

It asks the library at run time and not the source text, as mkdocstrings would: most elementwise functions, the layers
that only declare their arguments, in-place methods and Tensor's methods are made when the package is imported.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from scripts.site import arguments, contents, public_names, source
from scripts.site.public_names import ROOT, PublicName

import extempo as ex


class Group(NamedTuple):
    title: str
    names: list[PublicName]


class Page(NamedTuple):
    path: str
    title: str
    text: str
    groups: list[Group]
    is_core: bool  # what most readers look for: search puts it first


FIRST_IN_SEARCH = "---\nsearch:\n  boost: 4\n---"

# ---- which names go where


def _chosen(plan: contents.Plan) -> list[Group]:
    names = [n for n in public_names.names_of(plan.namespace) if n.value is not ex.Tensor]
    if not plan.families:
        return [Group("", names)]
    groups = []
    for title, modules in plan.families.items():
        found = [n for n in names if public_names.family(n) in modules.split(" ")]
        groups.append(Group(title, found))
    return [group for group in groups if group.names]


def all_pages() -> list[Page]:
    return [
        Page(f"reference/{p.path}.md", p.title, p.text, _chosen(p), p.namespace in contents.CORE)
        for p in contents.plans()
    ]


def addresses(every: Iterable[Page]) -> dict[str, str]:
    """The page of each public name."""
    return {n.path: page.path for page in every for group in page.groups for n in group.names}


# ---- how one is shown

ALIASES = {
    "Operand": "Tensor | Number",
    "Dims": "int | Sequence[int] | None",
    "Ints": "int | Sequence[int]",
    "Sizes": "int | Sequence[int]",
    "Tensors": "Sequence[Tensor]",
    "Value": "Tensor | float",
    "ParamsT": "Iterable[Tensor] | Iterable[dict]",
    "Betas": "tuple[float, float]",
    "Fn": "Callable",
    "Hook": "Callable",
    "types.dtype": "dtype",
    "Pooled": "tuple[Tensor, Tensor]",
    "Bound": "Tensor | float",
    "Rule": "Callable",
    "AverageOne": "Callable",
    "AverageMany": "Callable",
    "Activation": "str | Callable",
}


def annotation(value: Any) -> str:
    """A type as a reader knows it."""
    if value in (inspect.Parameter.empty, "Any", Any):
        return ""
    text = (
        value if isinstance(value, str) else getattr(value, "__forward_arg__", None) or inspect.formatannotation(value)
    )
    return re.sub(r"(?<![\w.])[A-Za-z_][\w.]*", lambda m: ALIASES.get(m[0], m[0]), text)


def default(p: inspect.Parameter) -> str:
    value = p.default
    named = getattr(value, "__name__", None)
    return f"{named}" if callable(value) and named else repr(value)


def _stars(p: inspect.Parameter) -> str:
    return {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")


def call(name: str, found: inspect.Signature | None, parameters: list[inspect.Parameter], width: int = 76) -> str:
    """The signature as Python would write it, on several lines where it is long."""
    parts, keyword_only = [], False
    for p in (p for p in parameters if not p.name.startswith("_")):
        if p.kind is p.VAR_POSITIONAL:
            keyword_only = True
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        said = f"{_stars(p)}{p.name}"
        kind = annotation(p.annotation)
        said += f": {kind}" if kind else ""
        if p.default is not p.empty:
            said += f" = {default(p)}" if kind else f"={default(p)}"
        parts.append(said)
    end = annotation(found.return_annotation) if found else ""
    end = f" -> {end}" if end not in ("", "None") else ""
    line = f"{name}({', '.join(parts)}){end}"
    return line if len(line) <= width else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def markdown(text: str) -> str:
    """A docstring: prose as it is, examples as code."""
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        start = next((i for i, line in enumerate(lines) if line.lstrip().startswith(">>> ")), len(lines))
        if lines[:start]:
            blocks.append(_prose("\n".join(lines[:start])))
        if lines[start:]:
            blocks.append("```pycon\n" + textwrap.dedent("\n".join(lines[start:])) + "\n```")
    return "\n\n".join(blocks)


def _prose(text: str) -> str:
    if all(line.startswith("    ") for line in text.splitlines()):
        return text  # code or a formula, set apart
    outside = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _escaped(part) for part in outside)


def _escaped(text: str) -> str:
    """Stars, underscores and brackets of formulas as themselves."""
    return re.sub(r"([*_<\[\]])", r"\\\1", text)


def doc(value: Any) -> str:
    return inspect.cleandoc(getattr(value, "__doc__", None) or "")


def _listed(path: str, found: inspect.Signature | None, parameters: list[inspect.Parameter], text: str) -> str:
    lines = []
    others = public_names.other_names(found) if found else {}
    for p in parameters:
        if p.name.startswith("_"):
            continue
        kind = annotation(p.annotation)
        facts = [f"`{kind}`"] if kind else []
        if p.default is not p.empty:
            facts.append(f"default `{default(p)}`")
        shown = f" ({', '.join(facts)})" if facts else ""
        also = [f"`{name}`" for name, meant in others.items() if meant == p.name]
        meaning = arguments.explain(path, p.name, text) + (f" Also called {', '.join(also)}." if also else "")
        lines.append(f"- **`{_stars(p)}{p.name}`**{shown}: {meaning}")
    return "\n".join(lines)


def _source_link(name: str, value: Any, page: str) -> str:
    where = public_names.place(name, value)
    if where is None:
        return ""
    target = source.link(where[0].relative_to(ROOT).as_posix(), where[1])
    return f"[source]({os.path.relpath(target, os.path.dirname(page))}){{ .source }}"


def _body(path: str, found: inspect.Signature | None, parameters: list[inspect.Parameter], text: str) -> list[str]:
    """What a docstring says, in the order of a page: prose, arguments, example."""
    prose, prompt, example = arguments.without_items(text).partition(">>> ")
    return [markdown(prose.rstrip()), _listed(path, found, parameters, text), markdown(prompt + example)]


def entry(n: PublicName, page: str, known: dict[int, str], homes: dict[str, str]) -> str:
    """A name with all there is to say of it, or where that is said already."""
    heading = f"### {n.name.replace('_', chr(92) + '_')} {{ #{n.path} }}"
    if not n.is_callable:
        return f"{heading}\n\n{_constant(n)}\n"
    text = doc(n.value)
    first = known.setdefault(id(n.value), n.path)
    home = importlib.import_module(n.namespace)
    found = public_names.call_of(n.name, n.value, home)
    parameters = public_names.arguments(n.name, n.value, home)
    parts = [heading]
    if found is not None:
        parts.append(f"```{{ .python .no-copy }}\n{call(n.path.removeprefix('extempo.'), found, parameters)}\n```")
    if first != n.path:
        link = f"{os.path.basename(homes[first])}#{first}"
        return "\n\n".join([*parts, markdown(text.split("\n\n")[0]), f"The same as [`{first}`]({link}).", ""])
    parts += [_source_link(n.name, n.value, page), *_body(n.path, found, parameters, text)]
    if inspect.isclass(n.value) and not issubclass(n.value, BaseException):
        parts.append(_methods(n))
    return "\n\n".join(part for part in parts if part) + "\n"


def _constant(n: PublicName) -> str:
    """What a name means that is neither function nor class."""
    if n.name in contents.CONSTANTS:
        return contents.CONSTANTS[n.name]
    if isinstance(n.value, float):
        return f"The number `{n.value!r}`."
    if isinstance(n.value, ex.dtype):
        if repr(n.value) != n.path:
            return f"The same as [`{n.value!r}`](types.md#{n.value!r})."
        sign = "signed" if n.value.is_signed else "unsigned"
        kind = "floating" if n.value.is_floating_point else "bool" if n.name == "bool" else f"{sign} integers"
        return f"Element type: {kind}, {8 * n.value.itemsize} bits."
    return f"`{n.value!r}`. {_prose(doc(type(n.value)).split(chr(10) * 2)[0])}"


def _methods(n: PublicName) -> str:
    lines = []
    for name, value in public_names.methods(n.value).items():
        lines.append(_method(n, name, value))
    return "\n".join(lines)


def _method(n: PublicName, name: str, value: Any) -> str:
    """One method: its call, its text, and what its arguments mean."""
    plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    text = public_names.text_of_method(n.value, name)
    if isinstance(plain, property):
        return f"#### {n.name}.{name.replace('_', chr(92) + '_')} {{ #{n.path}.{name} }}\n\n{markdown(text)}\n"
    parameters = public_names.arguments(name, plain, n.value)
    if not isinstance(value, classmethod | staticmethod) and parameters and n.value is ex.Tensor:
        parameters = parameters[1:] if parameters[0].name in ("input", "self") else parameters
    found = public_names.call_of(name, plain, n.value)
    shown = call(f"{n.name}.{name}", found, parameters)
    heading = f"#### {n.name}.{name.replace('_', chr(92) + '_')} {{ #{n.path}.{name} }}"
    code = f"```{{ .python .no-copy }}\n{shown}\n```"
    return "\n\n".join([heading, code, *_body(f"{n.path}.{name}", found, parameters, text), ""])


# ---- the tensor


def tensor_page(homes: dict[str, str]) -> str:
    """Tensor: its own methods in full, those that are functions too with a link to the function."""
    n = PublicName("extempo", "Tensor", ex.Tensor)
    found = public_names.methods(ex.Tensor)
    own, rows = [], []
    for name, value in found.items():
        plain = name[:-1] if name.endswith("_") and hasattr(ex.Tensor, name[:-1]) else name
        path = f"extempo.{plain}"
        if getattr(ex, plain, None) is getattr(ex.Tensor, plain) and path in homes:
            rows.append(_row(name, plain, value, f"{os.path.basename(homes[path])}#{path}"))
        elif plain != name:
            rows.append(_row(name, plain, value, f"#extempo.Tensor.{plain}"))
        else:
            own.append(f"#{_method(n, name, value)}".removeprefix("#").replace("#### Tensor.", "### ", 1))
    text = doc(ex.Tensor)
    parameters = public_names.arguments("Tensor", ex.Tensor, ex)
    head = [
        FIRST_IN_SEARCH,
        "# Tensor { #extempo.Tensor }",
        f"```{{ .python .no-copy }}\n{call('Tensor', public_names.signature(ex.Tensor), parameters)}\n```",
        markdown(text),
        _listed("extempo.Tensor", None, parameters, text),
        "Operators (`+`, `@`, `<`, `x[i]`, `x[i] = y`, `in`, `len(x)`) mean what they mean for PyTorch's tensors.",
        "## Methods and attributes",
        *own,
        "## Methods that are functions too",
        "`x.f(...)` is `ex.f(x, ...)`; a name that ends in `_` writes the result into `x` and returns `x`.",
        "| method | what it gives |\n|---|---|\n" + "\n".join(rows),
    ]
    return "\n\n".join(head) + "\n"


def _row(name: str, plain: str, value: Any, link: str) -> str:
    text = doc(value).split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    parameters = public_names.arguments(name, value, ex.Tensor)[1:]
    shown = ", ".join(f"{_stars(p)}{p.name}" for p in parameters)
    said = f"Writes the result of [`{plain}`]({link}) into the tensor." if name != plain else _prose(text)
    return f'| <a id="extempo.Tensor.{name}"></a>[`{name}`]({link})`({shown})` | {said} |'


def pages() -> Iterator[tuple[str, str]]:
    every = all_pages()
    homes = {**addresses(every), "extempo.Tensor": "reference/tensor.md"}
    known: dict[int, str] = {}
    yield "reference/index.md", index(every)
    yield "reference/tensor.md", tensor_page(homes)
    for page in every:
        parts = [FIRST_IN_SEARCH if page.is_core else "", f"# {page.title}", page.text]
        for group in page.groups:
            parts.append(f"## {group.title}" if group.title else "")
            parts += [entry(n, page.path, known, homes) for n in group.names]
        yield page.path, "\n\n".join(parts).lstrip()


def index(every: list[Page]) -> str:
    lines = [
        "# API reference",
        "Names mean what PyTorch's names of the same spelling mean. Examples assume `import extempo as ex`,"
        " `from extempo import nn` and `from extempo.nn import functional as F`; all of them are run as tests.",
        "- [Tensor](tensor.md): the tensor, its attributes and methods",
    ]
    for page in every:
        names = [n for group in page.groups for n in group.names]
        links = ", ".join(f"[{n.name}]({os.path.basename(page.path)}#{n.path})" for n in names)
        lines.append(f"**[{page.title}]({os.path.basename(page.path)})** {links.replace('_', chr(92) + '_')}")
    lines.append("**Without a page:** " + "; ".join(f"`{m}` {why}" for m, why in public_names.LEFT_OUT.items()) + ".")
    return "\n\n".join(lines) + "\n"
