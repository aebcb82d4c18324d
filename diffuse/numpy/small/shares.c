/* Inner loops of NumPy's ufuncs on the runtime's threads: each runs the loop on a part of the elements.
 *
 * The parts are whole rows, or begin at multiples of more elements than any loop takes in one step, so that each element
 * is computed by the same instructions as in one run over all of them: the bits are the same. */
#include "loops.h"
#include "team.h"

enum { STEP = 512 };        /* the elements of which the parts of a row are multiples */
enum { MOST = 1 << 20 };    /* more elements would keep Python's lock for too long */
enum { KEPT = 128 };

/* What a launch of a loop is, as its points find it behind the words of the block that say how it is cut. */
typedef struct {
    const Loop *loop;
    const npy_intp *shape;
    const Side *sides;
    int dims, count;
    unsigned raised;
} Call;

enum { DOMAIN, TILE, CALL, WORDS };

/* How long loops take on one thread, by their function and the number of elements. */
static struct { PyUFuncGenericFunction run; npy_intp size; int64_t alone; } times[KEPT];

static int64_t *time_of(const Loop *loop, npy_intp size)
{
    size_t place = ((size_t)loop->run >> 4 ^ (size_t)size * 31) % KEPT;
    if (times[place].run != loop->run || times[place].size != size) {
        times[place].run = loop->run;
        times[place].size = size;
        times[place].alone = 0;
    }
    return &times[place].alone;
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

/* How many elements that lie side by side take as long as one of these, as in a column of a matrix? */
static npy_intp weight(int dims, const Side *sides, int count)
{
    for (int k = 0; dims == 1 && k < count; k++)
        if (sides[k].strides[0] >= SMALL_LINE)
            return SMALL_APART;
    return 1;
}

int small_shared(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count, unsigned *raised)
{
    npy_intp row = weight(dims, sides, count);
    for (int d = 1; d < dims; d++)
        row *= shape[d];
    if (dims == 0 || shape[0] * row < 2 * SMALL_SHARE || shape[0] * row > MOST || !small_usual())
        return 0;
    npy_intp kept[RANK];
    memcpy(kept, shape, sizeof kept);
    Call call = {.loop = loop, .shape = kept, .sides = sides, .dims = dims, .count = count};
    int64_t block[WORDS] = {1, shape[0], (int64_t)&call};
    small_team_run(part, NULL, block, WORDS, shape[0], row, dims == 1 ? STEP : 1, time_of(loop, shape[0] * row));
    *raised = call.raised;
    return 1;
}
