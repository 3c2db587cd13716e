"""`extempo cache`: the compiled kernels kept on disk, looked at or removed; plain values, then text or JSON."""

import json
from dataclasses import asdict, dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from extempo.backends.llvm.ir.disk import DiskCache, default
from extempo.cli.showing import two_columns
from extempo.core.wording import counted


@dataclass(frozen=True)
class Contents:
    """The cache as it lies on disk."""

    directory: str | None
    unused_because: str  # empty if it is in use
    entries: int
    bytes: int
    limit_bytes: int
    history: dict[str, int]  # of the processes that have ended since the last clear


@dataclass(frozen=True)
class Removal:
    """What `clear` has removed, and what it could not."""

    directory: str | None
    unused_because: str
    entries: int
    bytes: int
    entries_left: int

    @property
    def failed(self) -> bool:
        """Whether something is there that should have gone."""
        return self.entries_left > 0


def collect(cache: DiskCache | None = None) -> Contents:
    """Look at the cache, by default the one that programs of this user use; nothing on disk changes."""
    cache = cache or default()
    stats = cache.stats()
    return Contents(
        directory=_path(cache),
        unused_because=cache.why_unused(),
        entries=stats["entries"],
        bytes=stats["bytes"],
        limit_bytes=stats["limit_bytes"],
        history=cache.history(),
    )


def clear(cache: DiskCache | None = None) -> Removal:
    """Remove every kernel. Programs that run at the same time keep what they have loaded."""
    cache = cache or default()
    removed = cache.clear()
    return Removal(
        directory=_path(cache),
        unused_because=cache.why_unused(),
        entries=removed["entries"],
        bytes=removed["bytes"],
        entries_left=cache.stats()["entries"],
    )


def _path(cache: DiskCache) -> str | None:
    return None if cache.directory is None else str(cache.directory)


def as_table(contents: Contents) -> RenderableType:
    """The contents in two columns."""
    table = two_columns(overflow="fold")  # a path is to be copied whole
    table.add_row("directory", Text(contents.directory or "none"))
    table.add_row("in use", Text(f"no: {contents.unused_because}" if contents.unused_because else "yes"))
    table.add_row("kernels", str(contents.entries))
    table.add_row("size", f"{_megabytes(contents.bytes)} of at most {_megabytes(contents.limit_bytes)}")
    for name, count in contents.history.items():
        table.add_row(name, str(count))
    return Group(table, Text("\nCounts are of programs that have ended since the last clear."))


def removal_as_text(removal: Removal) -> RenderableType:
    """One sentence on what went, and one on what did not."""
    if removal.directory is None:
        return Text(f"There is no cache to clear: {removal.unused_because}.")
    removed = f"{counted(removal.entries, 'kernel')} ({_megabytes(removal.bytes)})"
    lines = [Text(f"Removed {removed} from {removal.directory}.")]
    if removal.failed:
        reason = f": {removal.unused_because}" if removal.unused_because else ""
        lines.append(Text(f"Could not remove {counted(removal.entries_left, 'kernel')}{reason}."))
    return Group(*lines)


def as_json(value: Contents | Removal) -> str:
    """The value as one JSON object."""
    return json.dumps(asdict(value), indent=2)


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:.1f} MB"
