"""Execute the notebooks in docs/ and keep their outputs in them.

Text that a cell prints or shows is the same at every run but for times, sizes of processes, last digits, and cells that
have the tag `timings`; so a notebook whose text would be another one now is stale.

python scripts/make_notebooks.py            execute and write
python scripts/make_notebooks.py --check    execute, and exit with 1 if one is stale
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

DOCS = Path(__file__).resolve().parents[1] / "docs"
_VARIES = re.compile(r"\b[\d.,]+ ?(?:us|ms|s|kB|KB|MB|GB|steps/s|it/s)\b")


def executed(path: Path) -> Any:
    """A notebook with the outputs of a run, and nothing in it that says when."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False).execute()
    tidy(notebook)
    notebook.metadata = {key: notebook.metadata[key] for key in ("kernelspec", "language_info")}
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def tidy(notebook: Any) -> None:
    """Outputs with each picture once, and without addresses of objects."""
    for output in (output for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output):
        output.metadata = {}
        if "image/svg+xml" in output.data:
            output.data.pop("text/html", None)
        output.data["text/plain"] = re.sub(r" at 0x[0-9a-f]+", "", output.data.get("text/plain", ""))


def texts(notebook: Any) -> dict[str, str]:
    """What each cell prints and shows, as text, without what varies from run to run."""
    found = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and "timings" not in cell.metadata.get("tags", []):
            parts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
            text = re.sub(r"(\.\d\d)\d+", r"\1", _VARIES.sub("?", "".join(parts)))
            found[cell.id] = " ".join(text.split())
    return found


def stale_cells(kept: Any, now: Any) -> list[str]:
    """The cells whose text is another one now."""
    before, after = texts(kept), texts(now)
    return [cell for cell in after if before.get(cell) != after[cell]]


def main() -> int:
    status = 0
    for path in sorted(DOCS.glob("*.ipynb")):
        now = executed(path)
        if "--check" not in sys.argv:
            nbformat.write(now, path)
            continue
        stale = stale_cells(nbformat.read(path, as_version=4), now)
        if stale:
            status = 1
            print(f"{path.name} is out of date in {', '.join(stale)}: run python scripts/make_notebooks.py")
    return status


if __name__ == "__main__":
    sys.exit(main())
