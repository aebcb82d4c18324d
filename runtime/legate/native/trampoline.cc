// The one task that Legate runs for Diffuse on processors: it locates the stores of a launch, writes their addresses
// and strides to the kernel's parameter block, and calls the kernel by its address, without Python.  message.h reads
// the message that describes a launch; trampoline_gpu.cc has the task for GPUs.
#include <legate.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "message.h"
#include "pass.h"
#include "task.h"

namespace {

using Kernel = void (*)(void*, Word);
using Finish = void (*)(void*);
using Submit = Word (*)(void*, void*, void*, Word, const void*, Word);
using Wait = Word (*)(void*, Word, Word);

constexpr Word SLICE = 50'000'000;  // nanoseconds that one wait for the pool takes at most

struct Pool {
  void* address{};
  Submit submit{};
  Wait wait{};
  const Word* submitted{};             // launches so far, from wherever
  Word room{};                         // launches left in a full queue after waiting, which keep threads busy
  std::mutex lock{};                   // one launch at a time
} pool;

// Of the thread that sends and receives messages (progress.c); nullptr with one rank.
struct Network {
  const volatile unsigned long* yields{};
  const volatile unsigned long* events{};
} network;

// What launches the ranks of this machine have begun (board.py); nullptr if that does not matter.
struct Board {
  Word* begun{};                       // of each rank the number of the last one, LINE apart
  Word place{}, ranks{};               // this rank's place, and how many there are
} board;

constexpr Word LINE = 8;               // words
constexpr Word LARGE = 8 << 20;        // bytes of a launch's stores on a point, which take a millisecond
constexpr Word SHORTEST = 100'000, LONGEST = 2'000'000;  // nanoseconds that a launch of so many gives way
constexpr Word PATIENCE = 1'000'000;   // nanoseconds that it waits for other ranks to begin it
constexpr unsigned long QUIET = 10;    // rounds of polls without a message, after which it goes on

std::atomic<unsigned> raised{0};       // floating-point exceptions since the last call of diffuse_flags

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

// Reserved memory, of which only what is touched takes pages.
struct Mirror {
  char* memory{};
  std::size_t bytes{};

  Mirror() = default;
  Mirror(Mirror&& other) noexcept : memory(other.memory), bytes(other.bytes) { other.memory = nullptr; }
  ~Mirror() { release(); }

  void release()
  {
    if (memory) munmap(memory, bytes);
    memory = nullptr;
    bytes = 0;
  }

  char* reserve(std::size_t wanted)
  {
    if (wanted <= bytes) return memory;
    release();
    void* found = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) return nullptr;
    madvise(found, wanted, MADV_NOHUGEPAGE);
    memory = static_cast<char*>(found);
    bytes = wanted;
    return memory;
  }
};

thread_local std::vector<Mirror> mirrors;

// Memory of the host, for `Arguments`.
struct Host {
  std::vector<std::unique_ptr<void, void (*)(void*)>> held{};
  void* allocate(Word bytes) { return held.emplace_back(std::calloc(bytes, 1), std::free).get(); }
  void copy(const Place& place, char* whole, bool out) { ::copy(place, whole, out); }
  char* mirror(Word k, Word bytes)
  {
    if (mirrors.size() <= static_cast<std::size_t>(k)) mirrors.resize(k + 1);
    return mirrors[k].reserve(bytes);
  }
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

// How often this thread's processor went to another thread.
long switches()
{
  rusage used;
  getrusage(RUSAGE_THREAD, &used);
  return used.ru_nvcsw + used.ru_nivcsw;
}

// Wait until the other ranks of this machine have begun a launch, too, so that no message they need for it waits for
// the end of this rank's part.
void abreast(Word turn, bool large)
{
  using Clock = std::chrono::steady_clock;
  if (!board.begun || !turn) return;
  auto begun = [](Word rank) { return &board.begun[rank * LINE]; };
  if (*begun(board.place) < turn) __atomic_store_n(begun(board.place), turn, __ATOMIC_RELEASE);
  const auto end = Clock::now() + std::chrono::nanoseconds(PATIENCE);
  for (Word rank = 0; large && rank < board.ranks; ++rank)
    while (__atomic_load_n(begun(rank), __ATOMIC_ACQUIRE) < turn && Clock::now() < end) sched_yield();
}

// Give the processor to the thread for messages until it has sent and received those that are on their way.  While
// this one computes, that thread gets it at the scheduler's next tick, and what other ranks wait for comes
// milliseconds late.  Ends at once where no other thread wants the processor.
void give_way()
{
  using Clock = std::chrono::steady_clock;
  if (!network.events) return;
  const auto begin = Clock::now();
  const long before = switches();
  unsigned long events = *network.events, yields = *network.yields;
  for (int k = 0;; ++k) {
    sched_yield();
    if (k == 4 && switches() == before) return;
    const Word passed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
    if (passed > LONGEST) return;
    if (*network.events != events) {
      events = *network.events;
      yields = *network.yields;
    } else if (passed > SHORTEST && *network.yields - yields > QUIET) {
      return;
    }
  }
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

void launch(const legate::TaskContext& context, const Message& message)
{
  const Header& header = message.header;
  Host memory;
  Arguments<Host> arguments{memory};
  Reader words = message.rest();
  if (!arguments.read(header, words, [&](Word kind, Word index, Place& place) {
        return find(context, kind, index, place);
      }))
    return;
  Word* block = arguments.block.data();
  if (header.order == FOLD) {
    arguments.share(false);
    execute(nullptr, reinterpret_cast<Finish>(header.finish), block, 0, 0);
    arguments.restore();
    return;
  }
  if (header.ghosts && header.order == RUN) {
    const auto& domain = context.get_launch_domain();
    arguments.receive(header, words, message.rest().at, domain.hi()[0] - domain.lo()[0] + 1, inner(context));
    if (complaint.load() != 0) return;
  }
  const bool large = arguments.bytes() >= LARGE;
  abreast(header.turn, large);
  if (large) give_way();
  const auto [first, last] = points(context, header);
  if (header.order == PASS)
    Pass<Host>{arguments, memory}.perform(
        header.ghosts, words, inner(context), context.get_launch_domain().get_volume(), first, last,
        pool.address != nullptr, [&](Word* block, Word points) { run(header, block, 0, points); });
  else
    run(header, block, first, last);
  if (header.detached && arguments.copied()) drain(*pool.submitted);
  arguments.share(true);
  arguments.restore();
}

void collect_edges(const legate::TaskContext& context, const Header& header, Reader& words)
{
  const Sides of{words.next(), words.next()};
  const Word pitch = words.next(), low = words.next(), high = words.next();
  Place tile, before, after, cell;
  for (Place* place : {&tile, low ? &before : nullptr, high ? &after : nullptr, &cell})
    if (place)
      locate(words, nullptr, *place, [&](Word kind, Word index, Place& found) {
        return find(context, kind, index, found);
      });
  collect(of, tile, low ? &before : nullptr, high ? &after : nullptr, cell, pitch, inner(context), header.points);
}

void perform(const legate::TaskContext& context)
{
  const auto given = context.scalar(0);
  const Message message{given.ptr(), given.size()};
  const Header& header = message.header;
  if (header.order == RUN || header.order == FOLD || header.order == PASS) {
    launch(context, message);
    return;
  }
  Reader words = message.rest();
  const Word* pointers = words.take(header.pointers);
  if (header.order == PACK) {
    Place tile, cells;
    for (Place* place : {&tile, &cells})
      locate(words, pointers, *place, [&](Word kind, Word index, Place& found) {
        return find(context, kind, index, found);
      });
    pack(tile, cells, reinterpret_cast<const Word*>(pointers[0]), header.points, inner(context), header.span);
    return;
  }
  if (header.order == EDGES) {
    collect_edges(context, header, words);
    return;
  }
  Place place;
  // GET and PUT: `span` Legate points a process, of which the first copies for all
  if (header.order == GET && header.span && context.get_task_index()[0] % header.span) return;
  locate(words, pointers, place, [&](Word kind, Word index, Place& found) {
    return find(context, kind, index, found);
  });
  copy(place, reinterpret_cast<char*>(pointers[0]), header.order == PUT);
}

class Trampoline : public legate::LegateTask<Trampoline> {
 public:
  static inline const auto TASK_CONFIG = legate::TaskConfig{legate::LocalTaskID{0}};
  static constexpr auto CPU_VARIANT_OPTIONS = legate::VariantOptions{};
  static void cpu_variant(legate::TaskContext context) { shielded([&] { perform(context); }); }
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

extern "C" void diffuse_network(const unsigned long* yields, const unsigned long* events)
{
  network.yields = yields;
  network.events = events;
}

extern "C" void diffuse_board(void* begun, Word place, Word ranks)
{
  board.place = place;
  board.ranks = ranks;
  board.begun = static_cast<Word*>(begun);
}

extern "C" unsigned diffuse_flags() { return raised.exchange(0); }

extern "C" Word diffuse_complaint() { return complaint.exchange(0); }
