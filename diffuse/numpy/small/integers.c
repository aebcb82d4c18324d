/* Random integers from a range of less than 32 bits: those that NumPy's generator draws, in less time.
 *
 * NumPy asks PCG64 for a half of a word at a time, of which it keeps the other half for the next number.  Here one call
 * gives the halves of two numbers.  A number is the upper half of a half times the length of the range; a few are
 * refused, so that all are equally likely (Lemire's method).  Many numbers are drawn in pieces (pieces.c). */
#include "draws.h"

enum { HOLD = 100000 }; /* numbers for which Python's lock is held */

static PyObject *agree;      /* says whether NumPy draws the same numbers */
static PyTypeObject *kind;   /* NumPy's PCG64 */
static int known;            /* whether it does; -1: nobody asked */

/* Is a number refused? */
static inline int refused(uint64_t product, uint32_t length)
{
    uint32_t low = (uint32_t)product;
    return __builtin_expect(low < length, 0) && low < -length % length;
}

static void fill(bitgen_t *source, int64_t *out, npy_intp count, int64_t low, uint32_t length, int left)
{
    npy_intp k = 0;
    while (k < count) {
        if (left || k >= count - 2) { /* the generator keeps the other half, or remembers that it did */
            uint64_t product = (uint64_t)source->next_uint32(source->state) * length;
            left = 0;
            if (!refused(product, length))
                out[k++] = low + (int64_t)(product >> 32);
            continue;
        }
        uint64_t word = source->next_uint64(source->state);
        uint64_t one = (word & 0xffffffff) * length, other = (word >> 32) * length;
        out[k] = low + (int64_t)(one >> 32);
        k += !refused(one, length);
        out[k] = low + (int64_t)(other >> 32);
        k += !refused(other, length);
    }
}

/* The numbers of a block of words, in vectors; gives whether one of them is refused. */
__attribute__((optimize("O3"))) static int block_drawn(const uint64_t *words, int64_t *out, int64_t low, uint32_t length)
{
    uint32_t least = -length % length, any = 0;
    if (small_is_wide())
        return small_wide_integers(words, out, low, length);
    for (int k = 0; k < SMALL_BLOCK; k++) {
        uint64_t one = (words[k] & 0xffffffff) * length, other = (words[k] >> 32) * length;
        out[2 * k] = low + (int64_t)(one >> 32);
        out[2 * k + 1] = low + (int64_t)(other >> 32);
        any |= ((uint32_t)one < least) | ((uint32_t)other < least);
    }
    return any;
}

/* Numbers of whole blocks of words. */
static npy_intp piece(Words *words, long long end, const Recipe *recipe, void *memory)
{
    int64_t *out = memory;
    while (words->taken < end) {
        small_more_words(words);
        words->taken += SMALL_BLOCK;
        if (!block_drawn(words->block, out, recipe->low, recipe->length)) {
            out += 2 * SMALL_BLOCK;
            continue;
        }
        for (int k = 0; k < SMALL_BLOCK; k++) {
            uint64_t one = (words->block[k] & 0xffffffff) * recipe->length;
            uint64_t other = (words->block[k] >> 32) * recipe->length;
            *out = recipe->low + (int64_t)(one >> 32);
            out += !refused(one, recipe->length);
            *out = recipe->low + (int64_t)(other >> 32);
            out += !refused(other, recipe->length);
        }
    }
    return out - (int64_t *)memory;
}

/* Does a bit generator keep half of a word?  -1 with an exception. */
static int half_left(PyObject *bits)
{
    PyObject *state = PyObject_GetAttrString(bits, "state");
    PyObject *half = state == NULL ? NULL : PyMapping_GetItemString(state, "has_uint32");
    long found = half == NULL ? -1 : PyLong_AsLong(half);
    Py_XDECREF(half);
    Py_XDECREF(state);
    return PyErr_Occurred() ? -1 : found != 0;
}

int small_is_pcg64(PyObject *bits)
{
    return kind != NULL && PyObject_TypeCheck(bits, kind);
}

/* Draw the numbers of an array; -1 with an exception. */
static int filled(Drawing *drawing, PyArrayObject *array, int64_t low, uint32_t length)
{
    int64_t *out = PyArray_DATA(array);
    npy_intp count = PyArray_SIZE(array), begun = 0;
    int left = half_left(drawing->bits);
    if (left > 0) {
        fill(drawing->source, out, 1, low, length, left);
        begun = 1;
        left = half_left(drawing->bits); /* rarely, the number was refused */
    }
    if (left == 0) {
        Recipe recipe = {.each = 2, .low = low, .length = length};
        npy_intp found = small_draw_pieces(drawing, array, begun, piece, &recipe);
        left = found < 0 ? -1 : 0;
        begun += found;
    }
    if (left < 0)
        return -1;
    PyThreadState *thread = count - begun > HOLD ? PyEval_SaveThread() : NULL;
    fill(drawing->source, out + begun, count - begun, low, length, left);
    if (thread != NULL)
        PyEval_RestoreThread(thread);
    return 0;
}

PyObject *small_integers(PyObject *generator, int64_t low, int64_t high, int rank, npy_intp *shape)
{
    npy_intp count = PyArray_OverflowMultiplyList(shape, rank);
    /* ranges of one number take none, and those of 32 bits all halves as they are */
    if (count < FEWEST_INTEGERS || high <= low || (uint64_t)high - (uint64_t)low < 2
            || (uint64_t)high - (uint64_t)low > 0xffffffff || kind == NULL)
        return NULL;
    if (known < 0) {
        known = 1; /* for the numbers that are compared */
        PyObject *said = PyObject_CallNoArgs(agree);
        known = said == Py_True;
        Py_XDECREF(said);
        if (PyErr_Occurred())
            return NULL;
    }
    Drawing drawing;
    PyObject *array = NULL;
    if (known && small_begin_drawing(generator, &drawing) == 0) {
        if (small_is_pcg64(drawing.bits) && (array = small_drawn_into(rank, shape, NPY_INT64)) != NULL
                && filled(&drawing, (PyArrayObject *)array, low, (uint32_t)(high - low)) < 0)
            Py_CLEAR(array);
        if (small_end_drawing(&drawing) < 0)
            Py_CLEAR(array);
    }
    return array;
}

PyObject *small_integers_of(PyObject *module, PyObject *args)
{
    PyObject *generator;
    long long low, high;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "OLLn", &generator, &low, &high, &count))
        return NULL;
    npy_intp shape = count;
    PyObject *found = small_integers(generator, low, high, 1, &shape);
    return found != NULL || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}

void small_connect_integers(PyTypeObject *pcg64, PyObject *function)
{
    Py_XINCREF(pcg64);
    Py_XSETREF(kind, pcg64);
    Py_XSETREF(agree, Py_NewRef(function));
    known = -1;
}
