// Turns a message into launches of grid kernels (kernels/grid/), in order, on one stream.
//
// The header's `kernel` is the function that launches them: the driver's cuLaunchKernel, or one that takes its place.
// No CUDA header and no library of CUDA is needed.  Behind what message.h describes, a message has
//
//   copying      kernels that copy boxes of 8, 4 and 1 bytes (copying.py)
//   rank         of the launch domain: the first words of the block, in the place of which each point of the launch
//                gets its coordinates
//   steps        launches for each point: their number, then for each a kernel, its groups, and its argument
//   finishing    launches after all points
//
// Tests drive this with memory of the host (tests/grid_driver.cc).
#pragma once

#include <algorithm>
#include <functional>

#include "message.h"

namespace {

// cuLaunchKernel: kernel; groups; threads of a group; shared memory; stream; parameters one by one, or in one piece.
using Launcher = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                         void**);

constexpr Word THREADS = 256;          // of a group (kernels/grid/schedule.py)
constexpr int SIZES = 3;
constexpr Word UNITS[SIZES] = {8, 4, 1};  // bytes that the kernels for copying move at once
constexpr int BOX = 7;                 // dimensions that they have

// Where launches go, and where their memory comes from.
class Stream {
 public:
  using Allocate = std::function<void*(Word)>;

  Stream(Launcher launcher, void* stream, Allocate allocate)
      : launcher_(launcher), stream_(stream), allocate_(std::move(allocate))
  {
  }

  void copying(const Word* kernels) { kernels_ = kernels; }

  void* allocate(Word bytes) { return allocate_(bytes); }
  char* mirror(Word, Word bytes) { return static_cast<char*>(allocate_(bytes)); }

  // Launch a kernel with a block, behind which there is room for the argument.
  void launch(Word kernel, Word groups, Word argument, std::vector<Word>& parameters)
  {
    if (complaint.load() != 0 || !groups) return;
    parameters.back() = argument;
    std::size_t bytes = parameters.size() * sizeof(Word);
    void* given[] = {reinterpret_cast<void*>(1), parameters.data(), reinterpret_cast<void*>(2), &bytes, nullptr};
    const int error = launcher_(reinterpret_cast<void*>(kernel), static_cast<unsigned>(groups), 1, 1, THREADS, 1, 1,
                                0, stream_, nullptr, given);
    if (error) complain(UNLAUNCHED + DETAIL * error);
  }

  // Copy between row-major memory of the whole extents and a store's part.
  void copy(const Place& place, char* whole, bool out);

 private:
  Launcher launcher_;
  void* stream_;
  Allocate allocate_;
  const Word* kernels_{};
};

// How the elements of a box lie in two memories.
struct Box {
  Word extent[BOX], here[BOX], there[BOX];  // strides in bytes
  int rank{};
  void add(Word n, Word a, Word b)
  {
    if (n == 1) return;
    extent[rank] = n;
    here[rank] = a;
    there[rank++] = b;
  }
};

// How many threads of a group lie along the last dimension: 2 to this power (kernels/grid/schedule.py).
Word shift(Word extent)
{
  Word bits = 0;
  while (bits < 8 && (extent - 1) >> bits) ++bits;
  return bits;
}

void Stream::copy(const Place& place, char* whole, bool out)
{
  if (place.empty) return;
  Box box{};
  Word pitch[MOST + 1], run = place.item, dims = place.dims, all = 0;
  pitch[dims] = place.item;
  for (Word d = dims - 1; d >= 0; --d) pitch[d] = pitch[d + 1] * place.extent[d];
  char *here = place.pointer, *there = whole;
  for (Word d = 0; d < dims; ++d) {
    there += place.low[d] * pitch[d + 1];
    if (place.high[d] <= place.low[d]) return;
  }
  if (dims && place.stride[dims - 1] == place.item) {  // elements side by side are one run of bytes
    run *= place.high[dims - 1] - place.low[dims - 1];
    --dims;
  }
  for (Word d = 0; d < dims; ++d) {
    box.add(place.high[d] - place.low[d], place.stride[d], pitch[d + 1]);
    all |= place.stride[d] | pitch[d + 1];
  }
  all |= run | reinterpret_cast<Word>(here) | reinterpret_cast<Word>(there);
  int size = 0;
  while (all % UNITS[size]) ++size;
  box.add(run / UNITS[size], UNITS[size], UNITS[size]);
  // one point, its tile, the extents, and for the source and the target an address and strides
  std::vector<Word> parameters(2 + BOX + 2 * (1 + BOX) + 1, 0);
  Word *extents = &parameters[2], *source = extents + BOX, *target = source + 1 + BOX;
  std::fill(extents, extents + BOX, 1);
  for (int k = 0, d = BOX - box.rank; k < box.rank; ++k, ++d) {
    extents[d] = box.extent[k];
    (out ? target : source)[1 + d] = box.here[k];
    (out ? source : target)[1 + d] = box.there[k];
  }
  parameters[1] = extents[0];
  *source = reinterpret_cast<Word>(out ? there : here);
  *target = reinterpret_cast<Word>(out ? here : there);
  const Word along = shift(extents[BOX - 1]), across = Word{1} << along, down = THREADS >> along;
  Word groups = (extents[BOX - 1] + across - 1) / across * ((extents[BOX - 2] + down - 1) / down);
  for (int d = 0; d < BOX - 2; ++d) groups *= extents[d];
  launch(kernels_[size], groups, along, parameters);
}

// Launch these steps, with these parameters.
void launch_steps(Stream& stream, Reader& words, std::vector<Word>& parameters)
{
  for (Word count = words.next(); count > 0; --count) {
    const Word kernel = words.next(), groups = words.next(), argument = words.next();
    stream.launch(kernel, groups, argument, parameters);
  }
}

// Launch the kernels of points [first, last) of a launch, or those that follow all points, as the message says.
// `find` is told where the message's stores lie.
template <class Find>
void launch_grid(const Message& message, Stream& stream, Find&& find, Word first, Word last)
{
  const Header& header = message.header;
  Reader ahead = message.rest();  // to the kernels that copy, which are needed to read the stores
  ahead.take(message.words.size() - sizeof header / sizeof(Word) - header.finish);
  stream.copying(ahead.take(SIZES));
  Arguments<Stream> arguments{stream};
  Reader words = message.rest();
  if (!arguments.read(header, words, find)) return;
  const Word rank = ahead.next();
  auto& parameters = arguments.block;
  const std::vector<Word> domain(parameters.begin(), parameters.begin() + rank);
  parameters.push_back(0);
  if (header.order == FOLD) arguments.share(false);
  const Reader steps = ahead;
  for (Word point = first; point < last && header.order == RUN; ++point) {
    Word rest = point;
    for (Word d = rank - 1; d >= 0; --d) {
      parameters[d] = rest % domain[d];
      rest /= domain[d];
    }
    ahead = steps;
    launch_steps(stream, ahead, parameters);
  }
  ahead = steps;
  ahead.take(3 * ahead.next());
  launch_steps(stream, ahead, parameters);
  if (header.order == RUN) arguments.share(true);
  arguments.restore();
}

}  // namespace
