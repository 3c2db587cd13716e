"""The numbers of a convolution: axes, phases, bands, and what is read of the source."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import conv_geometry, convolution, pooling  # noqa: F401 - pooling registers routines
from extempo.backends.llvm.routines.conv_geometry import Axis, ConvSource, ConvWindow, Scratch, pitches, three

from .convolutions import anything, check_all


@pytest.mark.parametrize("seed", range(40))
def test_images_cut_into_bands_have_no_seams(seed, monkeypatch):
    monkeypatch.setattr(conv_geometry, "_CHUNK_WORK", 500)
    monkeypatch.setattr(conv_geometry, "_COPY_BYTES", 3000)
    monkeypatch.setattr(conv_geometry, "_ROWS_WANTED", 5)
    planned, seen = conv_geometry.planned, []
    monkeypatch.setattr(convolution, "planned", lambda *args: seen.append(planned(*args)) or seen[-1])
    rng = np.random.default_rng(1000 + seed)
    for _ in range(3):
        x_shape, w_shape, options = anything(rng)
        check_all(x_shape, w_shape, bool(seed % 2), np.float32, **options)
    check_all((2, 3, 40, 30), (4, 3, 3, 3), True, np.float32, padding=1, stride=(1, 2))
    assert any(plan.n_bands > 1 and plan.n_chunks > 1 for plan in seen)


AXES = [
    Axis(kernel, stride, dilation, padding, n, transposed)
    for kernel in (1, 3)
    for stride in (1, 2, 3)
    for dilation in (1, 2)
    for padding in (-1, 0, 2)
    for n in (1, 5)
    for transposed in (False, True)
]


@pytest.mark.parametrize("axis", AXES)
def test_phases_cover_every_result_once_and_see_what_a_convolution_sees(axis):
    results = []
    for phase in axis.phases(axis.first):
        results += phase["results"].tolist()
        for r, source in zip(phase["results"], phase["result_source"], strict=True):
            for place, moved in zip(phase["places"], phase["place_source"], strict=True):
                seen = int(source + moved) + axis.first
                if (
                    axis.is_transposed
                ):  # result r gets source s by place p where r = s * stride + p * dilation - padding
                    assert seen * axis.stride + place * axis.dilation - axis.padding == r
                else:
                    assert seen == r * axis.stride + place * axis.dilation - axis.padding
    assert sorted(results) == list(range(axis.n_results))


@pytest.mark.parametrize("axis", AXES)
def test_an_axis_reads_no_further_than_it_says(axis):
    seen = [
        int(source + moved)
        for phase in axis.phases(axis.first)
        for source in phase["result_source"]
        for moved in phase["place_source"]
    ]
    assert min(seen, default=0) >= 0
    assert max(seen, default=0) < axis.extent(axis.most_results)


@pytest.mark.parametrize("n_images", [1, 3, 64])
@pytest.mark.parametrize("size", [1, 9, 200])
def test_work_is_shared_out_without_remainder(n_images, size):
    axes = [Axis(3, 1, 1, 1, size, False)] * 2
    source = ConvSource(n_images, (1, size, size), 16, 1)
    plan = conv_geometry.planned(axes, source, size * size * 1000, 32)
    n_items = -(-n_images // plan.images_per_block) * plan.n_bands
    assert plan.band * plan.n_bands >= size > plan.band * (plan.n_bands - 1)
    assert plan.n_chunks * plan.items_per_chunk >= n_items > (plan.n_chunks - 1) * plan.items_per_chunk
    assert plan.n_bands == 1 or plan.images_per_block == 1


def test_a_copy_is_read_only_where_something_around_the_source_is_seen():
    source = ConvSource(1, (1, 9, 9), 4, 1)
    for padding, copies in ((0, False), (1, True), (-1, False)):
        axes = [Axis(3, 1, 1, padding, 7 + 2 * padding, False)] * 2
        window = ConvWindow.of(conv_geometry.planned(axes, source, 100, 1), source)
        assert window.copies is copies
        assert window.pitches[1] == (window.extent[2] if copies else 9)


def test_sizes_become_three_and_scratch_memory_is_aligned():
    assert three([5], 1) == (1, 1, 5)
    assert pitches((2, 3, 4)) == (12, 4, 1)
    scratch = Scratch()
    assert [scratch.take(n) for n in (1, 64, 65, 0, 8)] == [0, 64, 128, 256, 256]
    assert scratch.size == 320
