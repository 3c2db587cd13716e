"""Make the pictures of docs/debugging.md by running the page: `python -m scripts.make_debugging_pictures`."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PICTURES = DOCS / "pictures" / "debugging"


def main() -> None:
    """Paste all blocks of Python into one file, run it, and keep the pictures that it leaves."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / "debugging.md").read_text(), re.S | re.M)
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder).resolve() / "train.py"
        script.write_text("\n".join(blocks))
        subprocess.run([sys.executable, script.name], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        for picture in script.parent.glob("*.svg"):
            (PICTURES / picture.name).write_text(picture.read_text().replace(str(script), script.name))


if __name__ == "__main__":
    main()
