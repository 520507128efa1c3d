// Numbers that kernels and plans share: how many threads, loads and bytes each kernel is made for, and what was
// measured to choose them. Plain C++.

#pragma once

#include "device/standard.cuh"

namespace reduce_ops::sum {

inline constexpr int kWarpSize = 32;
inline constexpr int kLoadBytes = 16;  // what one lane loads at once
inline constexpr int kMaxBoxDims = 8;
inline constexpr int kMaxInputs = 6;     // operands of a formula: as many as fit into a kernel's arguments, 4 KB
inline constexpr int kMaxConstants = 8;  // the same

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

/// Whether rows of so many loads a lane may be permuted. Those of two are all there is room for in 32 registers: with
/// Places they have 34, and (4096, 4095) over dimension 1 takes 20.1 us instead of 17.5 (H200).
constexpr bool can_permute(int loads) { return loads > 2; }

/// Where blocks publish sums (slots.cuh): memory of a stream, and how many sums it takes.
inline constexpr int64_t kSlotBytes = int64_t{1} << 19;
constexpr int64_t max_slots(int accumulate_size) { return kSlotBytes / 8 / (accumulate_size / 4); }

/// Memory that a step in between may take: this much, or a hundredth of the input. With the result and what an
/// allocator rounds up it stays under 8 MiB.
inline constexpr int64_t kScratchBytes = int64_t{7} << 20;

/// Blocks of one launch of rows that can publish: thousands where there is much data. With up to 4096, 2^31 + 1 float32
/// made 2049 blocks of twice as many tiles as 2^31 made 4096 of: 1880 us instead of 1863 (H200).
inline constexpr int kMaxBlocks = 16384;
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
inline constexpr int kLargestShifted = 8;

inline constexpr int64_t kMaxGridX = 0x7fffffff;  // blocks of a grid, of CUDA
inline constexpr int kMaxGridY = 65535;           // the same
inline constexpr int kMaxTiles = 1024;            // of a block of rows
inline constexpr int kWarpThreads = 128;          // of sum_warp
inline constexpr int kColumnRows = 16;            // loads of a thread of sum_columns
inline constexpr int kWaveThreads = 512;  // of a block of sum_columns that takes the registers of a multiprocessor
inline constexpr int kSingleWaveThreads = 768;  // the same of single columns
inline constexpr int kFewRows = 8;              // of a thread of sum_few_rows
inline constexpr int kMaxFewRowsParts = 8;      // lanes that a column has there
inline constexpr int kMaxCounterLevels = 17;    // of a thread of sum_columns: 65536 batches
inline constexpr int kCounterBytes = 96 << 10;  // that the counters of a block may take; GPUs have 99 KiB at least
inline constexpr int kMaxSegmentsAPart = 1024;  // that a part of the last block of a column folds
inline constexpr int kTileBytes = 12 * 1024;    // of staged rows, which begin anywhere in the first line of a tile
inline constexpr int kLineBytes = 128;          // of L2
inline constexpr int kSectorBytes = 32;         // of a line, which are read one by one
inline constexpr int kStagedThreads = 128;
inline constexpr int kMaxShortRow = 320;  // elements; 790 random layouts of more are 1.07 times as fast as rows (H200)
inline constexpr int kMaxTinyRow = 8;     // elements
inline constexpr int kNarrowWarps = 16;   // of a block, at most
inline constexpr int kMaxNarrowBatches = 1024;  // of a warp

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
constexpr int segments_at_once(int vector, int accumulate_size) {
  return std::max(1, (vector == 1 ? 8 : 16) * 4 / (vector * accumulate_size));
}

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

/// Times that a lane of sum_tiny_rows loads some rows: twice, if that is a single load and a short store (H200, (2^23,
/// 4) float32 39.2 us instead of 41.4, (2^22, 8) float16 18.5 instead of 19.9; but (2^24, 4) int8, whose sums are 32
/// bytes, 66 for 55).
constexpr int tiny_items(int n, int element_size, int result_size) {
  const NarrowItem item = whole_rows(n, element_size);
  return item.loads == 1 && item.rows * result_size <= 8 ? 2 : 1;
}

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

/// Tiles, of a chunk a warp, that a block of sum_narrow_columns folds at once: 16, or what 32 KiB of shared memory have
/// room for.
constexpr int narrow_tiles(int columns, int accumulate_size) { return columns * accumulate_size <= 128 ? 16 : 8; }

/// Its blockDim.x.
constexpr int narrow_width(int columns) { return columns <= 8 ? 8 : columns <= 16 ? 16 : 32; }

/// The columns that sum_narrow_columns is made for. No more than 32, one for each lane; and those between would crowd
/// the registers where they are no power of two, but for 12, three words of float32. Of 8 bytes 12 do too: (132, 10000,
/// 12) float64 69 us, as columns 41 (H200).
constexpr bool is_narrow(int64_t columns, int element_size) {
  return (columns >= 2 && columns <= 8) || (columns == 12 && element_size < 8) || columns == 16 || columns == 32;
}

inline constexpr int kMinWindow = 32;           // leaves of a node of across.cuh, but of little data
inline constexpr int kMaxTileWindow = 512;      // of tiles
inline constexpr int kMinTiled = 512;           // elements of an output that are worth tiles
inline constexpr int kPart = 16;                // leaves that a thread of a tile folds at once
inline constexpr int kMaxTileBytes = 88 << 10;  // of tiles
inline constexpr int kMinStagedRun = 64;        // bytes side by side that are worth copying by words
static_assert(kMaxTileBytes <= kCounterBytes);
inline constexpr int kTileThreads = 256;  // of a tile, at most
inline constexpr int kWordLoads = 8;      // in flight in a thread of sum_word_tiles
inline constexpr int kLineThreads = 256;  // of sum_lines
inline constexpr int kLineLevels = 4;     // that its windows may have above those of the loads of a lane

/// Loads of one element that a lane of sum_lines has in flight.
constexpr int line_loads(int element_size) { return 128 / std::max(element_size, 4); }

inline constexpr int kBoxThreads = 256;
inline constexpr int kMaxBoxLine = 1024;  // elements
inline constexpr int kChunkBytes = 40;    // that what a warp folds at once takes in shared memory, beside its elements
inline constexpr int kRunBytes = 8;       // the same of a run
inline constexpr int kPlaceBytes = 4;     // and of an element of a line

/// Leaves that a lane of sum_boxes folds at once, at most: as many as there are registers for. Of short sequences it is
/// 8 or 4.
constexpr int most_box_loads(int accumulate_size) { return accumulate_size > 8 ? 8 : 16; }

/// The shortest lines, in one dimension, that a lane of sum_tiles walks down.
inline constexpr int kMinDown = 8;

/// Of so many leaves in shared memory, where a gap of one follows every 16 of them at least.
constexpr int64_t tile_bytes(int64_t leaves, int element_size) { return (leaves + leaves / 16) * element_size; }

/// Of staged lines in shared memory, of which the first begins anywhere in a word: `pitch` has room for that.
constexpr int64_t staged_bytes(int64_t length, int64_t pitch) { return (length * pitch + 15) / 16 * 16; }

/// Bytes of a table of where kPart leaves lie that follow each other: of 16 bits each, in an odd number of words of 16
/// bytes, so that few lanes meet in a bank.
inline constexpr int kPlacesBytes = kPart * 2 + 16;

/// Leaves of the smallest tile for which such a table is worth its making: 635 random layouts in tiles of half as many
/// and more are faster without, of 2 bytes 1.06 times, of 4 1.03, of 8 1.01 (H200).
inline constexpr int64_t kLeastTabulated = 1024;

/// Bytes of such tables for a tile of so many lines, one for each element of a line.
constexpr int64_t places_of_staged(int64_t lines, int64_t length) {
  return length < kPart && lines * length >= kLeastTabulated ? length * kPlacesBytes : 0;
}

}  // namespace reduce_ops::sum
