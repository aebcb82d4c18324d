/* Many random numbers from the words of NumPy's PCG64, drawn by several threads in pieces.
 *
 * A piece is what a fixed number of words gives.  The generator's state can be moved on by any number of words, so that
 * each thread draws its pieces apart from the others, into memory of its own.  How many numbers a piece gives is known
 * when it is drawn: then the thread waits until it is known of all pieces before, and copies its numbers to their place.
 * Where that takes long, as the thread that draws the piece before has no processor, it draws that one, too.  A number
 * may take words of the next piece, which is drawn once more then, behind these. */
#include "draws.h"
#include <stdatomic.h>

#ifdef __SIZEOF_INT128__
typedef unsigned __int128 Wide;

enum { LANES = SMALL_LANES, WORDS = 8192 }; /* words of a piece */
enum { SHARED = 400000 };                   /* words that are worth several threads */
enum { PATIENCE = 20000 };                  /* looks for a piece before it is drawn once more */

/* What some steps of the generator do to its state. */
typedef struct {
    Wide factor, term;
} Jump;

/* The numbers of one array while they are drawn. */
typedef struct {
    Wide begin;
    Jump step, stride, piece; /* of one word, of all lanes, of a piece */
    PyArrayObject *array;
    int64_t *out;             /* where the first number goes */
    npy_intp count, most;     /* numbers that are asked for, and of a piece at most */
    Make make;
    Recipe recipe;
    atomic_llong claimed, joining, joined; /* pieces */
    atomic_llong numbers, over;   /* of all pieces that are joined; words that the last one took of the next one */
    atomic_int full;              /* no piece has room any more */
} Work;

static PyObject *share; /* calls a function in several threads at the same time */

static const Wide FACTOR = (Wide)0x2360ed051fc65da4 << 64 | 0x4385df649fccf645;

static inline Wide moved(Wide from, Jump by)
{
    return from * by.factor + by.term;
}

static Jump repeated(Jump one, unsigned long long times)
{
    Jump all = {1, 0};
    for (; times; times >>= 1) {
        if (times & 1)
            all = (Jump){all.factor * one.factor, moved(all.term, one)};
        one = (Jump){one.factor * one.factor, moved(one.term, one)};
    }
    return all;
}

/* The word that belongs to a state. */
static inline uint64_t word_of(Wide state)
{
    uint64_t both = (uint64_t)(state >> 64) ^ (uint64_t)state;
    unsigned turned = (unsigned)(state >> 122);
    return both >> turned | both << (-turned & 63);
}

static inline Wide both(const uint64_t *low, const uint64_t *high)
{
    return (Wide)*high << 64 | *low;
}

static inline void put(uint64_t *low, uint64_t *high, Wide value)
{
    *low = (uint64_t)value;
    *high = (uint64_t)(value >> 64);
}

void small_more_words(Words *words)
{
    words->at = 0;
    if (small_is_wide()) {
        small_wide_words(words);
        return;
    }
    Jump stride = {both(words->stride, words->stride + 1), both(words->stride + 2, words->stride + 3)};
    for (int k = 0; k < SMALL_BLOCK; k += LANES)
        for (int j = 0; j < LANES; j++) {
            Wide state = both(words->low + j, words->high + j);
            words->block[k + j] = word_of(state);
            put(words->low + j, words->high + j, moved(state, stride));
        }
}

/* Draw piece `k` without the first words, which the piece before it took; gives how many numbers it has. */
static npy_intp made(Work *work, long long k, long long first, Words *words, void *out, long long *over)
{
    Wide state = moved(work->begin, repeated(work->piece, k));
    state = moved(state, repeated(work->step, first));
    for (int j = 0; j < LANES; j++)
        put(words->low + j, words->high + j, state = moved(state, work->step));
    put(words->stride, words->stride + 1, work->stride.factor);
    put(words->stride + 2, words->stride + 3, work->stride.term);
    words->at = SMALL_BLOCK;
    words->taken = first;
    npy_intp found = work->make(words, WORDS, &work->recipe, out);
    *over = words->taken - WORDS;
    return found;
}

/* Join piece `k`, which follows on those that are joined, unless another thread does it: `count` numbers that were drawn,
 * or those that are drawn here if these are -1 or other ones. */
static void join(Work *work, long long k, npy_intp count, long long over, Words *words, int64_t *found)
{
    long long first = atomic_load(&work->over), numbers = atomic_load(&work->numbers);
    if (numbers + work->most > work->count) {
        atomic_store(&work->full, 1);
        return;
    }
    if (count < 0 || first)
        count = made(work, k, first, words, found, &over);
    if (!atomic_compare_exchange_strong(&work->joining, &(long long){k}, k + 1))
        return;
    atomic_store(&work->over, over);
    atomic_store(&work->numbers, numbers + count);
    atomic_store(&work->joined, k + 1);
    memcpy(work->out + numbers, found, count * sizeof *found);
}

/* Wait until all pieces before `k` are joined, or none of those from `k` on has room. */
static void await(Work *work, long long k, Words *words, int64_t *found)
{
    long long joined;
    for (int looks = 1; (joined = atomic_load(&work->joined)) < k && !atomic_load(&work->full); looks++) {
        if (looks % PATIENCE == 0)
            join(work, joined, -1, 0, words, found);
    }
}

/* Draw pieces until no other one has room. */
static void work_on(Work *work)
{
    size_t room = (work->most + 1) * sizeof(int64_t);
    char *memory = malloc(sizeof(Words) + 2 * room);
    Words *words = (Words *)memory;
    int64_t *found = (int64_t *)(memory + sizeof *words), *other = (int64_t *)(memory + sizeof *words + room);
    while (memory != NULL && !atomic_load(&work->full)) {
        long long k = atomic_fetch_add(&work->claimed, 1), over = 0;
        npy_intp count = -1;
        if ((k + 1) * work->most <= work->count) /* else it rarely has room */
            count = made(work, k, 0, words, found, &over);
        await(work, k, words, other);
        if (atomic_load(&work->joined) == k)
            join(work, k, count, over, words, found);
    }
    free(memory);
}

static void ended(PyObject *capsule)
{
    Work *work = PyCapsule_GetPointer(capsule, NULL);
    Py_DECREF(work->array);
    PyMem_Free(work);
}

static PyObject *run(PyObject *capsule, PyObject *unused)
{
    Work *work = PyCapsule_GetPointer(capsule, NULL);
    Py_BEGIN_ALLOW_THREADS
    work_on(work);
    Py_END_ALLOW_THREADS
    return Py_NewRef(Py_None);
}

static PyMethodDef running = {"draw", run, METH_NOARGS, "Draws pieces of an array of random numbers."};

/* Run the work of a capsule in threads, or in this one: -1 with an exception. */
static int done(PyObject *capsule, npy_intp words)
{
    PyObject *function = PyCFunction_New(&running, capsule);
    PyObject *said = function == NULL ? NULL : words < SHARED || share == NULL
        ? PyObject_CallNoArgs(function) : PyObject_CallOneArg(share, function);
    Py_XDECREF(said);
    Py_XDECREF(function);
    return said == NULL ? -1 : 0;
}

/* The number that an entry of a dictionary holds. */
static int number_of(PyObject *from, const char *name, Wide *number)
{
    PyObject *found = PyMapping_GetItemString(from, name), *by = PyLong_FromLong(64);
    PyObject *high = found == NULL || by == NULL ? NULL : PyNumber_Rshift(found, by);
    if (high != NULL)
        *number = (Wide)PyLong_AsUnsignedLongLongMask(high) << 64 | PyLong_AsUnsignedLongLongMask(found);
    Py_XDECREF(high);
    Py_XDECREF(by);
    Py_XDECREF(found);
    return PyErr_Occurred() ? -1 : 0;
}

/* Set the state of a bit generator that described itself so. */
static int set_state(PyObject *bits, PyObject *described, PyObject *inner, Wide state)
{
    PyObject *high = PyLong_FromUnsignedLongLong((uint64_t)(state >> 64)), *by = PyLong_FromLong(64);
    PyObject *low = PyLong_FromUnsignedLongLong((uint64_t)state);
    PyObject *moved = high == NULL || by == NULL ? NULL : PyNumber_Lshift(high, by);
    PyObject *all = moved == NULL || low == NULL ? NULL : PyNumber_Or(moved, low);
    int failed = all == NULL || PyMapping_SetItemString(inner, "state", all) < 0
        || PyObject_SetAttrString(bits, "state", described) < 0;
    Py_XDECREF(high);
    Py_XDECREF(by);
    Py_XDECREF(low);
    Py_XDECREF(moved);
    Py_XDECREF(all);
    return failed ? -1 : 0;
}

/* Draw as many numbers of an array as fill pieces from a state, which is moved behind them; -1 with an exception. */
static npy_intp drawn(Wide *state, Wide increment, PyArrayObject *array, npy_intp first, Make make, const Recipe *recipe)
{
    Work *work = PyMem_Calloc(1, sizeof *work);
    PyObject *capsule = work == NULL ? PyErr_NoMemory() : PyCapsule_New(work, NULL, ended);
    if (capsule == NULL) {
        PyMem_Free(work);
        return -1;
    }
    work->begin = *state;
    work->step = (Jump){FACTOR, increment};
    work->stride = repeated(work->step, LANES);
    work->piece = repeated(work->step, WORDS);
    work->array = (PyArrayObject *)Py_NewRef(array);
    work->out = (int64_t *)PyArray_DATA(array) + first;
    work->count = PyArray_SIZE(array) - first;
    work->most = WORDS * recipe->each;
    work->make = make;
    work->recipe = *recipe;
    npy_intp found = done(capsule, work->count / recipe->each) < 0 ? -1 : (npy_intp)work->numbers;
    if (found > 0)
        *state = moved(moved(*state, repeated(work->piece, work->joined)), repeated(work->step, work->over));
    Py_DECREF(capsule);
    return found;
}

int small_in_pieces(npy_intp count, npy_intp words)
{
    return count >= LEAST && (words >= SHARED || small_is_wide());
}

npy_intp small_draw_pieces(Drawing *drawing, PyArrayObject *array, npy_intp first, Make make, const Recipe *recipe)
{
    npy_intp count = PyArray_SIZE(array) - first;
    if (!small_in_pieces(count, count / recipe->each) || !small_is_pcg64(drawing->bits))
        return 0;
    Wide state, increment;
    npy_intp found = -1;
    PyObject *described = PyObject_GetAttrString(drawing->bits, "state"), *type, *error, *trace;
    PyObject *inner = described == NULL ? NULL : PyMapping_GetItemString(described, "state");
    if (inner != NULL && number_of(inner, "state", &state) == 0 && number_of(inner, "inc", &increment) == 0) {
        Wide next = moved(state, (Jump){FACTOR, increment}); /* is this the way in which NumPy's generator goes on? */
        found = drawing->source->next_uint64(drawing->source->state) != word_of(next) ? 0
            : drawn(&state, increment, array, first, make, recipe);
        PyErr_Fetch(&type, &error, &trace);
        if (set_state(drawing->bits, described, inner, state) < 0)
            found = -1;
        if (type != NULL)
            PyErr_Restore(type, error, trace);
    }
    Py_XDECREF(inner);
    Py_XDECREF(described);
    return found;
}
#else
int small_in_pieces(npy_intp count, npy_intp words) { return 0; }

npy_intp small_draw_pieces(Drawing *drawing, PyArrayObject *array, npy_intp first, Make make, const Recipe *recipe)
{
    return 0;
}
#endif

void small_connect_pieces(PyObject *function)
{
    Py_XSETREF(share, Py_NewRef(function));
}
