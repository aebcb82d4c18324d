/* Launches of compiled code on the runtime's threads without a task. */
#ifndef DIFFUSE_TEAM_H
#define DIFFUSE_TEAM_H

#include "small.h"
#include "flags.h"

/* A kernel's entry points (kernels/body/abi.py): one point of a launch, and what follows on the last one. */
typedef void (*Point)(char *block, int64_t point);
typedef void (*Finish)(char *block);

/* Run a launch over the indices of one dimension, each of which stands for `row` elements, and of which a point gets a
 * multiple of `leaf`; wait for it.  The runtime's threads join in where that is faster.  The block is one for a single
 * point, of one dimension.  `alone` keeps how many nanoseconds such a launch takes on one thread; 0: not known.  Python's
 * lock is held.  Returns the floating-point exceptions that were raised, of those in SMALL_RAISED. */
unsigned small_team_run(Point run, Finish finish, int64_t *block, npy_intp words, npy_intp size, npy_intp row,
                        npy_intp leaf, int64_t *alone);
enum { SMALL_SHARE = 30000 }; /* the fewest elements of a point */
/* Bytes of a cache line, and how many elements of a row take as long as one that has a line of its own. */
enum { SMALL_LINE = 64, SMALL_APART = 8 };
/* Of shares.c: where `alone` is kept for such code and so many elements. */
int64_t *small_time_of(const void *code, npy_intp size);
void small_connect_team(PyObject *function);

#endif
