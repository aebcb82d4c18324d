/* Numbers with a normal distribution: those that NumPy's generator draws, in a third of its time.
 *
 * NumPy draws by the ziggurat method.  A word of the generator says which layer a number is in, its sign, and how far it
 * lies from 0; all but one in a hundred are the number then.  NumPy branches on the sign, which no processor predicts;
 * here the sign is a bit of the result.  All other numbers are drawn by NumPy's own function, from the same word on.  The
 * widths of the layers are those that this function shows when it is given chosen words. */
#include "draws.h"

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

static uint64_t taken_word(void *words)
{
    return small_word(words);
}

static uint32_t taken_half(void *words) /* NumPy's function asks for none */
{
    return (uint32_t)small_word(words);
}

static double taken_double(void *words)
{
    return (double)(small_word(words) >> 11) * 0x1p-53;
}

/* Numbers of a piece (pieces.c). */
static npy_intp piece(Words *words, long long end, const Recipe *recipe, void *memory)
{
    bitgen_t source = {.state = words, .next_uint64 = taken_word, .next_uint32 = taken_half,
                       .next_double = taken_double, .next_raw = taken_word};
    double *out = memory;
    npy_intp n = 0;
    while (words->taken < end) {
        if (words->at == SMALL_BLOCK)
            small_more_words(words);
        long long room = end - words->taken, many = SMALL_BLOCK - words->at, k = 0;
        const uint64_t *block = words->block + words->at;
        int plain = 1;
        many = many < room ? many : room;
        if (small_is_wide())
            n += k = small_wide_normals(block, (int)many, out + n, width, least);
        while (k < many && plain) {
            uint64_t word = block[k++], layer = word & (LAYERS - 1), far = word >> FAR & (((uint64_t)1 << BITS) - 1);
            union { double number; uint64_t bits; } found = {.number = (double)(int64_t)far * width[layer]};
            found.bits ^= word >> SIGN << 63;
            out[n++] = found.number;
            plain = far < least[layer];
        }
        words->at += k;
        words->taken += k;
        if (!plain)
            out[n - 1] = drawn_from(block[k - 1], &source, &plain);
    }
    for (npy_intp k = 0; recipe->scaled && k < n; k++)
        out[k] = recipe->scale[0] + recipe->scale[1] * out[k];
    return n;
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
    Drawing drawing;
    PyObject *array = NULL;
    if (small_begin_drawing(generator, &drawing) == 0 && (array = PyArray_EMPTY(rank, shape, NPY_DOUBLE, 0)) != NULL) {
        Recipe recipe = {.each = 1, .scaled = scaled != NULL};
        if (scaled != NULL)
            memcpy(recipe.scale, scaled, sizeof recipe.scale);
        npy_intp begun = small_draw_pieces(&drawing, (PyArrayObject *)array, 0, piece, &recipe);
        npy_intp count = PyArray_SIZE((PyArrayObject *)array) - begun;
        PyThreadState *thread = count > HOLD ? PyEval_SaveThread() : NULL;
        if (begun >= 0)
            fill(drawing.source, (double *)PyArray_DATA((PyArrayObject *)array) + begun, count, scaled);
        if (thread != NULL)
            PyEval_RestoreThread(thread);
    }
    if (small_end_drawing(&drawing) < 0)
        Py_CLEAR(array);
    return array;
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
    int rank = small_shape_of(named < 0 ? args[place] : args[n + named], shape);
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
