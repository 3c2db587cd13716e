"""Run the examples and keep what they print and a picture of what they have learned, for the gallery of the site.

docs/gallery/<example>.txt is what it prints, <example>.svg the picture (drawn by gallery_pictures.py), made_from.json
has a digest of the code that each was made from.

python scripts/make_gallery.py                  all examples, in about a minute
python scripts/make_gallery.py tree_lstm vae    these
python scripts/make_gallery.py --check          exit with 1 if an example is not the one that its output is of
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import sys
from pathlib import Path

import gallery_pictures

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "docs" / "gallery"
MADE_FROM = GALLERY / "made_from.json"
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}


def digest(name: str) -> str:
    return hashlib.sha256(EXAMPLES[name].read_bytes()).hexdigest()[:16]


def run(name: str) -> tuple[str, str]:
    """What an example prints, and its picture."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES[name])
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    kept = gallery_pictures.watch(example, name)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        example.main()
    return printed.getvalue(), f"{gallery_pictures.draw(example, name, kept).svg()}\n"


def stale() -> list[str]:
    """The examples that have changed since they were run, or were not run at all."""
    made_from = json.loads(MADE_FROM.read_text()) if MADE_FROM.exists() else {}
    whole = [name for name in EXAMPLES if all((GALLERY / f"{name}.{end}").exists() for end in ("txt", "svg"))]
    return [name for name in EXAMPLES if name not in whole or made_from.get(name) != digest(name)]


def main() -> int:
    if "--check" in sys.argv:
        names = stale()
        print(f"not current: {', '.join(names)}; run python scripts/make_gallery.py" if names else "up to date")
        return 1 if names else 0
    GALLERY.mkdir(exist_ok=True)
    made_from = json.loads(MADE_FROM.read_text()) if MADE_FROM.exists() else {}
    for name in sys.argv[1:] or EXAMPLES:
        print(name)
        printed, picture = run(name)
        (GALLERY / f"{name}.txt").write_text(printed)
        (GALLERY / f"{name}.svg").write_text(picture)
        made_from[name] = digest(name)
    in_order = {name: made_from[name] for name in EXAMPLES if name in made_from}
    MADE_FROM.write_text(json.dumps(in_order, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
