// Reads the messages that describe launches (message.py writes them): a row of 8-byte words.
//
//   order, kernel, finish, points, span, detached, the lengths of what follows, and the number of a launch that all
//   ranks begin abreast, or 0
//   pointers     host memory that the launch reads
//   block        the kernel's parameters, with the byte offset of each view in place of its address
//   stores       for each store: a task argument or a pointer, its rank, element size, offset and extents
//   assembled    for each store that is assembled: the first of the places that are its pieces, and their number
//   fields       which words of the block are addresses, and how strides follow from those of a store
//   scratch      temporary memory of the launch, and which parts of it are copied to stores or from them
//   edges        instead of what follows, of a pass (pass.h)
//   ghosts       operands of which a point has some rows from others: the words of the block that say where rows
//                lie, the store, the store with the cells of the exchange, all rows, bytes of a row, the pointer to
//                the exchange's table
//
// An exchange of rows between n points has n x n cells, the first point's for each other one, then the second's.  Its
// table has, for each point, the first of some rows of the matrix that read none of the exchanged rows and the one
// after the last of these; the number of rows in all cells before each cell and, behind that, in all cells; then the
// rows themselves.
//
// Nothing here needs Legate: where a store lies is asked of a function, and memory is allocated and copied by an
// object, so that tests can give both.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace {

using Word = std::int64_t;

enum Order : Word { RUN = 0, FOLD = 1, GET = 2, PUT = 3, PACK = 4, PASS = 5, EDGES = 6 };
enum Kind : Word { INPUT = 0, OUTPUT = 1, HOST = 2 };
// Texts are in trampoline.py.  What a driver said is in the higher bits of UNLAUNCHED.
enum Complaint : Word { SCATTERED = 1, NO_MEMORY = 2, REFUSED = 3, LOST = 4, UNLAUNCHED = 5, DETAIL = 256 };
constexpr int MOST = 8;                // dimensions; more than Legate has

std::atomic<Word> complaint{0};        // the first error since it was last asked for

void complain(Word what)
{
  Word none = 0;
  complaint.compare_exchange_strong(none, what);
}

struct Header {
  Word order, kernel, finish, points, span, detached, pointers, block, stores, fields, scratch, ghosts, assembled, turn;
};

// The part of a store that this point accesses.
struct Place {
  char* pointer{};                     // of the element at `low`
  Word dims{}, item{};
  Word low[MOST]{}, high[MOST]{};      // in the coordinates of the whole store
  Word stride[MOST]{};                 // bytes
  Word extent[MOST]{};                 // of the whole store
  bool empty{}, output{};

  // Show all of the store, its elements side by side in the order of rows; returns how many bytes that are.
  Word spread()
  {
    Word pitch = item;
    for (Word d = dims - 1; d >= 0; --d) {
      low[d] = 0;
      high[d] = extent[d];
      stride[d] = pitch;
      pitch *= extent[d];
    }
    return pitch;
  }
};

// Reads the words of a message one after another.
struct Reader {
  const Word* at;
  Word next() { return *at++; }
  const Word* take(Word n) { auto here = at; at += n; return here; }
};

// A whole message, as its header and a reader of the rest.
struct Message {
  std::vector<Word> words;
  Header header{};
  Message(const void* data, std::size_t bytes) : words(bytes / sizeof(Word))
  {
    std::memcpy(words.data(), data, words.size() * sizeof(Word));  // it may lie anywhere
    std::memcpy(&header, words.data(), sizeof header);
  }
  Reader rest() const { return Reader{words.data() + sizeof header / sizeof(Word)}; }
};

// Read where a store lies.  `find(kind, index, place)` sets the pointer, the strides, and the bounds of a task's
// argument in its own coordinates; it returns false if the point accesses nothing of it.
template <class Find>
void locate(Reader& words, const Word* pointers, Place& place, Find&& find)
{
  const Word kind = words.next(), index = words.next();
  place.dims = words.next();
  place.item = words.next();
  const Word* begin = words.take(place.dims);
  std::memcpy(place.extent, words.take(place.dims), place.dims * sizeof(Word));
  if (kind == HOST) {
    place.pointer = reinterpret_cast<char*>(pointers[index]);
    place.spread();
    return;
  }
  place.output = kind == OUTPUT;
  if (!find(kind, index, place)) {
    place.empty = true;
    return;
  }
  for (Word d = 0; d < place.dims; ++d) {
    place.low[d] += begin[d];
    place.high[d] += begin[d];
  }
}

// Is the whole store here, contiguous and in row-major order?
bool dense(const Place& place)
{
  Word pitch = place.item;
  for (Word d = place.dims - 1; d >= 0; --d) {
    if (place.low[d] != 0 || place.high[d] != place.extent[d]) return false;
    if (place.extent[d] > 1 && place.stride[d] != pitch) return false;
    pitch *= place.extent[d];
  }
  return true;
}

// Write one argument's address and strides into the block.
void settle(Reader& words, Word* block, const std::vector<Place>& places)
{
  const Word word = words.next(), rank = words.next();
  const Place& place = places[words.next()];
  const Word affine = words.next();
  if (!affine) {  // a view in other coordinates of the memory: the block has its offset and strides
    if (place.empty) { block[word] = 0; return; }
    if (!dense(place)) { complain(SCATTERED); return; }
    block[word] += reinterpret_cast<Word>(place.pointer);
    return;
  }
  const Word* offset = words.take(place.dims);
  Word address = reinterpret_cast<Word>(place.pointer);
  for (Word d = 0; d < place.dims; ++d) address += (offset[d] - place.low[d]) * place.stride[d];
  block[word] = place.empty ? 0 : address;
  for (Word k = 0; k < rank; ++k) {
    const Word* step = words.take(place.dims);
    Word stride = 0;
    for (Word d = 0; d < place.dims; ++d) stride += step[d] * place.stride[d];
    block[word + 1 + k] = stride;
  }
}

// Call `row` with each row in the cell from one point to another, and where it lies there.
template <class Row>
void each_row(const Word* table, Word points, Word from, Word to, const Place& cells, Word pitch, Row&& row)
{
  const Word *ends = table + 2 * points + from * points + to, *rows = table + 2 * points + points * points + 1;
  char* at = cells.pointer + (from - cells.low[0]) * cells.stride[0] + (to - cells.low[1]) * cells.stride[1];
  for (Word k = ends[0]; k < ends[1]; ++k, at += pitch) row(rows[k], at);
}

// Can rows be copied as they lie in the store?
bool in_rows(const Place& place, Word pitch)
{
  return place.empty || (place.stride[place.dims - 1] == place.item && (place.dims == 1 || place.stride[0] == pitch));
}

// PACK: copy the rows of this point's tile that others read to its cells of the exchange.
void pack(const Place& tile, const Place& cells, const Word* table, Word points, Word point, Word pitch)
{
  if (cells.empty || cells.stride[2] != 1 || !in_rows(tile, pitch)) { complain(SCATTERED); return; }
  for (Word to = 0; to < points; ++to)
    each_row(table, points, point, to, cells, pitch, [&](Word row, char* cell) {
      std::memcpy(cell, tile.pointer + (row - tile.low[0]) * tile.stride[0], pitch);
    });
}

// A store whose layout differs from what the kernel assumes, and a copy in the assumed layout.
struct Odd {
  Place box{};                         // where they lie
  Word store{};
  char* memory{};
};

// A kernel assumes unit stride in the dimension where a row-major store has it. Stores that other libraries share
// or wrote may have another layout.
bool odd(Reader& words, const std::vector<Place>& places, Word& store)
{
  words.next();
  const Word rank = words.next();
  store = words.next();
  const Place& place = places[store];
  if (!words.next()) {
    for (Word d = 0; d < place.dims; ++d)
      if (place.low[d] != 0 || place.high[d] != place.extent[d]) return false;
    return !place.empty && !dense(place);
  }
  words.take(place.dims);
  bool found = false;
  for (Word k = 0; k < rank; ++k) {
    const Word* step = words.take(place.dims);
    Word pitch = place.item, expected = 0, stride = 0;
    for (Word d = place.dims - 1; d >= 0; --d) {
      if (place.high[d] - place.low[d] > 1) {
        expected += step[d] * pitch;
        stride += step[d] * place.stride[d];
      }
      pitch *= place.extent[d];
    }
    found = found || (expected == place.item && stride != expected);
  }
  return found && !place.empty;
}

// Memory as large as a store, with the pieces of it that a launch accesses.
struct Whole {
  Word first{}, number{};              // the places that are its pieces
  char* memory{};
};

struct Scratch {
  char* memory{};
  std::vector<std::pair<Word, Word>> planes{};  // (offset in the memory, store)
};

// The arguments of a launch: its block, with the addresses in it, and what is copied before and after it.
//
// `Memory` is where the kernel computes: allocate(bytes) returns memory that lives as long as it does, or nullptr;
// copy(place, whole, out) copies between row-major memory of the whole extents and a store's part, which is the
// target if `out`; mirror(k, bytes) returns memory of which only what is touched is needed, if possible the same for
// the same k, or nullptr.
template <class Memory>
class Arguments {
 public:
  std::vector<Word> block{};

  explicit Arguments(Memory& memory) : memory_(memory) {}

  // Read the message up to the end of its scratch.  False if the launch cannot run.
  template <class Find>
  bool read(const Header& header, Reader& words, Find&& find)
  {
    const Word* pointers = words.take(header.pointers);
    block.assign(words.at, words.at + header.block);
    words.take(header.block);
    places_.resize(given_ = header.stores);
    for (auto& place : places_) locate(words, pointers, place, find);
    for (Word k = 0; k < header.assembled; ++k) {
      const Word first = words.next(), number = words.next();
      assemble(k, first, number);
    }
    if (complaint.load() != 0) return false;
    arrange(words, header.fields);
    for (Word k = 0; k < header.fields; ++k) settle(words, block.data(), places_);
    scratch_.resize(header.scratch);
    for (auto& piece : scratch_) {
      const Word word = words.next(), bytes = words.next(), planes = words.next();
      for (Word k = 0; k < planes; ++k) {
        const Word offset = words.next(), store = words.next();
        piece.planes.emplace_back(offset, store);
      }
      piece.memory = take(bytes);
      block[word] = reinterpret_cast<Word>(piece.memory);
    }
    return complaint.load() == 0;
  }

  // Copy the rows of operands that this point has from others to where the kernel finds them: memory as large as the
  // operand, in which only those rows are touched.
  void receive(const Header& header, Reader& words, const Word* pointers, Word points, Word point)
  {
    for (Word k = 0; k < header.ghosts; ++k) {
      Word* split = &block[words.next()];
      const Place &tile = places_[words.next()], &cells = places_[words.next()];
      const Word rows = words.next(), pitch = words.next();
      const Word* table = reinterpret_cast<const Word*>(pointers[words.next()]);
      char* all = memory_.mirror(k, rows * pitch);
      if (!all) { complain(NO_MEMORY); return; }
      if (cells.empty || cells.stride[2] != 1 || !in_rows(tile, pitch)) { complain(SCATTERED); return; }
      split[0] = tile.empty ? 0 : tile.low[0];
      split[1] = tile.empty ? 0 : tile.high[0] - tile.low[0];
      split[2] = reinterpret_cast<Word>(all);
      split[3] = table[2 * point];
      split[4] = table[2 * point + 1];
      for (Word from = 0; from < points; ++from)
        each_row(table, points, from, point, cells, pitch, [&](Word row, char* cell) {
          std::memcpy(all + row * pitch, cell, pitch);
        });
    }
  }

  // Copy the partial results that points share: to their stores, or from them.
  void share(bool out)
  {
    for (auto& piece : scratch_)
      for (auto [offset, store] : piece.planes) memory_.copy(places_[store], piece.memory + offset, out);
  }

  // Copy back what the launch wrote to copies of stores.
  void restore()
  {
    for (auto& one : odds_)
      if (one.box.output) memory_.copy(one.box, one.memory, true);
    for (auto& one : wholes_)
      for (Word k = one.first; k < one.first + one.number; ++k)
        if (places_[k].output) memory_.copy(places_[k], one.memory, true);
  }

  Place& place(Word k) { return places_[k]; }

  bool copied() const { return !odds_.empty(); }

  // Bytes of the parts of stores that this point accesses.
  Word bytes() const
  {
    Word sum = 0;
    for (std::size_t k = 0; k < given_; ++k) {
      const Place& place = places_[k];
      Word size = place.empty ? 0 : place.item;
      for (Word d = 0; d < place.dims; ++d) size *= place.high[d] - place.low[d];
      sum += size;
    }
    return sum;
  }

 private:
  Memory& memory_;
  std::vector<Place> places_{};
  std::size_t given_{};                // of the places, those of Legate's or the host's memory
  std::vector<Odd> odds_{};
  std::vector<Whole> wholes_{};
  std::vector<Scratch> scratch_{};

  char* take(Word bytes)
  {
    auto* found = static_cast<char*>(memory_.allocate(bytes ? bytes : 1));
    if (!found) complain(NO_MEMORY);
    return found;
  }

  // Copy the pieces of a store to where they would lie in all of it, the next place.
  void assemble(Word k, Word first, Word number)
  {
    Place whole = places_[first];
    if (!dense(whole)) {  // else all of it is in the host's memory
      whole.pointer = memory_.mirror(k, whole.spread());
      if (!whole.pointer) { complain(NO_MEMORY); return; }
      for (Word piece = first; piece < first + number; ++piece) memory_.copy(places_[piece], whole.pointer, false);
      wholes_.push_back({first, number, whole.pointer});
    }
    places_.push_back(whole);
  }

  // Copy the stores whose layout differs from what the kernel assumes.
  void arrange(Reader words, Word fields)
  {
    for (Word k = 0; k < fields; ++k) {
      Word store = 0;
      if (!odd(words, places_, store)) continue;
      Place& place = places_[store];
      Odd& one = odds_.emplace_back();
      one.box = place;
      one.store = store;
      Word pitch = place.item;
      for (Word d = place.dims - 1; d >= 0; --d) {
        const Word size = place.high[d] - place.low[d];
        one.box.low[d] = 0;
        one.box.high[d] = one.box.extent[d] = size;
        place.stride[d] = pitch;
        pitch *= size;
      }
      one.memory = take(pitch);
      if (!one.memory) return;
      memory_.copy(one.box, one.memory, false);
      place.pointer = one.memory;
    }
  }
};

}  // namespace
