// The plan of a sum on a GPU: from dtypes, sizes and strides to one kernel family and its parameters. Nothing of it
// shows in the result. Plain C++, without device state: what it chooses can be tested without a GPU.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/tuning.cuh"
#include "gpu.h"
#include "sum/strides.h"

namespace reduce_ops::sum {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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
  bool ordered;         // the order shows in the kernels: of all but sums of integers, which wrap
  bool result_aligned;  // the result begins at a multiple of 16 bytes
};

/// Whether sums are added in complex128, of which few fit into registers and shared memory: no families for short rows,
/// few rows or narrow columns, no pitched layout.
inline bool is_wide(const Problem& p) { return p.accumulate_size > 8; }

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
  staged_tiles,    // tiles.cuh: along other short lines, of which some hundred bytes lie side by side
  tiles,           // tiles.cuh: along other short lines
  boxes,           // boxes.cuh: what other families would read in pieces of sectors
};

/// Those whose order runs across memory, which are the last ones.
constexpr bool is_across(Family family) { return family >= Family::lines; }

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

  bool operator==(const Box&) const = default;
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
                   // line that a thread takes, whole windows; word_tiles, staged_tiles, tiles: lines of a tile
  int chunk = 0;   // columns, few_rows: neighbours that are taken together (column_order.h), or 0: all
  bool anywhere = false;  // columns, few_rows: the neighbours of a thread begin anywhere
  int segments = 0;       // blocks an output, or a block's width of outputs
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

  bool operator==(const Plan&) const = default;
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
inline int64_t nodes_of(const Problem& p, int64_t window) { return ceil_div(p.n, window); }

/// Whether the nodes of such windows take no more memory than a step in between may, and are fewer than 2^31, for there
/// are fewer blocks. Elements that several indices share, as in an expanded tensor, count once.
bool have_room(const Problem& p, int64_t window);

/// Nodes that a tile of words has room for in shared memory; if it is an output of `lines` lines, for
/// whole windows of them, and for the nodes of these, up to 32.
constexpr int64_t word_tile_nodes(const Plan& plan, int64_t lines, int64_t length) {
  if (plan.window > 0) return plan.tiles * length / plan.loads;
  return (lines * length / plan.loads + kMaxTileWindow - 1) / kMaxTileWindow * kMaxTileWindow + 32;
}

/// Whether the sums are of one element each, and these lie in another order than the sums do, which PyTorch's own
/// copies are better at: (3325, 1538, 13, 1) over dimension 3, held reversed, 477 us, by columns 4400 (H200).
inline bool is_copy(const Problem& p) { return p.n == 1 && !is_run(p.kept); }

/// Where the order runs across memory, and elements that follow each other, a power of two of them, are better summed
/// as columns, each such row to a node of the tree, and the nodes of an output in a second sum: the elements of a row.
/// 0 where they are not.
int64_t row_across_memory(const Problem& problem);

/// Plans the kernel of a sum with outputs > 0 and n > 0, or none for more elements than one launch covers.
std::optional<Plan> make_plan(const Problem& problem, const Gpu& gpu);

/// All plans that are known to be legal: make_plan's, if there is one, then others, of every family that takes the
/// problem and, of rows in several blocks, with other numbers of tiles.
std::vector<Plan> candidates(const Problem& problem, const Gpu& gpu);

}  // namespace reduce_ops::sum
