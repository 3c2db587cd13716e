"""How a matrix product is to be computed, decided by its sizes alone: pure arithmetic, in Python, once per signature.

A plan says which variant is used (`gemm_variants`), how the result is cut into tiles, the sum over k into
blocks and the work into chunks for threads. It never looks at values, addresses or the number of threads, so a product
of given sizes and layout has the same bits every time.
"""

from __future__ import annotations

from typing import NamedTuple

from .gemm_few_rows import SWEEP_ROWS
from .gemm_packing import GROUP
from .gemm_tiles import MAX_ROWS, Tiling
from .routine import rounded_up

K_BLOCK_BYTES = 1280  # a row of A in a block of k: a packed sliver and a tile of A together fit a cache of 32 KB
# Rows of A that are packed at once: 150 KB, a part of a second-level cache; also a share of a thread. Wide tiles were
# fastest with about half of it.
ROWS_BLOCK, WIDE_ROWS_BLOCK = 120, 72
COLUMNS_BLOCK = 3072  # columns of B that are packed at once: 3.75 MB
GROUP_BYTES = 16384  # of slivers that all rows go through before the next, where they are read in place
PACKED_GROUP_BYTES = 65536  # the same where they are packed: rows of B are then read in longer runs
MAX_DOT_ROWS = 6  # up to here dot products along k are faster than packing a column-major B
# (rows, columns) from which on packing A and B pays even where B is row-major. Tiles then have 5 or 6 rows.
PACKED_FROM = ((20, 256), (64, 128))
CHUNK_PRODUCTS = 2_000_000  # multiplications that are worth a chunk: about 40 us
CHUNK_READS = 250_000  # the same for products that read every element of B once
MAX_CHUNKS = 16


class GemmPlan(NamedTuple):
    """Sizes and cuts, in the order in which a record holds them."""

    m: int
    n: int
    k: int
    n_tiles: int  # of rows; the first n_taller have one row more than tile_rows
    tile_rows: int
    n_taller: int
    k_block: int
    n_k_blocks: int
    group: int  # slivers that are packed, or multiplied, before going through all rows again
    n_row_blocks: int  # 1: the rows are not cut
    block_tiles: int
    columns_block: int
    n_chunks: int
    chunk_columns: int
    packed: int  # both A and B are packed, whatever their layout
    dots: int  # a column-major B is multiplied by dot products
    given: int  # B comes packed (`gemm.packed`)
    a_scratch: int  # bytes for packed rows of A: of one block of rows, or of all
    b_scratch: int  # bytes for packed columns of B: of one block of columns, or of one group

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory in all."""
        if self.n_row_blocks > 1:
            return self.b_scratch + self.n_row_blocks * self.a_scratch
        return self.a_scratch + self.n_chunks * self.b_scratch

    @property
    def sweeps(self) -> bool:
        """Whether a row-major B is swept over once."""
        return self.m <= SWEEP_ROWS and not self.given


def _ceil(value: int, divisor: int) -> int:
    return -(-value // divisor)


def k_blocks(k: int, t: Tiling) -> tuple[int, int]:
    """How many blocks a sum over k is cut into, and how long they are."""
    n_k_blocks = _ceil(k * t.size, K_BLOCK_BYTES)
    return n_k_blocks, _ceil(k, n_k_blocks)


def plan(m: int, n: int, k: int, t: Tiling, threads: bool = True, given: bool = False) -> GemmPlan:
    """The plan of an (m, k) by (k, n) product, none of them zero. Without `threads` it is one chunk.

    `given`: B comes packed.
    """
    n_slivers = _ceil(n, t.columns)
    n_k_blocks, k_block = k_blocks(k, t)
    packed = given or any(m >= rows and n >= columns for rows, columns in PACKED_FROM)
    most_rows = t.packed_rows if packed else MAX_ROWS
    n_tiles = _ceil(m, most_rows)
    group_bytes = PACKED_GROUP_BYTES if packed else GROUP_BYTES
    group = min(n_slivers, max(1, group_bytes // (k_block * t.sliver_step)))
    rows_block = WIDE_ROWS_BLOCK if t.is_wide else ROWS_BLOCK
    in_blocks = packed and m > rows_block
    block_tiles = _ceil(n_tiles, _ceil(m, rows_block)) if in_blocks else n_tiles
    columns_block = min(n_slivers * t.columns, COLUMNS_BLOCK)
    if in_blocks:
        n_chunks = 1  # threads share the blocks
    else:
        work = m * n * k // CHUNK_PRODUCTS if m > SWEEP_ROWS else n * k // CHUNK_READS
        n_chunks = max(1, min(work, MAX_CHUNKS, n_slivers // 4)) if threads else 1
    chunk_columns = rounded_up(_ceil(n, n_chunks), t.columns * group)
    slack = -most_rows % GROUP * t.size  # packing writes whole groups of lanes
    n_packed_rows = block_tiles * most_rows * (k_block if in_blocks else k)
    return GemmPlan(
        m, n, k, n_tiles, m // n_tiles, m % n_tiles, k_block, n_k_blocks, group,
        _ceil(n_tiles, block_tiles), block_tiles, columns_block,
        _ceil(n, chunk_columns), chunk_columns, int(packed), int(m <= MAX_DOT_ROWS and not given), int(given),
        rounded_up(n_packed_rows * t.size + slack, 64) if packed else 0,
        0 if m <= SWEEP_ROWS or given else (columns_block if in_blocks else group * t.columns) * k_block * t.size,
    )  # fmt: skip
