/* A driver without a device: memory is the host's, launches are noted, modules are their own text.  It shows
   that the runtime calls the driver as it should; what kernels compute is shown elsewhere.  Copies to and from
   pinned memory are done as late as a device may do them: when somebody waits. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST (64u << 20)

static size_t used, reserved;
/* Bytes of the pool: given out, and in all.  It grows by what a request lacks of one piece, so freed memory
   serves a larger request only after the pool was trimmed. */
static size_t largest;
static __thread void *current, *stack[16];
static __thread int depth;
static long strays;
static char last[65536];
static size_t last_bytes;
static unsigned last_groups;
static long launches, orders, pageable, waits;
static struct { void *to; const void *from; size_t bytes; } copies[1 << 16];
static long queued, done;
static char *pinned;
static size_t pinned_bytes, pinned_most = 1u << 30;

static void perform(long upto)
{
    for (; done < upto; done++)
        memcpy(copies[done].to, copies[done].from, copies[done].bytes);
}

static void submit_copy(void *to, const void *from, size_t bytes, const char *here)
{
    if (pinned && here >= pinned && here + bytes <= pinned + pinned_bytes && queued < 1 << 16) {
        copies[queued].to = to;
        copies[queued].from = from;
        copies[queued++].bytes = bytes;
        return;
    }
    perform(queued);
    memcpy(to, from, bytes);
    pageable++;
}

struct event { void *stream; long upto; };
static void *ordered_first, *ordered_second;
/* A linker: what it was given, and where its messages go.  Several may be in use at once. */
struct linker { char *text, *log; size_t bytes; };

/* What cuInit returns. */
int refusal;

int cuInit(unsigned flags) { return refusal; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return number ? 101 : 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = MOST; return device < 2 ? 0 : 101; }
int cuDeviceGetName(char *name, int bytes, int device) { strncpy(name, "a device for tests", bytes); return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) { *value = which == 75 ? 9 : 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuCtxGetCurrent(void **context) { *context = current; return 0; }
int cuCtxPushCurrent_v2(void *context)
{
    stack[depth++] = current;
    current = context;
    return 0;
}
int cuCtxPopCurrent_v2(void **context)
{
    *context = current;
    current = depth ? stack[--depth] : 0;
    return 0;
}
int cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)2; return flags == 1 ? 0 : 1; }
int cuStreamSynchronize(void *stream) { perform(queued); return stream == (void *)2 ? 0 : 400; }
int cuEventCreate(struct event **event, unsigned flags)
{
    *event = calloc(1, sizeof(struct event));
    return flags == 2 ? 0 : 1;
}
int cuEventRecord(struct event *event, void *stream)
{
    event->stream = stream;
    event->upto = queued;
    return 0;
}
int cuEventSynchronize(struct event *event) { perform(event->upto); waits++; return 0; }
int cuMemHostAlloc(void **place, size_t bytes, unsigned flags)
{
    if (bytes > pinned_most)
        return 2;
    *place = pinned = malloc(bytes);
    pinned_bytes = bytes;
    return 0;
}
int cuStreamWaitEvent(void *stream, struct event *event, unsigned flags)
{
    ordered_first = event->stream;
    ordered_second = stream;
    orders++;
    return 0;
}
int cuDeviceGetDefaultMemPool(void **pool, int device) { *pool = (void *)3; return 0; }
int cuMemPoolSetAttribute(void *pool, int which, uint64_t *value) { return which == 4 && *value ? 0 : 1; }
int cuMemPoolGetAttribute(void *pool, int which, uint64_t *value)
{
    *value = which == 5 ? reserved : used;
    return which == 5 || which == 7 ? 0 : 1;
}
int cuMemPoolTrimTo(void *pool, size_t bytes) { reserved = used; return 0; }
/* What the pool keeps for reuse counts as taken. */
int cuMemGetInfo_v2(size_t *available, size_t *all) { *available = MOST - reserved; *all = MOST; return 0; }

int cuMemAllocAsync(uint64_t *address, size_t bytes, void *stream)
{
    size_t *block;
    if (reserved - used < bytes || bytes > largest) {
        if (bytes > MOST - reserved)
            return 2;
        reserved += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    if (!(block = malloc(bytes + 64)))
        return 2;
    *block = bytes;
    used += bytes;
    *address = (uint64_t)(uintptr_t)block + 64;
    return 0;
}

int cuMemFreeAsync(uint64_t address, void *stream)
{
    size_t *block = (size_t *)(uintptr_t)(address - 64);
    perform(queued);
    used -= *block;
    free(block);
    return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    submit_copy((void *)(uintptr_t)to, from, bytes, from);
    return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    submit_copy(to, (void *)(uintptr_t)from, bytes, to);
    return 0;
}

int cuLinkCreate_v2(unsigned count, const int *options, void **values, void **state)
{
    if (count != 2 || options[0] != 5 || options[1] != 6)
        return 1;
    struct linker *made = calloc(1, sizeof(struct linker));
    made->log = values[0];
    *state = made;
    return 0;
}

int cuLinkAddData_v2(struct linker *state, int kind, const char *text, size_t bytes, const char *name,
                     unsigned count, void *options, void *values)
{
    if (kind != 1 || !strstr(text, ".version")) {
        strcpy(state->log, "ptxas fatal: this is no PTX");
        return 218;
    }
    state->text = malloc(bytes + 1);
    memcpy(state->text, text, bytes);
    state->text[bytes] = 0;
    state->bytes = bytes;
    return 0;
}

int cuLinkComplete(struct linker *state, void **code, size_t *bytes)
{
    *code = state->text;
    *bytes = state->bytes;
    return 0;
}

int cuLinkDestroy(struct linker *state)
{
    free(state->text);
    free(state);
    return 0;
}

int cuModuleLoadData(void **module, const char *image) { *module = strdup(image); return 0; }

int cuModuleGetFunction(void **function, const char *module, const char *name)
{
    *function = strstr(module, name);
    return *function ? 0 : 500;
}

int cuLibraryLoadData(void **library, const char *text, const int *options, void **values, unsigned count,
                      const int *more, void **others, unsigned number)
{
    if (!strstr(text, ".version") || count || number)
        return 218;
    *library = strdup(text);
    return 0;
}

int cuLibraryGetKernel(void **kernel, const char *library, const char *name)
{
    *kernel = strstr(library, name);
    return *kernel ? 0 : 500;
}

int cuLaunchKernel(void *function, unsigned groups, unsigned y, unsigned z, unsigned threads, unsigned ty,
                   unsigned tz, unsigned shared, void *stream, void **parameters, void **extra)
{
    strays += current == 0;
    if (current != (void *)1)
        return current ? 400 : 201;
    if (threads != 256 || parameters || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
        return 1;
    last_bytes = *(size_t *)extra[3];
    memcpy(last, extra[1], last_bytes);
    last_groups = groups;
    launches++;
    return groups ? 0 : 9;
}

int cuGetErrorName(int error, const char **text)
{
    *text = error == 9 ? "CUDA_ERROR_INVALID_CONFIGURATION" : "CUDA_ERROR_FOR_TESTS";
    return 0;
}

int cuGetErrorString(int error, const char **text) { *text = "something was wrong"; return 0; }

/* Launches in threads that had not entered a context. */
long strayed(void) { return strays; }

/* From now on there are this many bytes of pinned memory. */
void limit(size_t most) { pinned_most = most; }

/* Copies of pinned memory that were submitted and that were done, copies of other memory, and waits for events. */
void copied(long *all, long *ended, long *others, long *waited)
{
    *all = queued;
    *ended = done;
    *others = pageable;
    *waited = waits;
}

/* How often a stream waited for another, and which two these were last. */
long ordered(void **first, void **second)
{
    *first = ordered_first;
    *second = ordered_second;
    return orders;
}

size_t noted(void *parameters, unsigned *groups, long *count)
{
    memcpy(parameters, last, last_bytes);
    *groups = last_groups;
    *count = launches;
    return last_bytes;
}
