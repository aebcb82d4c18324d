// Runs a Legate point's part of a pass over two fused tasks (passes.py), whose block begins with the header of
// kernels/llvm/pipeline.py.
//
// The point's rows lie in Legate's memory, those that it reads beside them in cells of other points.  The first and
// the last iterations, which read both, run on copies of the rows that they read.  All others run in place between
// them, and then the copies' results go into place.
//
// After its scratch the message of a pass has, in words, the numbers of first and of last iterations that read other
// points' rows, and for each store of which these are rows: the places of the tile, of the cells of all points and of
// the point's next cell (-1 if the pass only reads the store), bytes of a row, the number of words of the block with the
// store's addresses, and these words.
// A cell has a point's first and last rows, which others read, then the rows before the first point and those after
// the last one, which only these two points have.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "message.h"

namespace {

// The words of the header, in the order of pipeline.FIELDS.
enum Field : Word {
  BEGIN, POINTS, FIRST, SECOND, WORDS_FIRST, WORDS_SECOND, AT_FIRST, AT_SECOND, CHUNK, REACH, LOW, HIGH, ROWS_FIRST,
  TILE, ROWS_SECOND, SCRATCH, SCRATCH_BYTES, BELOW, ABOVE, BORDER, BORDER_BYTES, ARGUMENTS_FIRST, ARGUMENTS_SECOND,
  SPACES_FIRST, SPACES_SECOND, EXTENTS_FIRST, EXTENTS_SECOND, TABLE_FIRST, TABLE_SECOND, RINGS, TABLE_RINGS, LEAST
};
constexpr Word ENTRY = 6, RING = 1;    // words of an argument's entry; the kind of those that lie in the scratch

// The rows beside the tiles of points: how many, and where those of each point begin in a cell.
struct Sides {
  Word before{}, after{};
  Word first() const { return 0; }
  Word last() const { return after; }
  Word lowest() const { return after + before; }
  Word highest() const { return after + 2 * before; }
};

// Copy rows [low, high) of a store's part to memory where they lie `pitch` bytes apart, or from there.
void rows(const Place& place, Word low, Word high, char* memory, Word pitch, Word bytes, bool out)
{
  for (Word row = low; row < high; ++row, memory += pitch) {
    char* here = place.pointer + (row - place.low[0]) * place.stride[0];
    std::memcpy(out ? here : memory, out ? memory : here, bytes);
  }
}

// Are the elements of each row side by side?
bool by_rows(const Place& place) { return place.dims == 1 || place.stride[1] == place.item; }

// One store of which points read rows of each other.
struct Edge {
  Place *tile{}, *cells{}, *next{};    // no next cell: the pass only reads the store
  Word pitch{};                        // bytes of a row in cells
  const Word* words{};                 // of the block, with addresses of the store
  Word number{};
  char* sides[2]{};                    // copies of the first and last rows, with those of others beside them

  // The cell of a point.
  char* cell(Word point) const { return cells->pointer + point * cells->stride[0]; }

  // Rows of the copy at the beginning (side 0) or the end of the tile: the first one's number in the store.
  Word begin(const Sides& of, Word side) const
  {
    return side ? tile->high[0] - of.after - of.before : tile->low[0] - of.before;
  }

  // Copy the first and the last rows with those beside them.
  void copy(const Sides& of, Word point, Word points)
  {
    const Word wide = tile->stride[0], each = of.before + of.after;
    const char* low = point ? cell(point - 1) + of.last() * pitch : cell(point) + of.lowest() * pitch;
    const char* high = cell(point + 1 < points ? point + 1 : point);
    high += (point + 1 < points ? of.first() : of.highest()) * pitch;
    for (Word k = 0; k < of.before; ++k) std::memcpy(sides[0] + k * wide, low + k * pitch, pitch);
    rows(*tile, tile->low[0], tile->low[0] + each, sides[0] + of.before * wide, wide, pitch, false);
    rows(*tile, tile->high[0] - each, tile->high[0], sides[1], wide, pitch, false);
    for (Word k = 0; k < of.after; ++k) std::memcpy(sides[1] + (each + k) * wide, high + k * pitch, pitch);
  }

  // Copy the results of the first and the last rows into place, and what others will read to the next cell.
  void put(const Sides& of, Word point)
  {
    if (!next) return;
    const Word wide = tile->stride[0], low = tile->low[0], high = tile->high[0];
    rows(*tile, low, low + of.before, sides[0] + of.before * wide, wide, pitch, true);
    rows(*tile, high - of.after, high, sides[1] + of.before * wide, wide, pitch, true);
    rows(*tile, low, low + of.after, next->pointer + of.first() * pitch, pitch, pitch, false);
    rows(*tile, high - of.before, high, next->pointer + of.last() * pitch, pitch, pitch, false);
    std::memcpy(next->pointer + of.lowest() * pitch, cell(point) + of.lowest() * pitch,
                (of.before + of.after) * pitch);
  }
};

// EDGES: copy the rows at the borders of this point's tile to its cell.  `low` and `high` are the rows before the
// first point's and after the last one's; nullptr if there are none.
void collect(const Sides& of, const Place& tile, const Place* low, const Place* high, const Place& cell, Word pitch,
             Word point, Word points)
{
  if (!by_rows(tile) || (low && !by_rows(*low)) || (high && !by_rows(*high)) || cell.stride[1] != 1) {
    complain(SCATTERED);
    return;
  }
  rows(tile, tile.low[0], tile.low[0] + of.after, cell.pointer + of.first() * pitch, pitch, pitch, false);
  rows(tile, tile.high[0] - of.before, tile.high[0], cell.pointer + of.last() * pitch, pitch, pitch, false);
  std::memset(cell.pointer + of.lowest() * pitch, 0, (of.before + of.after) * pitch);
  if (low && point == 0) {
    const Word missing = of.before - (low->high[0] - low->low[0]);
    rows(*low, low->low[0], low->high[0], cell.pointer + (of.lowest() + missing) * pitch, pitch, pitch, false);
  }
  if (high && point + 1 == points)
    rows(*high, high->low[0], high->high[0], cell.pointer + of.highest() * pitch, pitch, pitch, false);
}

// A pass on one Legate point.  `Memory` is that of `Arguments`; run(block, points) runs the driver on points [0, points)
// of a block, and what follows them.
template <class Memory>
class Pass {
 public:
  Pass(Arguments<Memory>& arguments, Memory& memory) : block_(arguments.block), arguments_(arguments), memory_(memory) {}

  // Iterations [first, last) of the driver's points on `workers` threads, as Legate's point of so many.
  template <class Run>
  void perform(Word edges, Reader& words, Word point, Word points, Word first, Word last, bool threads, Run&& run)
  {
    of_ = {words.next(), words.next()};
    if (!read(edges, words) || !prepare(last - first)) return;
    for (Edge& edge : edges_) edge.copy(of_, point, points);
    const Word rows = block_[ROWS_SECOND], tile = block_[TILE];
    const Word low = std::min(first * tile, rows), high = std::min(last * tile, rows);
    if (edges_.empty()) of_ = {};
    if (of_.before) piece(low, low + of_.before, 1, 0, run);
    if (of_.after) piece(high - of_.after, high, 1, 1, run);
    const Word begin = low + of_.before, end = high - of_.after, most = last - first;
    const bool enough = end - begin >= most * (most + block_[BELOW] + block_[ABOVE]);
    if (begin < end) piece(begin, end, threads && enough ? most : 1, -1, run);
    for (Edge& edge : edges_) edge.put(of_, point);
  }

 private:
  std::vector<Word>& block_;
  Arguments<Memory>& arguments_;
  Memory& memory_;
  std::vector<Edge> edges_{};
  Sides of_{};

  bool read(Word number, Reader& words)
  {
    for (Word k = 0; k < number; ++k) {
      Edge& edge = edges_.emplace_back();
      for (Place** place : {&edge.tile, &edge.cells, &edge.next})
        if (const Word number = words.next(); number >= 0) *place = &arguments_.place(number);
      edge.pitch = words.next();
      edge.number = words.next();
      edge.words = words.take(edge.number);
      if (edge.tile->empty || !by_rows(*edge.tile) || edge.cells->stride[1] != 1 ||
          (edge.next && edge.next->stride[1] != 1)) {
        complain(SCATTERED);
        return false;
      }
    }
    return true;
  }

  // Allocate memory, and write to the driver's tables how far apart rows are in Legate's.
  bool prepare(Word workers)
  {
    Word k = 0;
    auto take = [&](Word bytes) {
      char* found = memory_.mirror(k++, bytes ? bytes : 1);
      if (!found) complain(NO_MEMORY);
      return found;
    };
    block_[SCRATCH] = reinterpret_cast<Word>(take(block_[SCRATCH_BYTES] * workers));
    block_[BORDER] = reinterpret_cast<Word>(take(block_[BORDER_BYTES] * workers));
    for (Edge& edge : edges_)
      for (char*& side : edge.sides)
        side = take((2 * (of_.before + of_.after)) * edge.tile->stride[0]);
    each_argument(block_, [&](Word at, Word* entry) { entry[2] = block_[at + 1]; });
    return complaint.load() == 0;
  }

  // Call `use` with the word of each argument's address that is no ring, and the argument's entry.
  template <class Use>
  static void each_argument(std::vector<Word>& block, Use&& use)
  {
    for (Word second : {0, 1}) {
      Word* entry = &block[block[TABLE_FIRST + second]];
      for (Word k = 0; k < block[ARGUMENTS_FIRST + second]; ++k, entry += ENTRY)
        if (entry[1] != RING) use(block[AT_FIRST + second] + entry[0], entry);
    }
  }

  // Iterations [low, high), in place or, with a side, on the copies.
  template <class Run>
  void piece(Word low, Word high, Word workers, Word side, Run&& run)
  {
    std::vector<Word> block = block_;
    each_argument(block, [&](Word at, Word* entry) { block[at] += low * entry[2]; });
    for (Edge& edge : edges_) {
      if (side < 0) break;
      const Word there = reinterpret_cast<Word>(edge.sides[side]) - edge.begin(of_, side) * edge.tile->stride[0];
      const Word here = reinterpret_cast<Word>(edge.tile->pointer) - edge.tile->low[0] * edge.tile->stride[0];
      for (Word k = 0; k < edge.number; ++k) block[edge.words[k]] += there - here;
    }
    block[BEGIN] = 0;
    block[POINTS] = workers;
    block[LEAST] -= low;
    block[ROWS_FIRST] -= low;
    block[ROWS_SECOND] = high - low;
    block[TILE] = (high - low + workers - 1) / workers;
    run(block.data(), workers);
  }
};

}  // namespace
