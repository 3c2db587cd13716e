"""The numbers of one convolution: sizes brought to three dimensions, what is read of the source, bands, phases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .conv_tiles import N_AXES, TABLES

Three = tuple[int, int, int]
Array = np.ndarray[Any, Any]
# A tile is used up when it has this many rows to work on, so smaller images share tiles, and bands are no smaller.
_ROWS_WANTED = 96
# Copies that stay in the second-level cache.
_COPY_BYTES = 1 << 18
# What a thread should at least have to do, in multiplications.
_CHUNK_WORK = 1 << 20


def three(sizes: Sequence[int], missing: int) -> Three:
    """One to three sizes as three, the missing ones in front."""
    full = (*(missing,) * (3 - len(sizes)), *sizes)
    return full[0], full[1], full[2]


def pitches(sizes: Three) -> Three:
    """Elements from one to the next along each dimension."""
    return sizes[1] * sizes[2], sizes[2], 1


class Axis(NamedTuple):
    """A convolution along one dimension."""

    kernel: int
    stride: int
    dilation: int
    padding: int
    n_results: int
    is_transposed: bool

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation

    @property
    def first(self) -> int:
        """Where it begins to read."""
        return (self.padding - self.reach) // self.stride if self.is_transposed else -self.padding

    @property
    def source_step(self) -> int:
        """How far it moves from one result of a phase to the next."""
        return 1 if self.is_transposed else self.stride

    @property
    def result_step(self) -> int:
        return self.stride if self.is_transposed else 1

    @property
    def most_results(self) -> int:
        """Results of the longest phase."""
        return -(-self.n_results // self.result_step)

    def extent(self, n: int) -> int:
        """How many elements `n` neighbouring results of every phase see."""
        if not self.is_transposed:
            return (n - 1) * self.stride + self.reach + 1
        full = (self.n_results - 1 + self.padding) // self.stride - self.first + 1
        # Phases begin at one source position or at the next.
        return min(full, full - (self.most_results - n) + 1)

    def phases(self, begin: int) -> list[dict[str, Array]]:
        """Places and results that belong together, and the source positions they see; what is read begins at `begin`.

        A result r at a place p of the same phase sees result_source[r] + place_source[p].
        """
        places, results = np.arange(self.kernel), np.arange(self.n_results)
        if not self.is_transposed:
            return [_phase(places, places * self.dilation, results, results * self.stride - self.padding - begin)]
        out = []
        for rest in range(self.stride):
            seen = places[places * self.dilation % self.stride == rest]
            made = results[(results + self.padding) % self.stride == rest]
            moved = (made + self.padding - rest) // self.stride - begin
            place_source = -((seen * self.dilation - rest) // self.stride)
            out.append(_phase(seen, place_source, made, moved if len(seen) else made * 0))
        return out


def _phase(places: Array, place_source: Array, results: Array, result_source: Array) -> dict[str, Array]:
    return {"places": places, "place_source": place_source, "results": results, "result_source": result_source}


NO_AXIS = Axis(1, 1, 1, 0, 1, False)


class ConvPlan(NamedTuple):
    """How the work is shared out: images in blocks whose rows share tiles, or in bands; blocks or bands in chunks."""

    axes: tuple[Axis, Axis, Axis]
    band_axis: int
    band: int  # results of each phase along that axis
    n_bands: int
    images_per_block: int
    items_per_chunk: int
    n_chunks: int


class ConvSource(NamedTuple):
    """What a convolution reads, as far as it decides how the work is shared out."""

    n_images: int
    sizes: Three
    element_bytes: int  # of one position: all channels of a unit
    lanes: int  # how many groups a copy interleaves; 1 where groups are not columns


def planned(axes: Sequence[Axis], source: ConvSource, work_per_image: int, most_chunks: int) -> ConvPlan:
    """By sizes alone, so that a result does not depend on the number of threads."""
    full = (*[NO_AXIS] * (3 - len(axes)), *axes)
    three_axes = (full[0], full[1], full[2])
    band_axis = 3 - len(axes)
    along = three_axes[band_axis]
    across = math.prod(a.most_results for i, a in enumerate(three_axes) if i != band_axis)
    wanted = max(1, min(most_chunks, source.n_images * work_per_image // _CHUNK_WORK))
    band, per_block = along.most_results, max(1, _ROWS_WANTED // (across * along.most_results))
    if per_block == 1:
        band = _band(three_axes, band_axis, across, source, wanted)
    else:
        image_bytes = source.element_bytes * math.prod(a.extent(a.most_results) for a in three_axes)
        per_block = max(1, min(per_block, _COPY_BYTES // image_bytes, -(-source.n_images // wanted)))
    n_bands = -(-along.most_results // band)
    n_items = -(-source.n_images // per_block) * n_bands
    per_chunk = -(-n_items // wanted)
    return ConvPlan(three_axes, band_axis, band, n_bands, per_block, per_chunk, -(-n_items // per_chunk))


def _band(axes: Sequence[Axis], band_axis: int, across: int, source: ConvSource, wanted: int) -> int:
    """Results in a band, so few that a copy stays in cache and every thread gets some, yet not mostly border."""
    along = axes[band_axis]
    row_bytes = source.element_bytes * math.prod(a.extent(a.most_results) for i, a in enumerate(axes) if i != band_axis)
    span, step = along.extent(1), along.source_step
    cached = (_COPY_BYTES // row_bytes - span) // step + 1
    shared = -(-along.most_results * source.n_images // wanted)
    least = max(-(-_ROWS_WANTED // across), -(-2 * span // step))
    n_bands = -(-along.most_results // max(least, min(cached, shared)))
    return -(-along.most_results // n_bands)  # bands of equal size


class ConvWindow(NamedTuple):
    """What is read at once: from `first` on, `extent` elements, zeros where that is outside of the source."""

    plan: ConvPlan
    first: Three
    extent: Three
    sizes: Three
    lanes: int
    copies: bool  # whether a copy is read: groups are interleaved, or something around the source is seen

    @classmethod
    def of(cls, plan: ConvPlan, source: ConvSource) -> ConvWindow:
        ends = [a.first + a.extent(a.most_results) for a in plan.axes]
        first = tuple(a.first for a in plan.axes)
        inside = min(first) >= 0 and all(end <= s for end, s in zip(ends, source.sizes, strict=True))
        extent = [a.extent(plan.band if i == plan.band_axis else a.most_results) for i, a in enumerate(plan.axes)]
        return cls(plan, three(first, 0), three(extent, 1), source.sizes, source.lanes, source.lanes > 1 or not inside)

    @property
    def begin(self) -> Three:
        """The first position of what is read."""
        return self.first if self.copies else (0, 0, 0)

    @property
    def pitches(self) -> Three:
        depth, row, column = pitches(self.extent if self.copies else self.sizes)
        return depth * self.lanes, row * self.lanes, column * self.lanes

    @property
    def plane(self) -> int:
        """Elements from one channel to the next in what is read."""
        if not self.copies:
            return math.prod(self.sizes)
        n = math.prod(self.extent) * self.lanes
        # Planes a multiple of 1 KiB apart would crowd into a few sets of the first-level cache.
        return n if n % 256 else n + 16

    def numbers(self, channels: int) -> dict[str, int]:
        """What `conv_tiles.COPY` names."""
        band = self.plan.band_axis
        begins = [max(f, 0) for f in self.first]
        ends = [min(s, f + e) for f, e, s in zip(self.first, self.extent, self.sizes, strict=True)]
        lengths = [max(0, end - start) for start, end in zip(begins, ends, strict=True)]
        inner, outer = pitches(self.sizes), self.pitches
        others = [i for i in range(3) if i != band]
        return {
            "source_start": sum(begins[i] * inner[i] for i in others),
            "copy_start": sum((begins[i] - self.first[i]) * outer[i] for i in others),
            "copied_depths": lengths[0],
            "copied_rows": lengths[1],
            "copied_columns": lengths[2],
            "source_depth": inner[0],
            "source_row": inner[1],
            "copy_depth": outer[0],
            "copy_row": outer[1],
            "source_plane": math.prod(self.sizes),
            "copy_plane": self.plane,
            "source_lane": channels * math.prod(self.sizes),
            "band_axis": band,
            "band_first": self.first[band],
            "band_step": self.plan.band * self.plan.axes[band].source_step,
            "band_extent": self.extent[band],
            "band_size": self.sizes[band],
            "band_pitch": inner[band],
            "band_copy_pitch": outer[band],
        }


class Scratch:
    """Offsets of parts of the scratch memory, each aligned to 64 bytes."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, n_bytes: int) -> int:
        at = self.size
        self.size += -(-n_bytes // 64) * 64
        return at


class Tables:
    """Entries of all axes of all phases in one array, and the phases that refer to them."""

    def __init__(self) -> None:
        self._entries: list[Array] = []
        self._n = 0
        self.phases: list[dict[str, int]] = []

    def _put(self, entries: Array) -> tuple[int, int]:
        at = self._n
        self._entries.append(np.asarray(entries, np.int32))
        self._n += len(entries)
        return at, len(entries)

    def add(self, axes: dict[str, list[Array]], **numbers: int) -> None:
        """A phase, by the entries of each table's axes, the slowest first."""
        phase = dict(numbers)
        for table in TABLES:
            # The native code lets the first axis it sees run fastest.
            for axis, entries in enumerate(reversed(axes[table])):
                phase[f"{table}_at{axis}"], phase[f"{table}_n{axis}"] = self._put(entries)
            assert len(axes[table]) == N_AXES
        self.phases.append(phase)

    def entries(self) -> Array:
        return np.concatenate(self._entries)


def add_phases(
    tables: Tables,
    window: ConvWindow,
    channels: int,
    kernel: Three,
    counts: Three,
    weight_channel: int,
    image_pitches: tuple[int, int],
) -> None:
    """The phases of a convolution. `image_pitches`: from one image to the next in what is read and in the result."""
    plan = window.plan
    per_axis = [axis.phases(begin) for axis, begin in zip(plan.axes, window.begin, strict=True)]
    kernel_pitch, result_pitch = pitches(kernel), pitches(counts)
    channel, image = np.arange(channels), np.arange(plan.images_per_block)
    for combined in itertools.product(*per_axis):
        n_results = [len(phase["results"]) for phase in combined]
        if not all(n_results):
            continue

        def along(name: str, pitch: Three, most: int, combined: Any = combined) -> list[Array]:
            """The entries of each axis; of the one that bands are cut from, those of the first band."""
            out = [phase[name] * p for phase, p in zip(combined, pitch, strict=True)]
            out[plan.band_axis] = out[plan.band_axis][:most]
            return out

        all_places, of_band = max(kernel), plan.band
        tables.add(
            {
                "steps": [channel * window.plane, *along("place_source", window.pitches, all_places)],
                "weight_steps": [channel * weight_channel, *along("places", kernel_pitch, all_places)],
                "rows": [image * image_pitches[0], *along("result_source", window.pitches, of_band)],
                "results": [image * image_pitches[1], *along("results", result_pitch, of_band)],
            },
            n_steps=channels * math.prod(len(phase["places"]) for phase in combined),
            n_along=n_results[plan.band_axis],
            n_across=math.prod(n_results) // n_results[plan.band_axis],
        )
