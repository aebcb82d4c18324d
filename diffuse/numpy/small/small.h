/* What the parts of the extension share: the array, which arrays are small, and how a call is recorded again. */
#ifndef DIFFUSE_SMALL_H
#define DIFFUSE_SMALL_H

#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL diffuse_small_numpy
#include <Python.h>
#include <structmember.h>
#ifndef SMALL_MODULE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

/* diffuse.numpy.arrays.core.Array: the fields mean what its docstrings say. */
typedef struct {
    PyObject_HEAD
    PyObject *storage, *form, *part, *meta, *memory, *owner;
    PyObject *weakrefs;
    char lent;
} Array;

/* What the Python side has told this module (see `connect` in module.c). */
typedef struct {
    npy_intp small;            /* elements below which arrays are computed at once */
    npy_intp tiny;             /* elements below which results stay NumPy's arrays */
    PyTypeObject *array_class; /* diffuse.numpy.ndarray */
    PyTypeObject *scalar_class;
    PyObject *slow;            /* core.slow: what is done where this module does not know */
    PyObject *engine;          /* whose epoch tells which stores tasks are pending on */
    PyObject *near, *near_to_write; /* of access, for arrays that have a store */
    PyObject *places;          /* single.places: where the program calls functions */
    PyObject *made_at_once;    /* of access */
    long often, most;          /* single.OFTEN, and that with single.TRUSTED */
    npy_intp bytes;            /* single.MOST */
    PyObject *folds;           /* the names of the module of reductions, for AT_ONCE */
    Py_ssize_t place_alone;    /* of single.Place */
    PyObject *before_out;      /* of lowering: arguments of a function before its output array */
    int sees;                  /* core.SEES */
    PyObject *raised;          /* lowering.raised, for results that look into their arguments */
    PyObject *moving;          /* arithmetic.MOVING */
    PyObject *refused;         /* native_gates.refused: NumPy's exception for arguments that a method does not take */
    PyObject *options;         /* lowering.OPTIONS: types of arguments that NumPy gets as they are */
    PyObject *ufuncs;          /* arithmetic.UFUNCS: ufuncs that go element by element */
    PyObject *numbers;         /* the types of NumPy's numbers that operations take by value */
    npy_intp allowance;        /* soon.py: bytes that operations may read and write between two values that the */
    npy_intp left;             /* program reads, and how many of them are left */
    int trial;                 /* is the allowance that of a program's beginning, which is used up? */
    long steps;                /* operations on small parts of large arrays since the last on whole ones */
    PyObject *at_hand;         /* access.at_hand */
    PyObject *counters, *single; /* trace.counters, and the name there of what is done at once */
    PyObject *fallbacks;         /* and of what only NumPy has */
    long loops;                  /* loops over slices on trial, of which soon.py has not told the stream yet */
} State;

extern State state;
extern PyTypeObject Array_Type, Operators_Type, Described_Type, Gate_Type, StaticGate_Type, Kind_Type, Direct_Type;
int small_kind_ready(void);

/* Both return a new reference, or NULL: with an exception if one was raised, else for "not at hand". */
PyObject *small_near(Array *x);
PyObject *small_number_or_near(PyObject *x);
/* Is it a list or tuple of fewer than `most` numbers of Python's, and nothing else? */
int small_sequence(PyObject *x, npy_intp most);
/* The array that NumPy makes of a list of floats, or of one of ints, that are exactly Python's; NULL, without an
 * exception unless one was raised, where NumPy has to look. */
PyObject *small_listed(PyObject *list);

Array *small_blank(void);               /* a new array whose fields are to be filled in */
void small_recycle(PyTypeObject *type); /* keep the memory of arrays of this class for the next ones */
/* Calls a ufunc on `n` values with an output behind them, by name: NumPy warns of an extremum's output by position. */
PyObject *small_into(PyObject *ufunc, PyObject *const *values, Py_ssize_t n);
PyObject *small_given(PyObject *found); /* steals `found`, a fresh array of NumPy's */
PyObject *small_hosted(PyObject *memory, PyObject *form);
PyObject *small_viewing(Array *parent, PyObject *meta);
PyObject *small_chosen(Array *x, PyObject *index); /* by an index with arrays; NULL as above */
PyObject *small_looking(Array *parent, PyObject *memory);
PyObject *small_index(Array *x, PyObject *index); /* with NumPy's arrays, for a small array; NULL as above */
/* `x[index] = value` through arrays at hand, of whatever size, if NumPy is sooner than a task: 1 if that was done, 0 if
 * not, -1 with an exception. */
int small_choose(Array *x, PyObject *index, PyObject *value);
/* `x[mask] = number` on arrays that lie in memory alike, without a branch for each element, which processors mispredict:
 * 1 if that was done, 0 if NumPy has to do it. */
int small_fill_masked(PyArrayObject *x, PyObject *mask, PyObject *number);
PyObject *small_at_hand(Array *x); /* the memory, of whatever size, as far as can be told at once; NULL as above */
PyObject *small_near_to_write(Array *x);
/* What a Python function says of an array: NULL, without an exception, for None. */
PyObject *small_asked(PyObject *function, Array *x);
int small_native(PyArrayObject *x);
int small_unattached(Array *x); /* may the memory of an array that no store was given to be used? */
int small_readable(Array *x); /* is the memory at hand, as far as can be told at once?  -1 with an exception */
int small_get_buffer(Array *x, Py_buffer *view, int flags); /* Python's buffer protocol, of arrays and numbers */
PyObject *small_mine(Array *x); /* the memory to write to, likewise; NULL as above */
int small_moves(PyObject *ufunc); /* does some place of the program bring it other views every turn? */
/* Gives a class of arrays attributes of its own for what `Described` has for all: Python looks through the bases of an
 * object's class at each use of an attribute that another class defines.  -1 with an exception. */
int small_describe(PyTypeObject *kind);
int small_hand_ready(void);
int small_draws_ready(void);
/* Of ziggurat.c: the addresses of NumPy's random_standard_normal, _exponential and _uniform, and its class Generator. */
void small_connect_reals(void *const *functions, PyTypeObject *generator);
/* Of integers.c: NumPy's class PCG64, and a function that says whether it draws the same numbers. */
void small_connect_integers(PyTypeObject *pcg64, PyObject *function);
void small_connect_room(PyObject *function); /* of draws.c: gives an array of so many numbers of a type */
void small_connect_pieces(PyObject *function); /* calls a function in several threads at the same time */
PyObject *small_products(PyObject *module, PyObject *args); /* ops/stacks.py */
PyObject *small_inverses(PyObject *module, PyObject *args);
PyObject *small_tridiagonal(PyObject *module, PyObject *args); /* scipy/banded.py */
PyObject *small_integers_of(PyObject *module, PyObject *args); /* draws.integers */
int small_reductions_ready(void);
int small_operators_ready(void);
int small_memory_ready(void); /* of memory.c: aligned memory for NumPy's arrays */
extern PyMethodDef small_methods[]; /* of protocol.c: those of arrays */
/* Of parts.c: the view of NumPy's array that an index selects, and the element; NULL, without an exception unless one
 * was raised, for all other indices. */
PyObject *small_part(PyObject *array, PyObject *index);
PyObject *small_element(PyObject *array, PyObject *index);
char *small_spot(PyObject *array, PyObject *index); /* where that element lies */
int small_same(PyArrayObject *one, PyArrayObject *other); /* are they the same elements in the same memory? */
PyObject *small_shown(PyObject *found); /* `small_given` of an array; anything else as it is */
int small_spreads(PyObject *left, PyObject *right); /* is the result of two arrays larger than small ones are? */
void small_numbers(void); /* of numbers.c: NumPy's numbers know arrays on their right */
/* Of taught.c: NumPy's own arrays know arrays as outputs, values and masks; base.writable, base.wrote and base.host are
 * given. */
void small_teach(PyObject *for_writing, PyObject *after_writing, PyObject *for_reading);
void small_teach_generator(PyObject *method, PyObject *function);
int small_teach_view(void); /* of arrays of NumPy's, the class of ours */

/* Of loops.c.  What NumPy's ufunc gives of so many values, by its inner loop: a new array, or NULL, without an exception
 * unless one was raised, if NumPy has to do it.  Into an array that shares no memory with them: 1 if it is done. */
PyObject *small_loop_of_ufunc(PyObject *ufunc, PyObject *const *values, Py_ssize_t n);
int small_warns(PyObject *ufunc); /* does it warn of an output that has no name? */
int small_loop_into(PyObject *ufunc, PyObject *const *values, Py_ssize_t n, PyObject *memory);

/* Of record.c: a call of NumPy's function that was recorded before on these views, recorded again; `b` is NULL for
 * one operand.  Py_None if it was not, NULL with an exception. */
PyObject *small_known(PyObject *function, PyObject *a, PyObject *b);
PyObject *small_ask_known(PyObject *function, PyObject *a, PyObject *b); /* the same by Python's code */

/* Of temporaries.c: the operand, `a` or `b`, whose memory got the result of an operator, a new reference; NULL, without
 * an exception unless one was raised, where that may not be.  `left` and `right` are their memory, or numbers; operators
 * have the numbers of operators.h, and `frame` is that of the function in the type's slot. */
PyObject *small_over_temporary(int name, PyObject *a, PyObject *b, PyObject *left, PyObject *right, void **frame);
int small_is_interpreted(void); /* did the interpreter call the operator that runs, and nothing else in between? */
/* The memory of one operand of NumPy's ufunc, one of `values`, if the result may take it; else NULL. */
PyObject *small_temporary_of(PyObject *ufunc, PyObject *const *operands, PyObject *const *values);

/* The same for calls that write an array, and for `x[index] = value`: 1 if the call was recorded; 0 if Python's code
 * has to look, and -1 with an exception. */
int small_known_into(PyObject *function, PyObject *const *operands, Py_ssize_t n, Array *out);
int small_known_assignment(Array *x, PyObject *index, PyObject *value);

/* As known.call and known.rolled. */
PyObject *small_known_function(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *small_known_roll(PyObject *module, PyObject *const *args, Py_ssize_t n);
/* Of fills.c: a new array that is filled with a number by this known call; None if Python's code has to. */
PyObject *small_filled(PyObject *module, PyObject *const *args, Py_ssize_t n);

/* The same for any call of a ufunc of so many inputs with one result. */
PyObject *small_known_call(PyObject *ufunc, Py_ssize_t inputs, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

/* An assignment whose name, but for its first part and those of the operands, has `n` parts. */
int small_known_put(PyObject **names, Py_ssize_t n, Array *x, PyObject *index, PyObject *value);

/* Of slices.c: a large slice of an array that was sliced so before; NULL, without an exception unless one was
 * raised, if not.  `found` is that slice of its memory, or NULL where nobody made it yet. */
PyObject *small_known_slice(Array *x, PyObject *index, PyObject *found);
int small_seek(PyObject *x); /* look for the view of a large array where it is not known: -1 with an exception */
int small_located(Array *x);       /* was the view found before of an array that looks as this one does?  Sets it. */
void small_note_located(Array *x); /* keep the view of an array for such arrays */
int small_connect_known(PyObject *parts);
int small_connect_roll(PyObject *stream, PyObject *known);
int small_connect_slices(PyObject *parts);

/* Of moving.c: NumPy's result on operands of any size, in a new array or in the first operand, where the program's
 * place brings other views every turn; `b` is NULL for one operand.  Py_None if the call is to be recorded; NULL if Python's code has to look, or
 * with an exception. */
PyObject *small_moved(PyObject *ufunc, PyObject *a, PyObject *b);
/* Before an operation is done at once for another reason: 1 if it was done because its views move, `found` being its
 * result or NULL with an exception, or if Python's code has to look, NULL without one; else 0. */
int small_moved_before(PyObject *ufunc, PyObject *a, PyObject *b, PyObject **found);
PyObject *small_moved_in_place(PyObject *ufunc, PyObject *a, PyObject *b);
long small_calls(PyObject *ufunc, PyObject *const *operands, Py_ssize_t n); /* on the same views before this one */
/* Notes the views of an operation among the first ones of a program, which are done at once, so that places that bring
 * other views every turn are known when recording begins: -1 with an exception. */
int small_met(PyObject *ufunc, PyObject *const *operands, Py_ssize_t n);
void small_connect_met(PyObject *noted);
int small_connect_moving(PyObject *grants, uint64_t mirrors, uint64_t mirrored);

/* A call that was recorded before, by its name, and what the trail expected if it was this call (join.c); else NULL. */
typedef struct {
    PyObject *const *names;
    Py_ssize_t n;
    PyObject *known, *expected;
} KnownCall;

/* Of stream.c: the engine's `again` for a new store of this frame whose handle `small_store` made, and
 * `again_into` where `frame` is NULL.  `call` is NULL for one of several tasks of a call.  `depth` counts the calls of Python functions since the program's line.
 * 1 if the task was recorded; 0, with nothing changed, if Python's code has to; -1 with an exception. */
enum { SMALL_PARTS = 20, SMALL_STORES = 6 }; /* of a key, and of a task, at most */
int small_again(PyObject *template, const KnownCall *call, PyObject *const *inputs, Py_ssize_t n, PyObject *out,
                PyObject *frame, PyObject *values, int depth);
PyObject *small_store(void); /* of handles.c */
/* Of join.c: what the open group's trail expects, and the known call, if the call has this name; else NULL. */
PyObject *small_expected(PyObject *const *names, Py_ssize_t n, PyObject **known);
int small_exported(PyObject *storage);
int small_idle(PyObject *storage); /* is no task pending on a store?  -1 where Python's code has to say */
/* Is a store's memory certain not to be at hand for reading, or for writing, and nothing to be waited for (arrays/access.py)?
 * Only where that is told at once. */
int small_pending(PyObject *storage, int writes);
int small_holds(void); /* are recorded tasks held back? */
int small_wrote(PyObject *storage); /* count a write by the host to a store of which `small_idle` tells; -1 as usual */
/* single.trusted: count a call that NumPy is to do; 0 where it is to be recorded, -1 with an exception. */
int small_trusted(PyObject **alone, long often, long most);
PyObject **small_alone(PyObject *template); /* `Template.alone` */
PyObject *small_line(void);                 /* the program's, as provenance.where; a new reference */
int small_eager(void);                      /* do floating-point errors raise or call? */
int small_waited_for(PyObject *template, long often); /* is `Template.alone` at least so large? */
/* May NumPy do a task of few elements at once, because nothing pending uses its output, or its loop walks? */
int small_hasty(PyObject *template, PyObject *storage);
Py_ssize_t small_slot(PyObject *type, const char *name); /* where objects have it; -1 with an exception */
PyObject *small_found(PyObject *table, PyObject *const *parts, Py_ssize_t n);
int small_connect_stream(PyObject *parts);
/* Of sketch.c. */
PyObject *small_uses_of(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *small_live_bits(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *small_unreferenced(PyObject *module, PyObject *const *args, Py_ssize_t n);
PyObject *small_forget(PyObject *module, PyObject *const *args, Py_ssize_t n);
int small_connect_sketch(PyObject *parts);
/* Of collector.c: what `thaw` of the module does. */
PyObject *small_thaw(PyObject *module, PyObject *const *args, Py_ssize_t n);
/* Of capsule.c: the address of a destructor of capsules that calls a function with their addresses. */
PyObject *small_capsule_destructor(PyObject *module, PyObject *function);

/* Of place.c: the program's line, as `provenance.where` finds it so many calls of Python functions up; a new
 * reference. */
PyObject *small_place(int depth);
int small_connect_place(PyObject *parts);

/* Of lock.c: the engine's lock. */
int small_unlocked(void); /* does nobody hold it? */
int small_lock(void);     /* -1 with an exception */
void small_unlock(void);
int small_connect_lock(PyObject *engine);

/* Of soon.c.  What has NumPy's bits, so that a large operation may be done at once: nothing; whole numbers; real
 * ones; complex128, too; all complex ones, too. */
enum { SMALL_NEVER, SMALL_WHOLE, SMALL_SINGLE, SMALL_REAL, SMALL_DOUBLE, SMALL_ANY };
enum { SMALL_CALL = 80000 }; /* bytes that NumPy reads and writes in the time that a call takes */

/* Both operands of such an operation (`b` may be NULL) if it is to be done now: 1; 0 if not, -1 with an exception. */
int small_soon(PyObject *a, PyObject *b, int way, PyObject **left, PyObject **right);
PyObject *small_soon_operand(PyObject *x, int way, npy_intp *bytes);
void small_connect_products(int fused); /* are NumPy's of complex128 fused multiply-adds? */
int small_counts(PyObject *name); /* one more in trace.counters; 0 with an exception */
int small_spend(npy_intp bytes); /* may so much be read and written?  0 with an exception, too */
void small_grant(npy_intp bytes); /* allow what follows an operation on new views this much; -1: nothing any more */
enum { SMALL_WAIT = 32 << 20 };  /* bytes between two values that the program reads for which recording saves nothing */

/* Note that the program reads a value.  On trial, only what recording might have saved is used up. */
static inline void small_looked(void)
{
    if (state.trial && state.allowance - state.left > SMALL_WAIT)
        state.allowance = state.left + SMALL_WAIT;
    state.left = state.allowance;
}

/* Of functions that every view needs: they lie side by side, as views took 20 ns longer where they did not. */
#define HOT __attribute__((hot))

/* The number of elements: `PyArray_SIZE` calls a function of NumPy's. */
static inline npy_intp size_of(PyObject *x)
{
    npy_intp size = 1;
    for (int d = 0; d < PyArray_NDIM((PyArrayObject *)x); d++)
        size *= PyArray_DIM((PyArrayObject *)x, d);
    return size;
}

/* Note an operation on few elements of an array.  So many on parts of large arrays, with none on whole ones between,
 * are a loop over slices, which would have to wait for what was recorded, as a value does that the program reads. */
enum { SMALL_LOOP = 128 };
static inline void small_step(Array *x)
{
    if (state.allowance > 0 && x->owner != NULL && x->owner != Py_None
            && size_of(((Array *)x->owner)->meta) >= state.small && ++state.steps == SMALL_LOOP) {
        state.loops += state.trial;
        small_looked();
    }
}

/* Is a type hashed by Python's own code?  A metaclass of the program's may run any other, or have none. */
static inline int small_is_plain_type(PyTypeObject *type) { return Py_TYPE(type)->tp_hash == PyType_Type.tp_hash; }

/* Is a type among these, all of which are hashed so? */
static inline int small_is_among(PyTypeObject *type, PyObject *types)
{
    return small_is_plain_type(type) && PySet_Contains(types, (PyObject *)type) > 0;
}

/* A slot of an object of a Python class; small_slot says where it is. */
#define SLOT(object, place) (*(PyObject **)((char *)(object) + (place)))

/* Is it a class of pending numbers, of which there is one for each element type? */
static inline int small_is_pending(PyTypeObject *type) { return type->tp_base == state.scalar_class; }
static inline int small_is_ours(PyObject *x)
{
    return Py_TYPE(x) == state.array_class || small_is_pending(Py_TYPE(x));
}

static inline int absent(PyObject *x) { return x == NULL || x == Py_None; }

#endif
