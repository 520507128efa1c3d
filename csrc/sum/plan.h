// The plan of a sum on a GPU: from dtypes, sizes and strides to one kernel family and its parameters. Nothing of it
// shows in the result. Plain C++, without device state: what it chooses can be tested without a GPU.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>

#include "sum/strides.h"

namespace reduce_ops::sum {

/// Which kernels there are for a pair of dtypes.
enum class Kernels {
  every,  // the common dtypes: every family
  rows,   // other dtypes: rows of every layout but pitched, columns, across memory all families, of one byte lines
  few,  // elements that are converted to another dtype, uint16 and uint32, which torch.sum does not take on a GPU, and
        // sums of 16-bit floats that are rounded last: aligned and strided rows in a few shapes, single columns, and
        // across memory, where the last have no order, lines
};

/// What is summed: for each of the `outputs` indices of the kept dimensions, n elements.
struct Problem {
  int64_t outputs;
  int64_t n;
  Strides kept;
  Strides reduced;  // of integers, in the order of memory
  Strides columns;  // the kept dimensions as neighbouring threads take them: the smallest stride innermost
  Strides places;   // from an index of those to that of the output
  Strides rows;     // the columns merged
  int element_size;
  int accumulate_size;
  int misalignment;     // bytes from the last multiple of 16 to the first element
  bool ordered;         // the order of addition shows in the sums; not in those of integers, which wrap
  bool result_aligned;  // the result begins at a multiple of 16 bytes
  Kernels kernels;
};

/// Whether the outputs begin one distance apart in memory, if not in their own order.
inline bool has_one_pitch(const Problem& p) { return p.kept.dims == 1 || (p.rows.dims == 1 && p.places.small); }

enum class Family {
  rows,            // rows.cuh: a block or more an output
  tiny_rows,       // short_rows.cuh: 2 to 8 elements, some outputs a lane
  small_rows,      // short_rows.cuh: some lanes an output
  staged_rows,     // short_rows.cuh: tiles of many outputs in shared memory
  columns,         // columns.cuh: outputs side by side
  few_rows,        // columns.cuh, for up to 64 rows, or 8 if not one stride apart, or of permuted outputs
  narrow_columns,  // narrow_columns.cuh: 2 to 32 outputs side by side, in memory without a gap
  lines,           // across.cuh: the order runs across memory, along lines of many elements
  word_tiles,      // word_tiles.cuh: the same along short lines, which lie side by side in words of 16 bytes
  odd_word_tiles,  // odd_word_tiles.cuh: the same of lines of odd lengths
  staged_tiles,    // tiles.cuh: along other short lines, of which some hundred bytes lie side by side
  tiles,           // tiles.cuh: along other short lines
  boxes,           // boxes.cuh: what other families would read in pieces of sectors
};

/// Those whose order runs across memory, which are the last ones.
constexpr bool is_across(Family family) { return family >= Family::lines; }

/// Whether there are kernels for such an order other than those along lines.
constexpr bool have_tiles(Kernels kernels, int element_size) { return kernels != Kernels::few && element_size > 1; }

/// How the elements of an output lie, for Family::rows.
enum class Layout {
  aligned,  // in one run that starts at a multiple of 16 bytes, as does that of every output
  shifted,  // in one run that starts elsewhere
  runs,     // in runs of a multiple of 16 bytes that all start at a multiple of 16 bytes, one distance apart
  split,    // in runs of 32 bytes or more that start anywhere, in up to five dimensions
  pitched,  // in two dimensions at any strides
  strided,  // anything else
};

/// When the blocks of a launch let the next one start (early_start.cuh), whose blocks then wait wherever there is room.
enum class LetNext {
  at_end,
  when_loaded,  // each when it has loaded all
  at_start,
};

constexpr int kMaxBoxDims = 8;

/// What a block of Family::boxes copies: of each dimension, those of Problem::reduced and then of `kept`, a range of
/// indices.
struct Box {
  int order[kMaxBoxDims] = {};  // of the dimensions, the smallest stride first
  int range[kMaxBoxDims] = {};
  int pitch[kMaxBoxDims] = {};    // bytes in shared memory from index to index
  bool in_run[kMaxBoxDims] = {};  // copied with those within, in one run
  int halo = 0;                   // lines that are copied behind the range of them
  int run = 0;                    // bytes of a run, at most
  int runs = 0;                   // at most
  int bytes = 0;                  // of all of them in shared memory, a multiple of 16
  int sequences = 0;              // of neighbouring lines of an output, at most
  int chunks = 0;                 // that warps fold at once, of a sequence, at most
  int shared = 0;                 // bytes of shared memory
};

/// One launch. What the numbers mean depends on the family; 0 where they mean nothing.
struct Plan {
  Family family;
  Layout layout = Layout::strided;  // of rows
  int threads = 0;                  // of a block; columns: blockDim.x * blockDim.y
  int width = 0;   // rows: of an output that shares a block, or 0; columns: blockDim.x; few_rows: lanes side by side;
                   // small_rows, staged_rows: lanes a row; tiny_rows: n; narrow_columns: columns; staged_tiles:
                   // words of a run
  int vector = 0;  // columns: neighbours a thread
  int loads = 0;   // in flight in a thread; rows: of 16 bytes (strided: of one element); columns: rows; lines, boxes:
                   // elements; word_tiles: rows of words that are a node
  int tiles = 0;   // that many such loads a thread, a power of two; staged_rows: rows of a tile; lines: elements of a
                   // line that a thread takes, whole windows; (odd_)word_tiles, staged_tiles, tiles: lines of a tile
  int chunk = 0;   // columns, few_rows: neighbours that are taken together (column_order.h), or 0: all
  bool anywhere = false;  // columns, few_rows: the neighbours of a thread begin anywhere
  int segments = 0;       // blocks an output, or a block's width of outputs; 0: more than any plan covers
  int prefetching = 0;  // the first so many blocks have L2 load what they read first before they wait (early_start.cuh)
  LetNext let_next = LetNext::at_end;  // columns, narrow_columns, and rows of several blocks an output or several tiles
  // Order across memory:
  int line = 0;      // the dimension of Problem::reduced from line to line
  int window = 0;    // leaves of a node, a power of two; a second launch sums the nodes of each output. 0 of tiles of
                     // words that are an output each: there is none
  int pitch = 0;     // staged_tiles: bytes from element to element of a line in shared memory
  int turn_gap = 0;  // staged_tiles: bytes that lie there where the dimension `line` turns
  int gap = 0;       // tiles: leaf x lies at x + (x >> gap) in shared memory
  Box box{};         // boxes
};

/// Where the lines of all outputs begin, from dimension `first` of `reduced` on: those of the first output, of the
/// second one and so on. Returns false if more than kMaxDims dimensions are left.
inline bool lines_of_all(const Problem& p, int first, Strides& lines) {
  Merger merger(lines);
  if (!merger.add(p.reduced, first) || !merger.add(p.kept)) return false;
  merger.finish();
  return true;
}

/// Nodes of an output, if they have so many leaves.
inline int64_t nodes_of(const Problem& p, int64_t window) { return (p.n + window - 1) / window; }

/// Whether the nodes of such windows take no more memory than a step in between may, and are fewer than 2^31, for there
/// are fewer blocks. Elements that several indices share, as in an expanded tensor, count once.
bool have_room(const Problem& p, int64_t window);

/// Whether rows of so many loads a lane may be permuted. Those of two are all there is room for in 32 registers: with
/// Places they have 34, and (4096, 4095) over dimension 1 takes 20.1 us instead of 17.5 (H200).
constexpr bool can_permute(int loads) { return loads > 2; }

/// Where blocks publish sums (slots.cuh): memory of a stream, and how many sums it takes.
constexpr int64_t kSlotBytes = int64_t{1} << 19;
constexpr int64_t max_slots(int accumulate_size) { return kSlotBytes / 8 / (accumulate_size / 4); }

/// Memory that a step in between may take: this much, or a hundredth of the input. With the result and what an
/// allocator rounds up it stays under 8 MiB.
constexpr int64_t kScratchBytes = int64_t{7} << 20;

/// Blocks of one launch of rows that can publish: thousands where there is much data. With up to 4096, 2^31 + 1 float32
/// made 2049 blocks of twice as many tiles as 2^31 made 4096 of: 1880 us instead of 1863 (H200).
constexpr int kMaxBlocks = 16384;
static_assert(kMaxBlocks <= max_slots(16));

/// Whether a load is of a single element.
constexpr bool is_single(Layout layout) { return layout == Layout::pitched || layout == Layout::strided; }

/// Whether elements are loaded one by one, alone or a group at once.
constexpr bool is_by_element(Layout layout) { return is_single(layout) || layout == Layout::split; }

/// Loads that a lane has in flight where there are many blocks: 8 (H200, 1 GiB of float64: 237.6 us, with 4 240.0), or
/// 16 of single elements, but no more than the registers have room for: 4 of groups whose elements are loaded one by
/// one.
constexpr int grid_loads(Layout layout, int accumulate_size) {
  if (layout == Layout::split) return 4;
  if (accumulate_size > 8 || (accumulate_size > 4 && layout == Layout::strided)) return 4;
  return is_single(layout) && accumulate_size <= 4 ? 16 : 8;
}

/// Whether a shifted run of one output is summed by kernels that know how many parts of 4 bytes it skips. Of integers,
/// which are not ordered, nothing is handed on.
constexpr bool knows_shift(int element_size, int accumulate_size, bool ordered) {
  if (!ordered) return false;
  return element_size == accumulate_size ? element_size >= 4 : element_size == 2 && accumulate_size == 4;
}

/// The same of little data. Of 2 bytes a lane has more to hand on than loads can hide, whichever way: off by one, by
/// sum_grid, 2^17 float16 2.02 us with 8 loads, 1.79 with 4 and any shift (H200).
constexpr bool knows_shift_of_little(int element_size, int accumulate_size, bool ordered) {
  return ordered && element_size == accumulate_size && element_size >= 4;
}

/// Whether elements are floats of one byte, whose conversion is work beside loads and additions.
constexpr bool are_float8(int element_size, bool ordered) { return ordered && element_size == 1; }

/// grid_loads() of small blocks: 4 where a chunk is more than loads and additions, of a shifted run unless its shift is
/// known (H200, by sum_grid, float32 in a row: 2^15 1.70 us, with 8 1.79; 2^16 1.73 and 1.79; 2^18 2.00 and 1.96), or
/// of float8 (2^18 1.66 and 1.76). Of integers nothing is handed on: 2^20 int8, off by one, 1.93 us, with 4 1.99.
constexpr int small_grid_loads(Layout layout, int element_size, int accumulate_size, bool ordered, bool one_output) {
  const bool hands_on = layout == Layout::shifted && ordered &&
                        !(one_output && knows_shift_of_little(element_size, accumulate_size, ordered));
  return hands_on || are_float8(element_size, ordered) ? 4 : grid_loads(layout, accumulate_size);
}

/// Blocks of so many threads that an output has in sum_small_grid at most: what the lanes of the last one collect with
/// one load each; of one output, in blocks of 128 threads, what those of a warp do.
constexpr int most_small_blocks(int threads, bool one_output) { return one_output && threads < 256 ? 32 : threads; }

/// Single elements that a lane has in flight where a block takes all of an output at once: no block comes after it.
constexpr int most_block_loads(int accumulate_size) { return 2 * grid_loads(Layout::pitched, accumulate_size); }

/// Threads of a block where there are many.
constexpr int grid_threads(Layout layout) { return is_by_element(layout) ? 256 : 512; }

/// Bytes of an element of a shifted run: larger ones lie at multiples of 16.
constexpr int kLargestShifted = 8;

constexpr int64_t kMaxGridX = 0x7fffffff;  // blocks of a grid, of CUDA
constexpr int kMaxGridY = 65535;           // the same
constexpr int kMaxTiles = 1024;            // of a block of rows
constexpr int kWarpThreads = 128;          // of sum_warp
constexpr int kColumnRows = 16;            // loads of a thread of sum_columns
constexpr int kFewKernelsRows = 8;         // the same where there are few kernels
constexpr int kWaveThreads = 512;          // of a block of sum_columns that takes the registers of a multiprocessor
constexpr int kSingleWaveThreads = 768;    // the same of single columns
constexpr int kFewRows = 8;                // of a thread of sum_few_rows
constexpr int kMaxFewRowsParts = 8;        // lanes that a column has there
constexpr int kMaxCounterLevels = 17;      // of a thread of sum_columns: 65536 batches
constexpr int kCounterBytes = 96 << 10;    // that the counters of a block may take; GPUs have 99 KiB at least
constexpr int kMaxSegmentsAPart = 1024;    // that a part of the last block of a column folds
constexpr int kTileBytes = 12 * 1024;      // of staged rows, which begin anywhere in the first line of a tile
constexpr int kLineBytes = 128;            // of L2
constexpr int kSectorBytes = 32;           // of a line, which are read one by one
constexpr int kStagedThreads = 128;
constexpr int kMaxShortRow = 320;        // elements; 790 random layouts of more are 1.07 times as fast as rows (H200)
constexpr int kMaxTinyRow = 8;           // elements
constexpr int kNarrowWarps = 16;         // of a block, at most
constexpr int kMaxNarrowBatches = 1024;  // of a warp

/// Neighbouring columns that a thread takes: 16 bytes, but of one byte each only 4, or their sums crowd the registers
/// (H200, (16, 2048, 4096) over dimension 1: float16 63.5 us with 8 columns, 65.6 with 4; int8 65 with 4, 82 with 8).
constexpr int column_vector(int element_size) { return element_size >= 2 ? 16 / element_size : 4; }

/// Rows that a thread of sum_columns has in flight at most: of single columns twice as many, while its registers have
/// room for them.
constexpr int most_column_rows(int vector, int element_size) {
  return vector == 1 && element_size <= 4 ? 2 * kColumnRows : kColumnRows;
}

/// The same where rows are not one stride apart.
constexpr int strides_rows(int vector, int element_size) { return vector == 1 && element_size <= 4 ? kColumnRows : 8; }

/// The same of neighbours that begin anywhere, in rows of so many dimensions. Of two bytes 16 are no faster than 8, but
/// slower where there is little data.
constexpr int anywhere_rows(int element_size, int dims) { return element_size == 2 || dims > 1 ? 8 : kColumnRows; }

/// Segments whose sums a thread of the last block has in flight: as many as its registers have room for.
template <int kVector, int kAccumulateSize>
constexpr int kSegmentsAtOnce = std::max(1, (kVector == 1 ? 8 : 16) * 4 / (kVector * kAccumulateSize));

/// What a lane of sum_narrow_columns loads: items of whole rows, or, where lanes share a row, a word of it.
struct NarrowItem {
  int loads;  // of 16 bytes
  int rows;
  int items;  // in flight
  int lanes;  // that share a row
};

/// Whole rows of so many elements.
constexpr NarrowItem whole_rows(int columns, int element_size) {
  const int per_load = 16 / element_size;
  const int loads = columns / std::gcd(columns, per_load);
  return {loads, loads * per_load / columns, loads == 1 ? 8 : loads <= 3 ? 4 : loads <= 5 ? 2 : 1, 1};
}

/// Blocks of kNarrowWarps of sum_narrow_columns that a multiprocessor has room for, as the compiler is told: two where
/// 64 registers are enough. Left alone it takes 80 for float64, and the second block goes: 14.4 us instead of 11.3 for
/// (100, 10000, 4); 66 for four columns of float32 (H200).
constexpr int narrow_blocks(int columns, int element_size) {
  return element_size < 4 || columns % 6 == 0 || (columns == 3 && element_size == 4) ? 1 : 2;
}

template <int kColumns, int kElementSize>
constexpr NarrowItem kWholeRows = whole_rows(kColumns, kElementSize);

constexpr NarrowItem narrow_item(int columns, int element_size) {
  const int words = columns * element_size / 16;
  if (words * 16 != columns * element_size || !std::has_single_bit(static_cast<unsigned>(words))) {
    return whole_rows(columns, element_size);
  }
  return {1, 1, 8, words};
}

/// Which kernels can prefetch, those that gain by it: of columns a word of 16 bytes, but not of 2 bytes each ((16384,
/// 4096) float16 over dimension 0 44 us instead of 43), of narrow ones those whose lanes load a word at a time (H200).
constexpr bool columns_prefetch(int vector, int element_size) {
  return vector * element_size == 16 && element_size >= 4;
}
constexpr bool narrow_columns_prefetch(int columns, int element_size) {
  return narrow_item(columns, element_size).loads == 1;
}

template <int kVector, int kElementSize>
constexpr bool kColumnsPrefetch = columns_prefetch(kVector, kElementSize);

template <int kColumns, int kElementSize>
constexpr bool kNarrowColumnsPrefetch = narrow_columns_prefetch(kColumns, kElementSize);

/// The columns that sum_narrow_columns is made for. No more than 32, one for each lane; and those between would crowd
/// the registers where they are no power of two, but for 12, three words of float32. Of 8 bytes 12 do too: (132, 10000,
/// 12) float64 69 us, as columns 41 (H200).
constexpr bool is_narrow(int64_t columns, int element_size) {
  return (columns >= 2 && columns <= 8) || (columns == 12 && element_size < 8) || columns == 16 || columns == 32;
}

constexpr int kMinWindow = 32;           // leaves of a node of across.cuh, but of little data
constexpr int kMaxTileWindow = 512;      // of tiles
constexpr int kMinTiled = 512;           // elements of an output that are worth tiles
constexpr int kPart = 16;                // leaves that a thread of a tile folds at once
constexpr int kMaxTileBytes = 88 << 10;  // of tiles
constexpr int kMinStagedRun = 64;        // bytes side by side that are worth copying by words
static_assert(kMaxTileBytes <= kCounterBytes);
constexpr int kTileThreads = 256;   // of a tile, at most
constexpr int kWordLoads = 8;       // in flight in a thread of sum_word_tiles and sum_odd_word_tiles
constexpr int kOddWordElement = 2;  // bytes of the elements that sum_odd_word_tiles is for
constexpr int kLineThreads = 256;   // of sum_lines
constexpr int kLineLevels = 4;      // that its windows may have above those of the loads of a lane

/// Nodes of so many leaves that a tile of words has room for in shared memory; if it is an output of `lines` lines, for
/// whole windows of them, and for the nodes of these, up to 32.
constexpr int64_t word_tile_nodes(const Plan& plan, int64_t lines, int64_t length, int leaves) {
  if (plan.window > 0) return plan.tiles * length / leaves;
  return (lines * length / leaves + kMaxTileWindow - 1) / kMaxTileWindow * kMaxTileWindow + 32;
}

/// Parts of nodes that a thread of sum_odd_word_tiles may have begun.
constexpr int parts_begun(int columns) { return columns / 2 * (std::bit_width(static_cast<unsigned>(columns)) - 1); }

/// Loads of one element that a lane of sum_lines has in flight.
constexpr int line_loads(int element_size) { return 128 / std::max(element_size, 4); }

template <int kElementSize>
constexpr int kLineLoads = line_loads(kElementSize);

constexpr int kBoxThreads = 256;
constexpr int kMaxBoxLine = 1024;  // elements
constexpr int kChunkBytes = 40;    // that what a warp folds at once takes in shared memory, beside its elements
constexpr int kRunBytes = 8;       // the same of a run
constexpr int kPlaceBytes = 4;     // and of an element of a line

/// Leaves that a lane of sum_boxes folds at once, at most: as many as there are registers for. Of short sequences it is
/// 8 or 4.
constexpr int most_box_loads(int accumulate_size) { return accumulate_size > 8 ? 8 : 16; }

template <int kAccumulateSize>
constexpr int kBoxLoads = most_box_loads(kAccumulateSize);

/// The shortest lines, in one dimension, that a lane of sum_tiles walks down.
constexpr int kMinDown = 8;

/// Of so many leaves in shared memory, where a gap of one follows every 16 of them at least.
constexpr int64_t tile_bytes(int64_t leaves, int element_size) { return (leaves + leaves / 16) * element_size; }

/// Of staged lines in shared memory, of which the first begins anywhere in a word: `pitch` has room for that.
constexpr int64_t staged_bytes(int64_t length, int64_t pitch) { return (length * pitch + 15) / 16 * 16; }

/// Bytes of a table of where kPart leaves lie that follow each other: of 16 bits each, in an odd number of words of 16
/// bytes, so that few lanes meet in a bank.
constexpr int kPlacesBytes = kPart * 2 + 16;

/// Leaves of the smallest tile for which such a table is worth its making: 635 random layouts in tiles of half as many
/// and more are faster without, of 2 bytes 1.06 times, of 4 1.03, of 8 1.01 (H200).
constexpr int64_t kLeastTabulated = 1024;

/// Bytes of such tables for a tile of so many lines, one for each element of a line.
constexpr int64_t places_of_staged(int64_t lines, int64_t length) {
  return length < kPart && lines * length >= kLeastTabulated ? length * kPlacesBytes : 0;
}

/// Whether the sums are of one element each, and these lie in another order than the sums do, which PyTorch's own
/// copies are better at: (3325, 1538, 13, 1) over dimension 3, held reversed, 477 us, by columns 4400 (H200).
inline bool is_copy(const Problem& p) { return p.n == 1 && !is_run(p.kept); }

/// Where the order runs across memory, and elements that follow each other, a power of two of them, are better summed
/// as columns, each such row to a node of the tree, and the nodes of an output in a second sum: the elements of a row.
/// 0 where they are not.
int64_t row_across_memory(const Problem& problem);

/// Plans the kernel of a sum with outputs > 0 and n > 0. multiprocessors: of the GPU.
Plan make_plan(const Problem& problem, int multiprocessors);

}  // namespace reduce_ops::sum
