// The one task that Legate runs for Diffuse: it locates the stores of a launch, writes their addresses and strides
// to the kernel's parameter block, and calls the kernel by its address, without Python.
//
// A launch is described by one scalar argument, a row of 8-byte words (message.py writes it):
//
//   order, kernel, finish, points, span, detached, and the lengths of what follows
//   pointers     host memory that the launch reads
//   block        the kernel's parameters, with the byte offset of each view in place of its address
//   stores       for each store: a task argument or a pointer, its rank, element size, offset and extents
//   fields       which words of the block are addresses, and how strides follow from those of a store
//   scratch      temporary memory of the launch, and which parts of it are copied to stores or from them
#include <legate.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace {

using Word = std::int64_t;
using Kernel = void (*)(void*, Word);
using Finish = void (*)(void*);
using Submit = Word (*)(void*, void*, void*, Word, const void*, Word);
using Wait = Word (*)(void*, Word, Word);

enum Order : Word { RUN = 0, FOLD = 1, GET = 2, PUT = 3 };
enum Kind : Word { INPUT = 0, OUTPUT = 1, HOST = 2 };
enum Complaint : Word { SCATTERED = 1, NO_MEMORY = 2, REFUSED = 3, LOST = 4 };  // texts in trampoline.py
constexpr Word SLICE = 50'000'000;  // nanoseconds that one wait for the pool takes at most
constexpr int MOST = 8;             // dimensions; more than Legate has

struct Pool {
  void* address{};
  Submit submit{};
  Wait wait{};
  const Word* submitted{};             // launches so far, from wherever
  Word room{};                         // launches left in a full queue after waiting, which keep threads busy
  std::mutex lock{};                   // one launch at a time
} pool;

std::atomic<unsigned> raised{0};       // floating-point exceptions since the last call of diffuse_flags
std::atomic<Word> complaint{0};        // the first error since the last call of diffuse_complaint

void complain(Complaint what)
{
  Word none = 0;
  complaint.compare_exchange_strong(none, what);
}

struct Header {
  Word order, kernel, finish, points, span, detached, pointers, block, stores, fields, scratch;
};

// The part of a store that this point accesses.
struct Place {
  char* pointer{};                     // of the element at `low`
  Word dims{}, item{};
  Word low[MOST]{}, high[MOST]{};      // in the coordinates of the whole store
  Word stride[MOST]{};                 // bytes
  Word extent[MOST]{};                 // of the whole store
  bool empty{}, output{};
};

// Reads the words of a message one after another.
struct Reader {
  const Word* at;
  Word next() { return *at++; }
  const Word* take(Word n) { auto here = at; at += n; return here; }
};

void locate(const legate::TaskContext& context, Reader& words, const Word* pointers, Place& place)
{
  const Word kind = words.next(), index = words.next();
  place.dims = words.next();
  place.item = words.next();
  const Word* begin = words.take(place.dims);
  std::memcpy(place.extent, words.take(place.dims), place.dims * sizeof(Word));
  if (kind == HOST) {
    place.pointer = reinterpret_cast<char*>(pointers[index]);
    Word pitch = place.item;
    for (Word d = place.dims - 1; d >= 0; --d) {
      place.low[d] = 0;
      place.high[d] = place.extent[d];
      place.stride[d] = pitch;
      pitch *= place.extent[d];
    }
    return;
  }
  place.output = kind == OUTPUT;
  const auto store = (kind == INPUT ? context.input(index) : context.output(index)).data();
  const auto domain = store.domain();
  if (domain.empty()) {
    place.empty = true;
    return;
  }
  const auto memory = store.get_inline_allocation();
  place.pointer = static_cast<char*>(memory.ptr);
  for (Word d = 0; d < place.dims; ++d) {
    place.low[d] = begin[d] + domain.lo()[d];
    place.high[d] = begin[d] + domain.hi()[d] + 1;
    place.stride[d] = static_cast<Word>(memory.strides[d]);
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

// Between row-major memory of the whole extents and a store's part: `out` copies to the store.
void copy(const Place& place, char* whole, bool out, Word d = 0, Word there = 0, Word here = 0)
{
  if (place.empty) return;
  Word pitch = place.item;
  for (Word e = place.dims - 1; e > d; --e) pitch *= place.extent[e];
  const Word low = place.dims ? place.low[d] : 0, high = place.dims ? place.high[d] : 1;
  const Word stride = place.dims ? place.stride[d] : place.item;
  if (d + 1 >= place.dims && (stride == place.item || high - low == 1)) {
    char *a = whole + there + low * pitch, *b = place.pointer + here;
    std::memcpy(out ? b : a, out ? a : b, (high - low) * place.item);
    return;
  }
  for (Word i = low; i < high; ++i) {
    const Word to = there + i * pitch, from = here + (i - low) * stride;
    if (d + 1 >= place.dims) {
      char *a = whole + to, *b = place.pointer + from;
      std::memcpy(out ? b : a, out ? a : b, place.item);
    } else {
      copy(place, whole, out, d + 1, to, from);
    }
  }
}

// A store whose layout differs from what the kernel assumes, and a copy in the assumed layout.
struct Odd {
  Place box{};                         // where they lie
  Word store{};
  std::unique_ptr<char[]> memory{};
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

std::vector<Odd> arrange(Reader words, Word fields, std::vector<Place>& places)
{
  std::vector<Odd> found;
  for (Word k = 0; k < fields; ++k) {
    Word store = 0;
    if (!odd(words, places, store)) continue;
    Place& place = places[store];
    Odd& one = found.emplace_back();
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
    one.memory.reset(new char[pitch]);
    copy(one.box, one.memory.get(), false);
    place.pointer = one.memory.get();
  }
  return found;
}

struct Scratch {
  std::unique_ptr<void, void (*)(void*)> memory{nullptr, std::free};
  std::vector<std::pair<Word, Word>> planes{};  // (offset in the memory, store)
  char* at(Word offset) const { return static_cast<char*>(memory.get()) + offset; }
};

struct Shifted {
  Kernel kernel;
  Word first;
  void* block;
};

void shifted(void* block, Word point)
{
  auto* whole = static_cast<Shifted*>(block);
  whole->kernel(whole->block, whole->first + point);
  raised |= static_cast<unsigned>(std::fetestexcept(FE_ALL_EXCEPT));  // the pool began with none
}

void drain(Word sequence)
{
  while (!pool.wait(pool.address, sequence, SLICE)) {}
}

// False if the pool refuses the launch.  Submitting is not thread-safe: it happens on the main thread if Legate has
// one processor, else under the pool's lock.
bool submit(void* kernel, void* finish, Word points, const void* block, Word bytes)
{
  Word sequence = 0;
  while (!(sequence = pool.submit(pool.address, kernel, finish, points, block, bytes)))
    drain(*pool.submitted - pool.room);  // the queue is full
  if (sequence < 0) {
    complain(sequence == -2 ? NO_MEMORY : REFUSED);
    return false;
  }
  return true;
}

// Points [first, last) of the kernel, then `finish` if there is one, here; what they do to the floating-point
// state stays in `raised`.
void execute(Kernel kernel, Finish finish, Word* block, Word first, Word last)
{
  std::fenv_t before;
  std::fegetenv(&before);
  std::fesetenv(FE_DFL_ENV);
  for (Word p = first; p < last; ++p) kernel(block, p);
  if (finish) finish(block);
  raised |= static_cast<unsigned>(std::fetestexcept(FE_ALL_EXCEPT));
  std::fesetenv(&before);
}

// The points of a launch that this Legate point has: on the pool if that pays.
void run(const Header& header, Word* block, Word first, Word last)
{
  const auto kernel = reinterpret_cast<Kernel>(header.kernel);
  const auto finish = reinterpret_cast<Finish>(header.finish);
  if (header.detached) {  // alone: the launch goes on while the program records
    submit(reinterpret_cast<void*>(kernel), reinterpret_cast<void*>(finish), last, block, header.block * 8);
    return;
  }
  if (pool.address && last - first > 1) {
    const std::lock_guard<std::mutex> hold{pool.lock};
    Shifted whole{kernel, first, block};
    if (!submit(reinterpret_cast<void*>(&shifted), nullptr, last - first, &whole, sizeof whole)) return;
    drain(*pool.submitted);
    first = last;
  }
  if (finish || first < last) execute(kernel, finish, block, first, last);
}

// The last coordinate of this Legate point; a task of one point has no index, which reads as 0.
Word inner(const legate::TaskContext& context)
{
  const auto& index = context.get_task_index();
  return index[std::max(index.get_dim(), 1) - 1];
}

// The row-major number of its other coordinates.
Word outer(const legate::TaskContext& context)
{
  const auto& index = context.get_task_index();
  const auto& domain = context.get_launch_domain();
  Word number = 0;
  for (int d = 0; d + 1 < index.get_dim(); ++d)
    number = number * (domain.hi()[d] - domain.lo()[d] + 1) + index[d];
  return number;
}

void launch(const legate::TaskContext& context, const Header& header, Reader words)
{
  const Word* pointers = words.take(header.pointers);
  std::vector<Word> block(words.at, words.at + header.block);
  words.take(header.block);
  std::vector<Place> places(header.stores);
  for (auto& place : places) locate(context, words, pointers, place);
  const auto odds = arrange(words, header.fields, places);
  for (Word k = 0; k < header.fields; ++k) settle(words, block.data(), places);
  std::vector<Scratch> scratch(header.scratch);
  for (auto& piece : scratch) {
    const Word word = words.next(), bytes = words.next(), planes = words.next();
    for (Word k = 0; k < planes; ++k) {
      const Word offset = words.next(), store = words.next();
      piece.planes.emplace_back(offset, store);
    }
    piece.memory.reset(std::calloc(bytes ? bytes : 1, 1));
    if (!piece.memory) complain(NO_MEMORY);
    block[word] = reinterpret_cast<Word>(piece.memory.get());
  }
  if (complaint.load() != 0) return;
  const auto share = [&](bool out) {
    for (auto& piece : scratch)
      for (auto [offset, store] : piece.planes) copy(places[store], piece.at(offset), out);
  };
  const auto restore = [&] {
    for (auto& one : odds)
      if (one.box.output) copy(one.box, one.memory.get(), true);
  };
  if (header.order == FOLD) {
    share(false);
    execute(nullptr, reinterpret_cast<Finish>(header.finish), block.data(), 0, 0);
    restore();
    return;
  }
  const Word row = outer(context) * header.points, along = inner(context) * header.span;
  run(header, block.data(), row + along, row + std::min(along + header.span, header.points));
  if (header.detached && !odds.empty()) drain(*pool.submitted);
  share(true);
  restore();
}

void perform(const legate::TaskContext& context)
{
  const auto message = context.scalar(0);
  std::vector<Word> aligned(message.size() / sizeof(Word));
  std::memcpy(aligned.data(), message.ptr(), aligned.size() * sizeof(Word));
  Header header;
  std::memcpy(&header, aligned.data(), sizeof header);
  Reader words{aligned.data() + sizeof header / sizeof(Word)};
  if (header.order == RUN || header.order == FOLD) {
    launch(context, header, words);
    return;
  }
  const Word* pointers = words.take(header.pointers);
  Place place;
  // GET and PUT: `span` Legate points a process, of which the first copies for all
  if (header.order == GET && header.span && context.get_task_index()[0] % header.span) return;
  locate(context, words, pointers, place);
  copy(place, reinterpret_cast<char*>(pointers[0]), header.order == PUT);
}

// An exception that came out of a task would end the process.
void body(const legate::TaskContext& context)
{
  try {
    perform(context);
  } catch (const std::bad_alloc&) {
    complain(NO_MEMORY);
  } catch (...) {
    complain(LOST);
  }
}

class Trampoline : public legate::LegateTask<Trampoline> {
 public:
  static inline const auto TASK_CONFIG = legate::TaskConfig{legate::LocalTaskID{0}};
  static constexpr auto CPU_VARIANT_OPTIONS = legate::VariantOptions{};
  static void cpu_variant(legate::TaskContext context) { body(context); }
};

}  // namespace

extern "C" void diffuse_register(void* library)
{
  Trampoline::register_variants(*static_cast<legate::Library*>(library));
}

extern "C" void diffuse_pool(void* address, void* submit, void* wait, void* submitted, Word room)
{
  pool.room = room;
  pool.submitted = static_cast<const Word*>(submitted);
  pool.address = address;
  pool.submit = reinterpret_cast<Submit>(submit);
  pool.wait = reinterpret_cast<Wait>(wait);
}

extern "C" unsigned diffuse_flags() { return raised.exchange(0); }

extern "C" Word diffuse_complaint() { return complaint.exchange(0); }
