/* Inner loops of NumPy's ufuncs on the runtime's threads: each runs the loop on a part of the elements.
 *
 * The parts are whole rows, or begin at multiples of more elements than any loop takes in one step, so that each element
 * is computed by the same instructions as in one run over all of them: the bits are the same. */
#include "loops.h"
#include "team.h"

enum { STEP = 512 };        /* the elements of which the parts of a row are multiples */
enum { MOST = 1 << 20 };    /* more elements would keep Python's lock for too long */
enum { SETS = 64, PLACES = 4 };

/* What a launch of a loop is, as its points find it behind the words of the block that say how it is cut. */
typedef struct {
    const Loop *loop;
    const npy_intp *shape;
    const Side *sides;
    int dims, count;
    unsigned raised;
} Call;

enum { DOMAIN, TILE, CALL, WORDS };

/* How long functions take on one thread, by their address and the number of elements, of which four bits count: arrays
 * whose extents change every turn would not be met again else.  Pairs with one hash are kept side by side: if each took the
 * other's place, functions that take turns would be measured for ever and never shared. */
typedef struct { const void *code; npy_intp size; int64_t alone; } Time;

static struct { Time times[PLACES]; unsigned oldest; } sets[SETS];

int64_t *small_time_of(const void *code, npy_intp size)
{
    int low = 0;
    while (size >> low >= 16)
        low++;
    size_t hash = (size_t)code >> 4 ^ (size_t)(size >> low) * 31 ^ (size_t)low * 5;
    Time *times = sets[hash % SETS].times;
    size = size >> low << low;
    for (int k = 0; k < PLACES; k++)
        if (times[k].code == code && times[k].size == size)
            return &times[k].alone;
    Time *place = &times[sets[hash % SETS].oldest++ % PLACES];
    *place = (Time){code, size, 0};
    return &place->alone;
}

static void part(char *block, int64_t point)
{
    int64_t *words = (int64_t *)block;
    Call *call = (Call *)words[CALL];
    npy_intp shape[RANK], first = point * words[TILE], rest = call->shape[0] - first;
    Side sides[3];
    memcpy(shape, call->shape, sizeof shape);
    shape[0] = rest < words[TILE] ? rest : words[TILE];
    for (int k = 0; k < call->count; k++) {
        sides[k] = call->sides[k];
        sides[k].data += first * sides[k].strides[0];
    }
    if (!small_ran(call->loop, call->dims, shape, sides, call->count))
        __atomic_fetch_or(&call->raised, small_raised(), __ATOMIC_RELAXED);
    small_clear();
}

static int far_apart(int dims, const npy_intp *strides)
{
    return strides[dims - 1] >= SMALL_LINE || strides[dims - 1] <= -SMALL_LINE;
}

int small_scattered(PyObject *x)
{
    PyArrayObject *array = (PyArrayObject *)x;
    return PyArray_CheckExact(x) && PyArray_NDIM(array) > 0 && far_apart(PyArray_NDIM(array), PyArray_STRIDES(array))
        && size_of(x) * SMALL_APART >= 2 * SMALL_SHARE && size_of(x) <= MOST;
}

int small_shared(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count, unsigned *raised)
{
    npy_intp row = 1, weight = 1;
    for (int d = 1; d < dims; d++)
        row *= shape[d];
    for (int k = 0; k < count && dims > 0; k++)
        weight = far_apart(dims, sides[k].strides) ? SMALL_APART : weight;
    if (dims == 0 || shape[0] * row * weight < 2 * SMALL_SHARE || shape[0] * row > MOST || !small_usual())
        return 0;
    npy_intp kept[RANK];
    memcpy(kept, shape, sizeof kept);
    Call call = {.loop = loop, .shape = kept, .sides = sides, .dims = dims, .count = count};
    int64_t block[WORDS] = {1, shape[0], (int64_t)&call};
    int64_t *alone = small_time_of((const void *)loop->run, shape[0] * row);
    small_team_run(part, NULL, block, WORDS, shape[0], row * weight, dims == 1 ? STEP : 1, alone);
    *raised = call.raised;
    return 1;
}

/* What a copy is, as the points of its launch find it. */
typedef struct {
    int dims;
    npy_intp width;
    const npy_intp *shape, *far, *step;
    char *to;
    const char *from;
} Copy;

static void copied(char *block, int64_t point)
{
    int64_t *words = (int64_t *)block;
    Copy *copy = (Copy *)words[CALL];
    npy_intp shape[RANK], first = point * words[TILE], rest = copy->shape[0] - first;
    memcpy(shape, copy->shape, copy->dims * sizeof *shape);
    shape[0] = rest < words[TILE] ? rest : words[TILE];
    small_move(copy->dims, shape, copy->width, copy->to + first * copy->far[0], copy->far,
               copy->from + first * copy->step[0], copy->step);
}

int small_move_shared(int dims, const npy_intp *shape, npy_intp width, char *to, const npy_intp *far, const char *from,
                      const npy_intp *step)
{
    npy_intp row = 1;
    for (int d = 1; d < dims; d++)
        row *= shape[d];
    if (!far_apart(dims, far) || shape[0] * row * SMALL_APART < 2 * SMALL_SHARE || shape[0] * row > MOST)
        return 0;
    Copy copy = {dims, width, shape, far, step, to, from};
    int64_t block[WORDS] = {1, shape[0], (int64_t)&copy};
    int64_t *alone = small_time_of((const void *)small_move, shape[0] * row);
    small_team_run(copied, NULL, block, WORDS, shape[0], row * SMALL_APART, 1, alone);
    return 1;
}
