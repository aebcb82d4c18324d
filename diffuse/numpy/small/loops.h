/* What loops.c, strided.c, rows.c and copies.c share: the common types, numbers beside arrays of them, and NumPy's inner loops. */
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

/* Code for rows of elements at any distances: `a` and `b` have these bytes between rows, and between elements; those of
 * the result lie side by side in each row. */
typedef void (*StridedRows)(npy_intp rows, npy_intp n, char *to, npy_intp to_row, const char *a, npy_intp a_row,
                            npy_intp a_step, const char *b, npy_intp b_row, npy_intp b_step);

/* Where code for strided rows is faster than a loop on long rows: where elements are apart; there and where an operand has
 * one element for the whole row; on all; nowhere, but on many rows of medium length. */
enum { WHERE_APART, BESIDE_ONE, ALWAYS, IN_ROWS };

/* An inner loop of a ufunc. */
typedef struct Loop {
    PyUFuncGenericFunction run;
    void *data;
    int made;  /* the type of the results */
    int alone; /* may NumPy take rows in other pieces, so that bits may differ? */
    int width; /* the bytes of an operand's element */
    StridedRows strided; /* the same operation, or NULL */
    int silent;          /* does it raise no floating-point errors, as that code may do with NaNs? */
    int slow;            /* where it is faster than the loop on long rows: see above */
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

static inline npy_intp rows_of(int dims, const npy_intp *shape)
{
    npy_intp rows = 1;
    for (int d = 0; d < dims - 1; d++)
        rows *= shape[d];
    return rows;
}

/* Are rows short, and more than a few?  An inner loop for each of them takes longer than their elements. */
static inline int brief(int dims, const npy_intp *shape) { return shape[dims - 1] < SHORT && rows_of(dims, shape) > SHORT; }

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

/* The operator's loop for these operands, which `sides` get, and the shape of the result; NULL if NumPy has to look. */
const Loop *small_loop_for(int name, PyObject *const *given, int n, int *dims, npy_intp *shape, Side *sides);
/* Join neighbouring dimensions that every side goes through as through one. */
int small_merged(int dims, npy_intp *shape, Side *sides, int count);
/* Do two arrays share no memory, or have each element at the same place? */
int small_same_or_apart(PyArrayObject *one, PyObject *other);
/* Of strided.c: the code for an operator on operands of a kind, or NULL. */
StridedRows small_strided_rows(int name, int kind);
/* Run that code of a loop over all elements; 0, with nothing done, where the loop has none, or is as fast.  It needs
 * nothing of Python's. */
int small_run_strided(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count);
/* Of extremes.c: give a loop of the ufunc of this name its code for strided rows, if there is some there. */
void small_quicken(const char *name, Loop *loop);

/* Run a loop over all elements, row after row.  0 if there are floating-point errors to report. */
int small_ran(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count);
/* Of shares.c: the same on the runtime's threads, with Python's lock held; 0, with nothing done, for few elements.
 * `raised` gets the floating-point errors. */
int small_shared(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count, unsigned *raised);

#endif
