/* Many random numbers from the words of NumPy's PCG64, drawn by several threads in pieces.
 *
 * A piece is what a fixed number of words gives.  The generator's state can be moved on by any number of words, so that
 * each thread draws its pieces apart from the others, into memory of its own.  How many numbers a piece gives is known
 * when it is drawn: then the thread waits until it is known of all pieces before, and copies its numbers to their place.
 * A number may take words of the next piece, too, which is drawn once more then, behind these. */
#include "draws.h"
#include <stdatomic.h>
#include <sched.h>

#ifdef __SIZEOF_INT128__
typedef unsigned __int128 Wide;

enum { LANES = SMALL_LANES, WORDS = 8192 }; /* words of a piece */
enum { LEAST = 20000, SHARED = 200000 };    /* numbers that are worth this, and several threads */
enum { PATIENCE = 1000 };                   /* looks at other threads before the processor is left to them */

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
    atomic_llong claimed, joined; /* pieces */
    long long numbers, over;      /* of all pieces that are joined; words that the last one took of the next one */
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

__attribute__((optimize("O3"))) void small_more_words(Words *words)
{
    Wide lanes[LANES], factor = (Wide)words->stride[1] << 64 | words->stride[0],
         term = (Wide)words->stride[3] << 64 | words->stride[2];
    for (int j = 0; j < LANES; j++)
        lanes[j] = (Wide)words->states[2 * j + 1] << 64 | words->states[2 * j];
    for (int k = 0; k < SMALL_BLOCK; k += LANES)
        for (int j = 0; j < LANES; j++) {
            words->block[k + j] = word_of(lanes[j]);
            lanes[j] = lanes[j] * factor + term;
        }
    for (int j = 0; j < LANES; j++) {
        words->states[2 * j] = (uint64_t)lanes[j];
        words->states[2 * j + 1] = (uint64_t)(lanes[j] >> 64);
    }
    words->at = 0;
}

static void put(uint64_t *at, Wide value)
{
    at[0] = (uint64_t)value;
    at[1] = (uint64_t)(value >> 64);
}

/* Draw piece `k` without the first words, which the piece before it took; gives how many numbers it has. */
static npy_intp made(Work *work, long long k, long long first, Words *words, void *out, long long *over)
{
    Wide state = moved(work->begin, repeated(work->piece, k));
    state = moved(state, repeated(work->step, first));
    for (int j = 0; j < LANES; j++)
        put(words->states + 2 * j, state = moved(state, work->step));
    put(words->stride, work->stride.factor);
    put(words->stride + 2, work->stride.term);
    words->at = SMALL_BLOCK;
    words->taken = first;
    npy_intp found = work->make(words, WORDS, &work->recipe, out);
    *over = words->taken - WORDS;
    return found;
}

/* Wait until all pieces before `k` are joined: 0 if none of those from `k` on has room. */
static int awaited(Work *work, long long k)
{
    for (int looks = 0; atomic_load_explicit(&work->joined, memory_order_acquire) < k; looks++) {
        if (atomic_load_explicit(&work->full, memory_order_relaxed))
            return 0;
        if (looks >= PATIENCE)
            sched_yield();
    }
    if (work->numbers + work->most <= work->count)
        return 1;
    atomic_store(&work->full, 1);
    return 0;
}

/* Draw pieces until no other one has room. */
static void work_on(Work *work)
{
    char *memory = malloc(sizeof(Words) + (work->most + 1) * sizeof(int64_t));
    Words *words = (Words *)memory;
    int64_t *found = (int64_t *)(memory + sizeof *words);
    while (memory != NULL && !atomic_load_explicit(&work->full, memory_order_relaxed)) {
        long long k = atomic_fetch_add(&work->claimed, 1), over = 0;
        if ((k + 1) * work->most > work->count && !awaited(work, k)) /* rarely has room */
            break;
        npy_intp count = made(work, k, 0, words, found, &over);
        if (!awaited(work, k))
            break;
        if (work->over)
            count = made(work, k, work->over, words, found, &over);
        int64_t *out = work->out + work->numbers;
        work->numbers += count;
        work->over = over;
        atomic_store_explicit(&work->joined, k + 1, memory_order_release);
        memcpy(out, found, count * sizeof *out);
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
static int done(PyObject *capsule, npy_intp count)
{
    PyObject *function = PyCFunction_New(&running, capsule);
    PyObject *said = function == NULL ? NULL : count < SHARED || share == NULL
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
    npy_intp found = done(capsule, work->count) < 0 ? -1 : (npy_intp)work->numbers;
    if (found > 0)
        *state = moved(moved(*state, repeated(work->piece, work->joined)), repeated(work->step, work->over));
    Py_DECREF(capsule);
    return found;
}

npy_intp small_draw_pieces(Drawing *drawing, PyArrayObject *array, npy_intp first, Make make, const Recipe *recipe)
{
    if (PyArray_SIZE(array) - first < LEAST || !small_is_pcg64(drawing->bits))
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
npy_intp small_draw_pieces(Drawing *drawing, PyArrayObject *array, npy_intp first, Make make, const Recipe *recipe)
{
    return 0;
}
#endif

void small_connect_pieces(PyObject *function)
{
    Py_XSETREF(share, Py_NewRef(function));
}
