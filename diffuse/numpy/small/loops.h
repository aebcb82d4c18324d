/* What loops.c, rows.c and copies.c share: the common types, numbers beside arrays of them, and NumPy's inner loops. */
#ifndef DIFFUSE_LOOPS_H
#define DIFFUSE_LOOPS_H

#include "operators.h"
#define PY_UFUNC_UNIQUE_SYMBOL diffuse_small_ufuncs
#define NO_IMPORT_UFUNC
#include <numpy/ufuncobject.h>

enum { RANK = 8 };   /* the most dimensions of results */
enum { SHORT = 32 }; /* the elements of a short row, and how many of them are not many */
enum { BOOL, BYTE, LONG, SINGLE, DOUBLE, DOUBLES, KINDS, NONE = -1 };

typedef union { npy_bool truth; npy_ubyte byte; npy_long whole; float single; double number, pair[2]; } Number;

/* An inner loop of a ufunc. */
typedef struct Loop {
    PyUFuncGenericFunction run;
    void *data;
    int made;  /* the type of the results */
    int alone; /* may NumPy take rows in other pieces, so that bits may differ? */
    int width; /* the bytes of an operand's element */
} Loop;

/* An operand, or the result: its memory, and its strides over the dimensions of the result. */
typedef struct {
    char *data;
    npy_intp strides[RANK];
    Number number;
} Side;

/* Of reductions.c: the loop of NumPy's that does such a fold (gate.h) of this type; 0 if there is none. */
int small_fold_loop(int fold, int kind, Loop *loop);

/* Go on to the next index of the first `dims` dimensions: move `data`, of which the elements of `sides` are counted.
 * 0 after the last index. */
static inline int small_next(int dims, npy_intp *place, const npy_intp *shape, char **data, const Side *sides, int count)
{
    int d = dims - 1;
    for (; d >= 0 && ++place[d] == shape[d]; d--) {
        place[d] = 0;
        for (int k = 0; k < count; k++)
            data[k] -= (shape[d] - 1) * sides[k].strides[d];
    }
    for (int k = 0; d >= 0 && k < count; k++)
        data[k] += sides[k].strides[d];
    return d >= 0;
}

extern PyArray_Descr *small_types[KINDS]; /* NumPy's own descriptions of them */
int small_kind(int type); /* of NumPy's types; NONE of the others */
int small_plain(PyObject *x); /* an array of one of them that may be read as it lies */
/* A number of Python's, or of NumPy's own of this type, as NumPy takes it beside an array of this type; 0 if it is
 * another, or if NumPy might have a warning or an error for it. */
int small_taken(int kind, PyObject *x, Number *number);
/* May two arrays that are not empty have memory in common? */
int small_overlap(PyArrayObject *one, PyArrayObject *two);
/* Do the elements of an array of some dimensions lie in C's order, each at a place of its own? */
int small_apart(PyArrayObject *array);
/* Of rows.c.  Copy elements of such a width between two arrays of strides of any kind that do not overlap. */
void small_move(int dims, const npy_intp *shape, npy_intp width, char *to, const npy_intp *far, const char *from,
                const npy_intp *step);
/* Do the elements of an array lie so far apart, and are they so many, that threads share them? */
int small_scattered(PyObject *x);
/* Of shares.c: the same for many rows of elements that lie far apart at their places, on the runtime's threads, with
 * Python's lock held; 0, with nothing done, for others. */
int small_move_shared(int dims, const npy_intp *shape, npy_intp width, char *to, const npy_intp *far, const char *from,
                      const npy_intp *step);
/* Run a loop over all elements, with operands that are gathered where their rows are short, and a result of `out` bytes,
 * the last side, in C's order.  It needs nothing of Python's. */
void small_run_gathered(const Loop *loop, int dims, const npy_intp *shape, npy_intp out, const Side *sides, int count);

/* Run a loop over all elements, row after row.  0 if there are floating-point errors to report. */
int small_ran(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count);
/* Of shares.c: the same on the runtime's threads, with Python's lock held; 0, with nothing done, for few elements.
 * `raised` gets the floating-point errors. */
int small_shared(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count, unsigned *raised);

#endif
