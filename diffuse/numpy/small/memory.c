/* The memory of NumPy's arrays of 1 KB to 768 KB: aligned to cache lines, and kept for arrays of about its size.
 *
 * malloc aligns to 16 bytes.  A vector of 64 bytes then crosses cache lines, and arithmetic on arrays in the processor's
 * second cache takes up to twice the time.  Blocks of up to 256 KB are kept when they are freed, which costs less than
 * malloc and gives the next array memory that is still in the cache, as NumPy itself does it below 1 KB.
 *
 * All blocks are the C library's, so that `free` and `realloc` take them.  NumPy calls these functions with Python's
 * lock held. */
#include "small.h"
#include <malloc.h>

#ifndef Py_GIL_DISABLED

enum { LINE = 64, LEAST = 1 << 10, MOST = 768 << 10 };   /* a second-level cache holds no three larger ones */
enum { STEPS = 8, KEPT = 1 << 18, CLASSES = 9 * STEPS };  /* eight sizes for each power of two, and nine powers */
enum { DEPTH = 16, HELD = 4 << 20 };                      /* blocks of one size, and bytes in all, that are kept */
enum { LARGER = 5 }; /* classes whose blocks serve a size: those of the last one are half as large again */

static PyDataMemAllocator *numpys; /* for all other sizes */
static struct { int count; void *blocks[DEPTH]; } kept[CLASSES];
static size_t held;

/* The class of a size from `LEAST` on; `size` becomes the largest one of its class, which is its blocks' size. */
static int class_of(size_t *size)
{
    int power = 63 - __builtin_clzl(*size - 1); /* 512 <= 2**power < size <= 2**(power + 1) */
    size_t place = (*size - 1) >> (power - 3);  /* STEPS <= place < 2 * STEPS */
    *size = (place + 1) << (power - 3);
    return (power - 9) * STEPS + (int)(place - STEPS);
}

/* The size of the blocks of a class. */
static size_t size_of_class(int class) { return (size_t)(STEPS + class % STEPS + 1) << (class / STEPS + 6); }

/* A kept block of the class of a size, or of one of the next larger ones, which is in the cache where a new block is
 * not: programs that take elements out of their arrays need smaller ones every turn. */
static void *block(size_t size)
{
    int class = class_of(&size);
    if (size > KEPT)
        return aligned_alloc(LINE, size);
    for (int found = class; found < class + LARGER && found < CLASSES; found++)
        if (kept[found].count) {
            held -= size_of_class(found);
            return kept[found].blocks[--kept[found].count];
        }
    return aligned_alloc(LINE, size);
}

static void *allocate(void *context, size_t size)
{
    return size < LEAST || size >= MOST ? numpys->malloc(numpys->ctx, size) : block(size);
}

static void *allocate_zeros(void *context, size_t count, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(count, size, &all) || all < LEAST || all > KEPT) /* pages of larger ones are zero */
        return numpys->calloc(numpys->ctx, count, size);
    void *memory = block(all);
    return memory == NULL ? NULL : memset(memory, 0, all);
}

static void *reallocate(void *context, void *memory, size_t size)
{
    if (size >= LEAST && size <= KEPT)
        class_of(&size); /* when it is freed, it is a block of that class */
    return numpys->realloc(numpys->ctx, memory, size);
}

static void forget(void)
{
    for (int class = 0; class < CLASSES; class++)
        while (kept[class].count)
            free(kept[class].blocks[--kept[class].count]);
    held = 0;
}

static void release(void *context, void *memory, size_t size)
{
    if (memory == NULL || size < LEAST || size > KEPT) {
        numpys->free(numpys->ctx, memory, size);
        return;
    }
    size_t whole = malloc_usable_size(memory), limit = whole;
    int class = class_of(&limit); /* the block may have been that of a larger array */
    if (limit > whole)
        class--;
    int moved = (uintptr_t)memory % LINE != 0; /* by realloc, which aligns to 16 bytes */
    if (moved || class < 0 || class >= CLASSES) {
        free(memory);
        return;
    }
    size = size_of_class(class);
    if (held + size > HELD)
        forget(); /* of sizes that the program may not need any more */
    if (kept[class].count == DEPTH) {
        free(memory);
        return;
    }
    kept[class].blocks[kept[class].count++] = memory;
    held += size;
}

static PyDataMem_Handler handler = {
    "diffuse_aligned", 1, {NULL, allocate, allocate_zeros, reallocate, release}};

/* Has this thread's new arrays take their memory here, unless the program has chosen an allocator. */
int small_memory_ready(void)
{
    PyObject *present = PyDataMem_GetHandler();
    int chosen = present != PyDataMem_DefaultHandler;
    Py_XDECREF(present);
    if (present == NULL || chosen)
        return present == NULL ? -1 : 0;
    PyDataMem_Handler *given = PyCapsule_GetPointer(PyDataMem_DefaultHandler, "mem_handler");
    PyObject *ours = given == NULL ? NULL : PyCapsule_New(&handler, "mem_handler", NULL);
    if (ours == NULL)
        return -1;
    numpys = &given->allocator;
    PyObject *before = PyDataMem_SetHandler(ours);
    Py_DECREF(ours);
    Py_XDECREF(before);
    return before == NULL ? -1 : 0;
}
#else
int small_memory_ready(void) { return 0; }
#endif
