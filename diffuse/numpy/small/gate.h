/* A gate, and what gate.c, arguments.c, permission.c, results.c and ways.c share about one of its calls. */
#ifndef DIFFUSE_GATE_H
#define DIFFUSE_GATE_H

#include "views.h"

/* What a function needs to be given so that NumPy's own may be called at once. */
enum { ARRAYS,      /* at least one array, or a sequence of numbers */
       ANYTHING,    /* arrays and numbers */
       SHAPED,      /* the shape of its result first */
       RANGING,     /* `arange`: bounds and a step */
       SPACING,     /* `linspace`: two ends, and how many */
       SQUARING,    /* `eye`: rows, and perhaps columns */
       DRAWING };   /* a method of a random generator: numbers, shapes and names (draws.c) */
enum { FIRST = 8,   /* a reduction that goes along the first axis unless it is told another one */
       WRITES = 16, /* writes into an argument without saying so by `out` */
       OPERATES = 32, /* a ufunc: operands are broadcast */
       BELONGS = 64,  /* a method, whose first argument is the array */
       MULTIPLIES = 512, /* results may have as many elements as all arguments multiplied */
       OVERRUNS = 128, /* NumPy lets it write behind an output that is too small */
       MASKLESS = 256, /* its masks are not to be trusted (SciPy 1.17 writes behind masked results) */
       VIEWS = 1024,  /* gives a view of its first argument, found from the description of that */
       PACKED = 2048, /* gives a view only of elements that lie side by side */
       RETYPES = 4096, /* the view may be of another element type */
       ONE = 8192, TWO = 16384, /* ufuncs of so many operands with one result */
       AIMS = 1 << 15,  /* writes into its first argument and nothing else */
       KEEPS = 1 << 16, /* gives an array of Diffuse's back as it is */
       READS = 1 << 17, /* a method that only reads memory, of whatever size */
       FOLDS = 1 << 18, /* a reduction that gives NumPy's bits of all real elements */
       ADDS = 1 << 19,  /* only of whole numbers */
       BLANK = 1 << 20, /* makes an array whose elements have no values */
       REPEATS = 1 << 21, /* the result is the first argument as many times as the second one says */
       COPIES = 1 << 22, /* has NumPy's bits in results of any size, of which NumPy makes FEW elements faster */
       WAYS = 1 << 23 }; /* times SMALL_ANY and the like: for which types it has NumPy's bits (soon.c) */
enum { FEW = 1 << 18 };
enum { NORMALS = 1, EXPONENTIALS, EVEN, INTEGERS }; /* what a method of a random generator draws */
enum { SMALL_SUM = 1, SMALL_MEAN, SMALL_MAX, SMALL_MIN, SMALL_ANYWHERE, SMALL_ANY_TRUE, SMALL_ALL, SMALL_COUNT,
       SMALL_ARGMAX, SMALL_ARGMIN, SMALL_PTP };
enum { MOST = 16 }; /* arguments that a gate looks at */

typedef struct {
    PyObject_HEAD
    PyObject *real, *ours, *dict, *weakrefs;
    PyObject *function; /* NumPy's as the program knows it, or how many arguments come before the output array */
    PyObject *watched;  /* the same function, if NumPy does it where the program waits for each call; else NULL */
    PyObject *told;     /* of a function that is NumPy's in any case: the program's lines that know it; else NULL */
    int few;            /* a bit for each argument that has to have few elements for that */
    int rank;           /* the most dimensions of its arrays for that; 0: any */
    const struct Loop *loops; /* of a ufunc, once it was `looked` for them: those that small_call_loop calls */
    int looked;
    int need, flags;
    Quick quick;   /* what gives a view, or an element or a few added up, without NumPy; else NULL */
    int at_hand;   /* it takes the memory of the array, if that is at hand, and not its description */
    int describes; /* its result is no view, but what the description tells */
    int reduces;   /* SMALL_SUM or the like: a reduction of that name; told by Python's code of a ufunc's `reduce` */
    int sections;  /* SMALL_SUM or the like: a `reduceat` of that ufunc, likewise */
    int rolls;     /* `roll` */
    int zeros;     /* `zeros` */
    int selects, likens, duplicates; /* `where`; `zeros_like`; `array` */
    Py_ssize_t sized, most; /* of a method that draws: which argument says how many numbers, and the number from which
                               Diffuse's own draws them; 0 where NumPy's draws any */
    int draws;     /* and which numbers the extension draws itself (draws.c) */
    vectorcallfunc call;
} Gate;

/* The arguments of one call as NumPy gets them, and what was found out about them. */
typedef struct {
    PyObject *seen[MOST]; /* arrays among the arguments, at any depth; borrowed, but for those `held` */
    unsigned held;        /* a bit for each of these in a sequence, which the program may change meanwhile */
    int arrays, wrapped;  /* how many, and how many of these are Diffuse's */
    int large;            /* arrays of Diffuse's may have any size */
    npy_intp total;       /* bytes of all arrays */
    npy_intp product;     /* elements of all arguments, multiplied */
    int different;        /* shapes differ */
    int dims;             /* dimensions of the arguments broadcast together, the last first */
    npy_intp shape[NPY_MAXDIMS];
    int numbers;          /* a sequence of numbers is among the arguments */
    int index;            /* it is an index: slices are taken, too */
    Py_ssize_t items;     /* of all sequences among the arguments */
    int way;              /* SMALL_ANY or the like: arrays may be large, of these types; SMALL_NEVER: they may not */
    npy_intp bytes;       /* of these arrays */
    npy_intp width;       /* of the widest element */
} Found;

/* Of arguments.c.  `small_lower_all` gives all arguments of a call as NumPy gets them, and notes what it found: 1;
 * 0, with nothing to release, if the call has to go to Diffuse or an exception was raised.  The memory of argument
 * `target` is to be written to; -1 means none. */
int small_lower_all(PyObject *const *args, Py_ssize_t all, Py_ssize_t target, PyObject **low, Found *found);
void small_release(PyObject **low, Py_ssize_t all, Found *found); /* drop the references that that gave */
int small_is_option(PyObject *x);                   /* an argument that NumPy gets as it is, and that is no array */

/* Of permission.c. */
int small_permitted(Gate *gate, Found *found, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
/* Is an output given, or an option to overwrite an argument?  -1 with an exception. */
int small_may_write(Gate *gate, Py_ssize_t n, PyObject *kwnames);
/* Few elements, unless a call on large arrays is to be done at once, by a mask that is trusted. */
int small_writes_small(Gate *gate, Found *found, PyObject *kwnames);
/* Elements of the array that a function makes, as far as its arguments by position tell, or some more; negative where
 * that is not plain. */
npy_intp small_makes(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
/* Does the call make a small array?  One without values may be larger: nothing is computed, and only pages that nobody
 * used cost time. */
int small_makes_few(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
Py_ssize_t small_keyword(PyObject *kwnames, const char *name); /* where it is among the names, or -1 */

/* Of results.c.  `small_answer` calls NumPy's function with these arguments and gives what the program gets of the
 * result; `small_made` gives that of a result, which it steals, that a task may use next. */
PyObject *small_answer(Gate *gate, PyObject *const *low, Py_ssize_t n, PyObject *kwnames, Found *found);
/* The axis of a call of a reduction that says no more; NULL of other calls. */
PyObject *small_axis(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *small_made(PyObject *result, Found *found, PyObject *place);

/* Of draws.c: a call of a method of a random generator. */
PyObject *small_draw(Gate *gate, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* Of loops.c: a ufunc's result on arrays and numbers; NULL, without an exception unless one was raised, if NumPy has to
 * look. */
PyObject *small_call_loop(Gate *gate, PyObject *const *low);
/* The same in the memory of an operand that nobody needs any more: 1 if it is done. */
int small_call_loop_over(Gate *gate, PyObject *const *low, PyObject *memory);
/* Of temporaries.c: the argument, a new reference, whose memory got a ufunc's result; NULL where that may not be.  `frame`
 * is that of the gate's function. */
PyObject *small_call_over_temporary(Gate *gate, PyObject *const *args, PyObject *const *low, Py_ssize_t n, void **frame);

/* Of select.c: what `where` gives of three arguments, and `zeros_like` and `array` of one, likewise. */
PyObject *small_where(PyObject *const *given);
PyObject *small_zeros_like(PyObject *x);
PyObject *small_duplicate(PyObject *x);

/* Of sums.c: the sums of a small array along `axis`, likewise. */
PyObject *small_sum(PyObject *given, PyObject *axis);

/* Of reductions.c: what a reduction without options gives of a small array, as NumPy has it.  NULL, without an exception
 * unless one was raised, if NumPy has to look. */
PyObject *small_reduce(Gate *gate, PyObject *given);

/* Of parted.c, likewise: what a reduction of all elements of a large array gives, `any` and `all` of bools of any number,
 * and how many bools are true, as `sum` or `count_nonzero`. */
PyObject *small_parted(int fold, PyArrayObject *x);
PyObject *small_parted_rows(int fold, PyArrayObject *x); /* where the extremes of rows along the last axis are, likewise */
/* What `reduceat` gives of a large vector and the places at which its sections begin, likewise. */
PyObject *small_sections(int fold, PyObject *of, PyObject *at);
PyObject *small_searched(int fold, PyArrayObject *x);
PyObject *small_counted(int fold, PyArrayObject *x);

/* Of ways.c: how a call is done that is not NumPy's on small arrays.  NULL, without an exception unless one was
 * raised, where Diffuse's own function has to see to it. */
PyObject *small_views(Gate *gate, PyObject *const *args, Py_ssize_t n);
PyObject *small_read_from(Gate *gate, PyObject *const *args, Py_ssize_t n);
Py_ssize_t small_target(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *small_write_to(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames, Py_ssize_t target);
PyObject *small_call_soon(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *small_fold(Gate *gate, PyObject *given, PyObject *axis);
PyObject *small_borrowed(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *small_call_at_once(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

/* How many arguments there are, by position and by name. */
static inline Py_ssize_t small_count(Py_ssize_t n, PyObject *kwnames)
{
    return n + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
}

/* The operands of a ufunc with one result; 0 of other functions. */
static inline Py_ssize_t small_inputs(Gate *gate) { return gate->flags & ONE ? 1 : gate->flags & TWO ? 2 : 0; }

/* Of roll.c: a roll that was recorded before, recorded again; NULL where Python's code has to look. */
PyObject *small_roll_again(Gate *gate, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

#endif
