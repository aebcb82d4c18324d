/* The memory of NumPy's arrays, aligned to cache lines (NEP 49): a vector that NumPy stores across two lines takes
 * twice the time of one within a line, and the C library aligns memory to 16 bytes only.  Arrays of some kilobytes
 * take 0.5 to 0.8 of the time that way, as long as the caches hold them.
 *
 * Memory comes from the C library, which may free and reallocate it.  The last arrays freed are kept for the next ones
 * of about the same size, as aligned memory takes the library 50 ns longer, and what it cuts off may lie idle. */
#include "small.h"
#include <numpy/arrayobject.h>
#include <malloc.h>
#include <stdatomic.h>

enum { LINE = 64, LEAST = 8 << 10, MOST = 4 << 20 }; /* bytes of a line; of arrays, the latter on huge pages */
enum { CLEARED = 256 << 10 }; /* from so many bytes on, fresh memory that has to be zero is left to the system */
enum { PLACES = 8, KEPT = 4 << 20 }; /* arrays, and bytes of them, that are kept at most */
enum { SPARE = 8 }; /* the part of an array's size by which the memory that it gets may exceed it */

static PyDataMemAllocator numpys; /* what NumPy does without */

static struct {
    void *memory;
    size_t size;
} kept[PLACES]; /* the last one freed is last */
static int count;
static size_t bytes;
static atomic_flag taken = ATOMIC_FLAG_INIT; /* while a thread looks at what is kept */

static int fits(size_t size) { return size >= LEAST && size < MOST; }

static void remove_at(int place)
{
    bytes -= kept[place].size;
    memmove(&kept[place], &kept[place + 1], (--count - place) * sizeof *kept);
}

/* Memory that was kept; NULL if there is none of about this size. */
static void *again(size_t size)
{
    void *found = NULL;
    if (!atomic_flag_test_and_set(&taken)) {
        for (int k = count; k-- && found == NULL;)
            if (kept[k].size >= size && kept[k].size <= size + size / SPARE + 2 * LINE) {
                found = kept[k].memory;
                remove_at(k);
            }
        atomic_flag_clear(&taken);
    }
    return found;
}

static void *take(size_t size)
{
    void *found = again(size);
    return found != NULL ? found : aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
}

static void *aligned_malloc(void *context, size_t size)
{
    return fits(size) ? take(size) : numpys.malloc(numpys.ctx, size);
}

static void *aligned_calloc(void *context, size_t n, size_t size)
{
    size_t wanted = n * size;
    void *found = NULL;
    if (fits(wanted) && (size == 0 || wanted / size == n))
        found = wanted < CLEARED ? take(wanted) : again(wanted);
    return found == NULL ? numpys.calloc(numpys.ctx, n, size) : memset(found, 0, wanted);
}

static void *aligned_realloc(void *context, void *memory, size_t size)
{
    return numpys.realloc(numpys.ctx, memory, size);
}

static void aligned_free(void *context, void *memory, size_t size)
{
    if (memory != NULL && fits(size) && (uintptr_t)memory % LINE == 0 && !atomic_flag_test_and_set(&taken)) {
        void *gone[PLACES];
        int many = 0;
        size = malloc_usable_size(memory);
        while (count && (count == PLACES || bytes + size > KEPT)) {
            gone[many++] = kept[0].memory;
            remove_at(0);
        }
        kept[count].memory = memory;
        kept[count++].size = size;
        bytes += size;
        atomic_flag_clear(&taken);
        while (many--)
            numpys.free(numpys.ctx, gone[many], MOST);
        return;
    }
    numpys.free(numpys.ctx, memory, size);
}

static PyDataMem_Handler handler = {
    "diffuse_aligned", 1, {NULL, aligned_malloc, aligned_calloc, aligned_realloc, aligned_free}};

/* Have NumPy take the memory of new arrays from here, unless the program has said where it is to come from.  Threads
 * that the program starts take it from NumPy's own allocator: where it comes from is a variable of the context. */
int small_aligned_ready(void)
{
    PyObject *present = PyDataMem_GetHandler(), *before = NULL, *ours = NULL;
    if (present == NULL)
        return -1;
    if (present == PyDataMem_DefaultHandler) {
        numpys = ((PyDataMem_Handler *)PyCapsule_GetPointer(present, "mem_handler"))->allocator;
        ours = PyCapsule_New(&handler, "mem_handler", NULL);
        before = ours == NULL ? NULL : PyDataMem_SetHandler(ours);
    } else
        before = Py_NewRef(present);
    Py_DECREF(present);
    Py_XDECREF(ours);
    Py_XDECREF(before);
    return before == NULL ? -1 : 0;
}
