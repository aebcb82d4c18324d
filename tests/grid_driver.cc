// Drives runtime/legate/native/grid.h without Legate: the test says where stores lie, and which points run.
#include "../runtime/legate/native/grid.h"

extern "C" {

using Allocator = void* (*)(Word);

// What Legate tells of an argument of a task: its bounds in its own coordinates, and its memory.
struct Given {
  Word kind, index, empty, pointer;
  Word low[MOST], high[MOST], stride[MOST];
};

Word drive(const void* words, Word bytes, void* stream, Allocator allocate, const Given* given, Word count, Word first,
           Word last)
{
  const Message message{words, static_cast<std::size_t>(bytes)};
  Stream on{reinterpret_cast<Launcher>(message.header.kernel), stream, allocate};
  launch_grid(message, on, [&](Word kind, Word index, Place& place) {
    for (Word k = 0; k < count; ++k) {
      if (given[k].kind != kind || given[k].index != index) continue;
      if (given[k].empty) return false;
      place.pointer = reinterpret_cast<char*>(given[k].pointer);
      std::memcpy(place.low, given[k].low, sizeof place.low);
      std::memcpy(place.high, given[k].high, sizeof place.high);
      std::memcpy(place.stride, given[k].stride, sizeof place.stride);
      return true;
    }
    complain(LOST);
    return false;
  }, first, last);
  return complaint.exchange(0);
}

Word copy_box(void* launcher, void* stream, const Word* kernels, const Place* place, char* whole, Word out)
{
  Stream on{reinterpret_cast<Launcher>(launcher), stream, nullptr};
  on.copying(kernels);
  on.copy(*place, whole, out);
  return complaint.exchange(0);
}
}
