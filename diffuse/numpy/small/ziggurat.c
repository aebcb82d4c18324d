/* Numbers with a normal, an exponential and an even distribution: those that NumPy's generator draws, in less time.
 *
 * NumPy draws by the ziggurat method.  A word of the generator says which layer a number is in, its sign if it has one,
 * and how far it lies from 0; all but one in a hundred are the number then.  NumPy branches on the sign, which no
 * processor predicts; here the sign is a bit of the result.  All other numbers are drawn by NumPy's own function, from the
 * same word on.  The widths of the layers are those that this function shows when it is given chosen words.  Evenly
 * distributed numbers have layers of one width, and none is drawn in another way. */
#include "draws.h"

enum { KINDS = 3 };
enum { WORTH = 100000 };       /* numbers that take NumPy as much longer as finding the layers takes */
enum { TRIED = 2000 };         /* numbers that are compared with NumPy's */
enum { HOLD = 50000 };         /* numbers for which Python's lock is held */

static Layers kinds[KINDS] = {{.layer = 0, .far = 9, .bits = 52, .sign = 1, .left = WORTH},
                              {.layer = 3, .far = 11, .bits = 53, .left = WORTH},
                              {.layer = 3, .far = 11, .bits = 53}};
static PyTypeObject *generators; /* Generator of numpy.random */

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

static double double_of(uint64_t word) /* as PCG64 has it */
{
    return (double)(word >> 11) * 0x1p-53;
}

static double next_double(void *at)
{
    Given *from = at;
    if (!from->given)
        return double_of(next_word(at));
    from->others++;
    return from->source == NULL ? 0.5 : from->source->next_double(from->source->state);
}

/* The number that NumPy draws if this word comes first; `plain` says whether it drew no others. */
static double drawn_from(const Layers *of, uint64_t word, bitgen_t *source, int *plain)
{
    Given from = {.word = word, .source = source};
    bitgen_t bits = {.state = &from, .next_uint64 = next_word, .next_uint32 = next_half, .next_double = next_double,
                     .next_raw = next_word};
    double found = of->numpys(&bits);
    *plain = from.others == 0;
    return found;
}

static inline uint64_t layer_of(const Layers *of, uint64_t word) { return word >> of->layer & (LAYERS - 1); }

static inline uint64_t far_of(const Layers *of, uint64_t word)
{
    return word >> of->far & (((uint64_t)1 << of->bits) - 1);
}

/* The number of a word that is one. */
static inline double number_of(const Layers *of, uint64_t word)
{
    union { double number; uint64_t bits; } found = {
        .number = (double)(int64_t)far_of(of, word) * of->width[layer_of(of, word)]};
    found.bits ^= (word >> SIGN & of->sign) << 63;
    return found.number;
}

static inline int is_number(const Layers *of, uint64_t word) { return far_of(of, word) < of->least[layer_of(of, word)]; }

static inline double drawn_by(const Layers *of, bitgen_t *source)
{
    int plain;
    uint64_t word = source->next_uint64(source->state);
    return __builtin_expect(is_number(of, word), 1) ? number_of(of, word) : drawn_from(of, word, source, &plain);
}

/* Find the layers, and compare numbers of both functions: are they the same? */
static int layers_found(Layers *of)
{
    int plain;
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        of->width[layer] = drawn_from(of, (uint64_t)1 << of->far | layer << of->layer, NULL, &plain);
        uint64_t low = 0, high = (uint64_t)1 << of->bits; /* the least distance is not below, and not above these */
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            drawn_from(of, middle << of->far | layer << of->layer, NULL, &plain);
            if (plain)
                low = middle + 1;
            else
                high = middle;
        }
        of->least[layer] = low;
    }
    uint64_t word = 0;
    for (int k = 0; k < TRIED; k++) {
        word = (word ^ word >> 29) * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019;
        double want = drawn_from(of, word, NULL, &plain), found = number_of(of, word);
        if (plain != is_number(of, word) || (plain && memcmp(&want, &found, sizeof want)))
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
    return double_of(small_word(words));
}

/* Numbers of a piece (pieces.c). */
static npy_intp piece(Words *words, long long end, const Recipe *recipe, void *memory)
{
    bitgen_t source = {.state = words, .next_uint64 = taken_word, .next_uint32 = taken_half,
                       .next_double = taken_double, .next_raw = taken_word};
    const Layers *of = recipe->layers;
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
            n += k = of == &kinds[EVEN - NORMALS] ? small_wide_evens(block, (int)many, out + n)
                : small_wide_layers(of, block, (int)many, out + n);
        while (k < many && plain) {
            out[n++] = number_of(of, block[k]);
            plain = is_number(of, block[k++]);
        }
        words->at += k;
        words->taken += k;
        if (!plain)
            out[n - 1] = drawn_from(of, block[k - 1], &source, &plain);
    }
    for (npy_intp k = 0; recipe->scaled && k < n; k++)
        out[k] = recipe->scale[0] + recipe->scale[1] * out[k];
    return n;
}

static void fill(const Layers *of, bitgen_t *source, double *out, npy_intp count, const double *scaled)
{
    for (npy_intp k = 0; k < count; k++)
        out[k] = drawn_by(of, source);
    for (npy_intp k = 0; scaled != NULL && k < count; k++)
        out[k] = scaled[0] + scaled[1] * out[k];
}

/* Draw an array from a generator of NumPy's; NULL, without an exception unless one was raised, from one whose words are
 * not the numbers' that NumPy draws. */
static PyObject *drawn(Layers *of, PyObject *generator, int rank, npy_intp *shape, const double *scaled)
{
    Drawing drawing;
    PyObject *array = NULL;
    npy_intp many = PyArray_OverflowMultiplyList(shape, rank);
    if (of != &kinds[0] && many >= 0 && !small_in_pieces(many, many)) /* NumPy is as fast */
        return NULL;
    if (small_begin_drawing(generator, &drawing) == 0
            && (of == &kinds[0] || small_is_pcg64(drawing.bits)) /* as evenly distributed numbers are made */
            && (array = small_drawn_into(rank, shape, NPY_DOUBLE)) != NULL) {
        Recipe recipe = {.each = 1, .layers = of, .scaled = scaled != NULL};
        if (scaled != NULL)
            memcpy(recipe.scale, scaled, sizeof recipe.scale);
        npy_intp begun = small_draw_pieces(&drawing, (PyArrayObject *)array, 0, piece, &recipe);
        npy_intp count = PyArray_SIZE((PyArrayObject *)array) - begun;
        PyThreadState *thread = count > HOLD ? PyEval_SaveThread() : NULL;
        if (begun >= 0)
            fill(of, drawing.source, (double *)PyArray_DATA((PyArrayObject *)array) + begun, count, scaled);
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

/* Find what numbers are multiplied by and moved by of the arguments before the size, all of which may be left out; 0 where
 * NumPy has to look. */
static int scale_of(int draws, PyObject *const *args, Py_ssize_t many, double *scale)
{
    double given[2] = {0.0, 1.0};
    int only = draws == EXPONENTIALS; /* only a scale */
    for (Py_ssize_t k = 0; k < many; k++)
        if (!number(args[k], &given[k + only]))
            return 0;
    scale[0] = given[0];
    scale[1] = draws == EVEN ? given[1] - given[0] : given[1];
    return scale[1] > 0.0 && isfinite(scale[1]);
}

PyObject *small_reals(Gate *gate, PyObject *generator, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    Py_ssize_t place = gate->sized, named = small_keyword(kwnames, "size");
    npy_intp shape[NPY_MAXDIMS];
    double scaled[2];
    Layers *of = &kinds[gate->draws - NORMALS];
    if (of->numpys == NULL || of->ready < 0 || Py_TYPE(generator) != generators || n > place + 1
            || (kwnames != NULL && (named < 0 || PyTuple_GET_SIZE(kwnames) != 1 || n > place))
            || (named < 0 && n <= place) || !scale_of(gate->draws, args + 1, (n < place ? n : place) - 1, scaled))
        return NULL;
    int rank = small_shape_of(named < 0 ? args[place] : args[n + named], shape);
    if (rank < 0)
        return NULL;
    if (!of->ready) {
        npy_intp count = PyArray_OverflowMultiplyList(shape, rank);
        of->left = count < 0 || count > of->left ? 0 : of->left - count;
        if (of->left > 0)
            return NULL;
        of->ready = layers_found(of) ? 1 : -1;
        if (of->ready < 0)
            return NULL;
    }
    return drawn(of, generator, rank, shape, place > 1 ? scaled : NULL);
}

void small_connect_reals(void *const *functions, PyTypeObject *generator)
{
    for (int k = 0; k < KINDS; k++) {
        kinds[k].numpys = (double (*)(bitgen_t *))functions[k];
        kinds[k].ready = 0;
    }
    Py_XINCREF(generator);
    Py_XSETREF(generators, generator);
}
