"""The notebooks of docs/ as pages, with the outputs that are kept in them (scripts/make_notebooks.py makes them)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def _text(part: str | list[str]) -> str:
    """Notebooks keep text as a list of lines."""
    return part if isinstance(part, str) else "".join(part)


def _shown(data: dict[str, Any], picture: str) -> tuple[str, str]:
    """The richest form of a result as Markdown, and the SVG that it refers to by that name."""
    if "image/svg+xml" in data:
        return f"![{picture}]({picture})\n", _text(data["image/svg+xml"])
    html = _text(data.get("text/html", ""))
    if html:
        lines = "\n".join(line for line in html.splitlines() if line.strip())  # a blank line would end it
        return f'<div class="output" style="overflow-x: auto">\n{lines}\n</div>\n', ""
    text = _text(data.get("text/plain", ""))
    return (f"```text\n{text}\n```\n" if text and "text/html" not in data else ""), ""


def _cell(cell: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """A cell and its outputs as Markdown, and the pictures in them."""
    source = _text(cell["source"])
    if cell["cell_type"] == "markdown":
        return f"{source}\n", {}
    parts, pictures, printed = [f"```python\n{source}\n```\n"], {}, ""
    for i, output in enumerate(cell["outputs"]):
        if output["output_type"] == "stream":
            printed += _text(output["text"])
            continue
        name = f"{stem}_{cell['id']}_{i}.svg"
        shown, svg = _shown(output["data"], name)
        parts.append(shown)
        if svg:
            pictures[name] = svg.encode()
    if printed:
        parts.insert(1, f"```text\n{printed}```\n")
    return "\n".join(filter(None, parts)), pictures


def pages() -> Iterator[tuple[str, str | bytes]]:
    for path in sorted(DOCS.glob("*.ipynb")):
        parts = []
        for cell in json.loads(path.read_text())["cells"]:
            text, pictures = _cell(cell, path.stem)
            parts.append(text)
            yield from pictures.items()
        parts.insert(1, f"[Download this notebook]({path.name}){{: download }}\n")
        yield f"{path.stem}.md", "\n".join(parts)
