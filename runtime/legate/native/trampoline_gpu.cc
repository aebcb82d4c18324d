// The task that Legate runs for Diffuse on GPUs: it launches the grid kernels of a launch on the task's stream
// (grid.h), with scratch memory that Legate allocates in the GPU's memory.  Nobody waits: Legate takes the task for
// done when its stream is.
//
// The variant for processors launches the same kernels where the message names a function that runs them there.
#include <legate.h>

#include <cstdint>
#include <new>

#include "grid.h"
#include "task.h"

namespace {

void perform(const legate::TaskContext& context)
{
  const auto given = context.scalar(0);
  const Message message{given.ptr(), given.size()};
  Stream stream{reinterpret_cast<Launcher>(message.header.kernel), context.get_task_stream(), [](Word bytes) -> void* {
    return legate::create_buffer<std::int8_t>(static_cast<std::size_t>(bytes)).ptr(0);
  }};
  const auto [first, last] = points(context, message.header);
  launch_grid(message, stream, [&](Word kind, Word index, Place& place) {
    return find(context, kind, index, place);
  }, first, last);
}

class Grid : public legate::LegateTask<Grid> {
 public:
  static inline const auto TASK_CONFIG = legate::TaskConfig{legate::LocalTaskID{1}};
  static constexpr auto CPU_VARIANT_OPTIONS = legate::VariantOptions{}.with_has_allocations(true);
  static constexpr auto GPU_VARIANT_OPTIONS =
    legate::VariantOptions{}.with_elide_device_ctx_sync(true).with_has_allocations(true);
  static void cpu_variant(legate::TaskContext context) { shielded([&] { perform(context); }); }
  static void gpu_variant(legate::TaskContext context) { shielded([&] { perform(context); }); }
};

}  // namespace

extern "C" void diffuse_register(void* library) { Grid::register_variants(*static_cast<legate::Library*>(library)); }

extern "C" Word diffuse_complaint() { return complaint.exchange(0); }
