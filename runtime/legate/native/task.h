// What tasks ask of Legate's context: where their arguments lie, and which point of the launch they are.
#pragma once

#include <legate.h>

#include <algorithm>

#include "message.h"

namespace {

// For `locate`: an argument of the task, in its own coordinates.
bool find(const legate::TaskContext& context, Word kind, Word index, Place& place)
{
  const auto store = (kind == INPUT ? context.input(index) : context.output(index)).data();
  const auto domain = store.domain();
  if (domain.empty()) return false;
  const auto memory = store.get_inline_allocation();
  place.pointer = static_cast<char*>(memory.ptr);
  for (Word d = 0; d < place.dims; ++d) {
    place.low[d] = domain.lo()[d];
    place.high[d] = domain.hi()[d] + 1;
    place.stride[d] = static_cast<Word>(memory.strides[d]);
  }
  return true;
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

// The points of a launch that this Legate point runs.
std::pair<Word, Word> points(const legate::TaskContext& context, const Header& header)
{
  const Word row = outer(context) * header.points, along = inner(context) * header.span;
  return {row + along, row + std::min(along + header.span, header.points)};
}

// Do the work of a task.  An exception that came out of it would end the process.
template <typename Work>
void shielded(Work work)
{
  try {
    work();
  } catch (const std::bad_alloc&) {
    complain(NO_MEMORY);
  } catch (...) {
    complain(LOST);
  }
}

}  // namespace
