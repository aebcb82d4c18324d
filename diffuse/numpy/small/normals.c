/* Numbers with a normal distribution: those that NumPy's generator draws, in a third of its time.
 *
 * NumPy draws by the ziggurat method.  A word of the generator says which layer a number is in, its sign, and how far it
 * lies from 0; all but one in a hundred are the number then.  NumPy branches on the sign, which no processor predicts;
 * here the sign is a bit of the result.  All other numbers are drawn by NumPy's own function, from the same word on.  The
 * widths of the layers are those that this function shows when it is given chosen words. */
#include "gate.h"
#include <numpy/random/bitgen.h>

typedef double (*Draw)(bitgen_t *);

enum { LAYERS = 256, SIGN = 8, FAR = 9, BITS = 52 }; /* the bits of a word: layer, sign, and how far */
enum { WORTH = 100000 };       /* numbers that take NumPy as much longer as finding the layers takes */
enum { TRIED = 2000 };         /* numbers that are compared with NumPy's */
enum { HOLD = 50000 };         /* numbers for which Python's lock is held */

static Draw numpys;            /* random_standard_normal of numpy.random */
static PyTypeObject *kind;     /* its Generator */
static double width[LAYERS];   /* for each layer, what the distances in words are multiplied by */
static uint64_t least[LAYERS]; /* and the least distance from which on a word may not be a number */
static int ready;              /* are these known?  -1: NumPy's numbers are others */
static npy_intp left = WORTH;

/* A source whose first word is given, and that counts what is drawn after it. */
typedef struct {
    uint64_t word;
    int given, others;
    bitgen_t *source; /* of what is drawn after it; NULL for a trial */
} Given;

static uint64_t next_word(void *at)
{
    Given *from = at;
    if (!from->given) {
        from->given = 1;
        return from->word;
    }
    from->others++;
    return from->source == NULL ? 0 : from->source->next_uint64(from->source->state);
}

static uint32_t next_half(void *at)
{
    Given *from = at;
    from->given = 1;
    from->others++;
    return from->source == NULL ? 0 : from->source->next_uint32(from->source->state);
}

static double next_double(void *at)
{
    Given *from = at;
    from->others++;
    return from->source == NULL ? 0.5 : from->source->next_double(from->source->state);
}

/* The number that NumPy draws if this word comes first; `plain` says whether it drew no others. */
static double drawn_from(uint64_t word, bitgen_t *source, int *plain)
{
    Given from = {.word = word, .source = source};
    bitgen_t bits = {.state = &from, .next_uint64 = next_word, .next_uint32 = next_half, .next_double = next_double,
                     .next_raw = next_word};
    double found = numpys(&bits);
    *plain = from.others == 0;
    return found;
}

static inline double drawn_by(bitgen_t *source)
{
    uint64_t word = source->next_uint64(source->state), layer = word & (LAYERS - 1);
    uint64_t far = word >> FAR & (((uint64_t)1 << BITS) - 1);
    union { double number; uint64_t bits; } found = {.number = (double)(int64_t)far * width[layer]};
    found.bits ^= word >> SIGN << 63;
    if (__builtin_expect(far < least[layer], 1))
        return found.number;
    int plain;
    return drawn_from(word, source, &plain);
}

/* Find the layers, and compare numbers of both functions: are they the same? */
static int layers_found(void)
{
    int plain;
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        width[layer] = drawn_from((uint64_t)1 << FAR | layer, NULL, &plain);
        uint64_t low = 0, high = (uint64_t)1 << BITS; /* the least distance is not below, and not above these */
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            drawn_from(middle << FAR | layer, NULL, &plain);
            if (plain)
                low = middle + 1;
            else
                high = middle;
        }
        least[layer] = low;
    }
    uint64_t word = 0;
    for (int k = 0; k < TRIED; k++) {
        word = (word ^ word >> 29) * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019;
        uint64_t far = word >> FAR & (((uint64_t)1 << BITS) - 1), layer = word & (LAYERS - 1);
        double want = drawn_from(word, NULL, &plain), found = (double)(int64_t)far * width[layer];
        found = word >> SIGN & 1 ? -found : found;
        if (plain != (far < least[layer]) || (plain && memcmp(&want, &found, sizeof want)))
            return 0;
    }
    return 1;
}

/* The source of a generator of NumPy's, and the lock that is held while it draws; new references to both.  NULL, with an
 * exception, if it has none. */
static bitgen_t *source_of(PyObject *generator, PyObject **bits, PyObject **lock)
{
    *lock = NULL;
    if ((*bits = PyObject_GetAttrString(generator, "bit_generator")) == NULL)
        return NULL;
    PyObject *capsule = PyObject_GetAttrString(*bits, "capsule");
    bitgen_t *source = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, "BitGenerator");
    Py_XDECREF(capsule); /* the bit generator keeps it */
    if (source != NULL)
        *lock = PyObject_GetAttrString(*bits, "lock");
    return *lock == NULL ? NULL : source;
}

static void fill(bitgen_t *source, double *out, npy_intp count, const double *scaled)
{
    for (npy_intp k = 0; k < count; k++)
        out[k] = drawn_by(source);
    for (npy_intp k = 0; scaled != NULL && k < count; k++)
        out[k] = scaled[0] + scaled[1] * out[k];
}

/* Draw an array from a generator of NumPy's; NULL with an exception. */
static PyObject *drawn(PyObject *generator, int rank, npy_intp *shape, const double *scaled)
{
    PyObject *bits, *lock, *held = NULL, *array = NULL;
    bitgen_t *source = source_of(generator, &bits, &lock);
    if (source != NULL && (array = PyArray_EMPTY(rank, shape, NPY_DOUBLE, 0)) != NULL
            && (held = PyObject_CallMethod(lock, "acquire", NULL)) == NULL)
        Py_CLEAR(array);
    if (array != NULL) {
        double *out = PyArray_DATA((PyArrayObject *)array);
        npy_intp count = PyArray_SIZE((PyArrayObject *)array);
        if (count > HOLD) {
            Py_BEGIN_ALLOW_THREADS
            fill(source, out, count, scaled);
            Py_END_ALLOW_THREADS
        } else
            fill(source, out, count, scaled);
        PyObject *done = PyObject_CallMethod(lock, "release", NULL);
        if (done == NULL)
            Py_CLEAR(array);
        Py_XDECREF(done);
    }
    Py_XDECREF(held);
    Py_XDECREF(lock);
    Py_XDECREF(bits);
    return array;
}

/* The extents that an argument names; -1 where that is not plain. */
static int shape_of(PyObject *size, npy_intp *shape)
{
    int tuple = PyTuple_CheckExact(size);
    Py_ssize_t rank = tuple ? PyTuple_GET_SIZE(size) : 1;
    if (rank > NPY_MAXDIMS)
        return -1;
    for (Py_ssize_t k = 0; k < rank; k++) {
        PyObject *extent = tuple ? PyTuple_GET_ITEM(size, k) : size;
        shape[k] = PyLong_CheckExact(extent) ? PyLong_AsSsize_t(extent) : -1;
        if (shape[k] < 0) {
            PyErr_Clear();
            return -1;
        }
    }
    return (int)rank;
}

/* A number by value: 0 where NumPy has to look. */
static int number(PyObject *x, double *value)
{
    if (!PyFloat_CheckExact(x) && !PyLong_CheckExact(x))
        return 0;
    *value = PyFloat_AsDouble(x);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return 1;
}

PyObject *small_normals(Gate *gate, PyObject *generator, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    Py_ssize_t place = gate->sized, named = small_keyword(kwnames, "size");
    npy_intp shape[NPY_MAXDIMS];
    double scaled[2] = {0.0, 1.0};
    if (numpys == NULL || ready < 0 || Py_TYPE(generator) != kind || n > place + 1
            || (kwnames != NULL && (named < 0 || PyTuple_GET_SIZE(kwnames) != 1 || n > place))
            || (named < 0 && n <= place))
        return NULL;
    for (Py_ssize_t k = 1; k < place && k < n; k++)
        if (!number(args[k], &scaled[k - 1]))
            return NULL;
    int rank = shape_of(named < 0 ? args[place] : args[n + named], shape);
    if (rank < 0 || !(scaled[1] > 0.0))
        return NULL;
    if (!ready) {
        npy_intp count = PyArray_OverflowMultiplyList(shape, rank);
        left = count < 0 || count > left ? 0 : left - count;
        if (left > 0)
            return NULL;
        if (!layers_found()) {
            ready = -1;
            return NULL;
        }
        ready = 1;
    }
    return drawn(generator, rank, shape, place > 1 ? scaled : NULL);
}

void small_connect_normals(void *function, PyTypeObject *generator)
{
    numpys = (Draw)function;
    Py_XINCREF(generator);
    Py_XSETREF(kind, generator);
    ready = 0;
}
