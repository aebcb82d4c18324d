/* Elements of short rows, moved between memory of any strides and memory in C's order.
 *
 * An inner loop of NumPy's takes 10 ns for a row of a few elements, so NumPy's iterator gathers short rows in buffers
 * first, at some 2 ns for an element.  Here that costs less than 1 ns, by copies for each length of a row. */
#include "loops.h"

enum { PIECE = 1024, WIDEST = 16 }; /* elements that are gathered together, and the most bytes of one */
enum { LINES = 4 };                 /* the longest row that has code of its own */
enum { LONGEST = 8 };               /* the same of elements that lie side by side, or are equal */

#ifdef __GNUC__
#define UNROLLED __attribute__((optimize("O3")))
#else
#define UNROLLED
#endif

#define ELEMENT(k) *(type *)(to + (k) * far) = *(const type *)(from + (k) * step);
#define EACH_ROW(body) for (; rows > 0; rows--, to += to_row, from += from_row) { body } break;
#define EACH_LENGTH(more)                                                                                      \
    switch (n) {                                                                                               \
    case 1: EACH_ROW(ELEMENT(0))                                                                               \
    case 2: EACH_ROW(ELEMENT(0) ELEMENT(1))                                                                    \
    case 3: EACH_ROW(ELEMENT(0) ELEMENT(1) ELEMENT(2))                                                         \
    case LINES: EACH_ROW(ELEMENT(0) ELEMENT(1) ELEMENT(2) ELEMENT(3))                                          \
        more                                                                                                   \
    default: EACH_ROW(for (npy_intp k = 0; k < n; k++) { ELEMENT(k) })                                         \
    }
#define BESIDE(n) case n: EACH_ROW(memcpy(to, from, n * sizeof(type));)

/* Rows of `n` elements of one width; the numbers of bytes are those between rows, and between elements.  Elements that
 * lie side by side in both arrays, and one element that goes to a whole row, have loops of their own. */
#define ROWS(name, kind)                                                                                       \
    UNROLLED static void name(npy_intp rows, npy_intp n, char *to, npy_intp to_row, npy_intp far, const char *from, \
                     npy_intp from_row, npy_intp step)                                                         \
    {                                                                                                          \
        typedef kind type;                                                                                     \
        if (far == sizeof(type) && step == sizeof(type) && n > LONGEST)                                        \
            for (; rows > 0; rows--, to += to_row, from += from_row)                                           \
                memcpy(to, from, n * sizeof(type));                                                            \
        else if (far == sizeof(type) && step == 0 && n > LONGEST)                                              \
            for (; rows > 0; rows--, to += to_row, from += from_row) {                                         \
                const type one = *(const type *)from;                                                          \
                for (npy_intp k = 0; k < n; k++)                                                               \
                    ((type *)to)[k] = one;                                                                     \
            }                                                                                                  \
        else if (far == sizeof(type) && step == sizeof(type)) {                                                \
            const npy_intp far = sizeof(type), step = sizeof(type);                                            \
            EACH_LENGTH(BESIDE(5) BESIDE(6) BESIDE(7) BESIDE(8))                                               \
        } else if (far == sizeof(type) && step == 0) {                                                         \
            const npy_intp far = sizeof(type), step = 0;                                                       \
            EACH_LENGTH()                                                                                      \
        } else                                                                                                 \
            EACH_LENGTH()                                                                                      \
    }

ROWS(bytes, npy_uint8)
ROWS(fours, npy_uint32)
ROWS(eights, npy_uint64)
ROWS(pairs, npy_cdouble)

/* As `small_move`, of at least one dimension. */
static void move(int dims, const npy_intp *shape, npy_intp width, char *to, const npy_intp *far, const char *from,
                 const npy_intp *step)
{
    if (dims > 2) {
        for (npy_intp k = 0; k < shape[0]; k++)
            move(dims - 1, shape + 1, width, to + k * far[0], far + 1, from + k * step[0], step + 1);
        return;
    }
    int last = dims - 1;
    npy_intp rows = last ? shape[0] : 1, to_row = last ? far[0] : 0, from_row = last ? step[0] : 0;
    (width == 1 ? bytes : width == 4 ? fours : width == 8 ? eights : pairs)(
        rows, shape[last], to, to_row, far[last], from, from_row, step[last]);
}

static void swap(npy_intp *one, npy_intp *other)
{
    npy_intp kept = *one;
    *one = *other;
    *other = kept;
}

void small_move(int dims, const npy_intp *shape, npy_intp width, char *to, const npy_intp *far, const char *from,
                const npy_intp *step)
{
    npy_intp extents[RANK] = {1}, out[RANK] = {width}, in[RANK] = {width};
    int kept = 0, most = 0; /* dimensions, those joined that both arrays go through as through one; the longest of them */
    for (int d = 0; d < dims; d++) {
        int one = kept > 0 && out[kept - 1] == shape[d] * far[d] && in[kept - 1] == shape[d] * step[d];
        if (shape[d] == 1)
            continue;
        kept += !one;
        extents[kept - 1] = one ? extents[kept - 1] * shape[d] : shape[d];
        out[kept - 1] = far[d];
        in[kept - 1] = step[d];
    }
    for (int d = 1; d < kept - 1; d++)
        most = extents[d] > extents[most] ? d : most;
    if (kept > 2) { /* it has the rows; the others come in any order */
        swap(&extents[most], &extents[kept - 2]);
        swap(&out[most], &out[kept - 2]);
        swap(&in[most], &in[kept - 2]);
    }
    move(kept ? kept : 1, extents, width, to, out, from, in);
}

/* The bytes between elements if these dimensions are one row, 0 between equal elements; -1 if they are not. */
static npy_intp straight(int dims, const npy_intp *shape, npy_intp width, const npy_intp *strides)
{
    npy_intp step = strides[dims - 1];
    if (step != width && step != 0)
        return -1;
    npy_intp next = step;
    for (int d = dims - 1; d >= 0; next *= shape[d--])
        if (strides[d] != next && shape[d] != 1)
            return -1;
    return step;
}

/* The same elements in C's order, in a room that holds a piece. */
static void gather(int dims, const npy_intp *shape, npy_intp width, char *room, const char *from, const npy_intp *step)
{
    npy_intp dense[RANK], pitch = width;
    for (int d = dims - 1; d >= 0; pitch *= shape[d--])
        dense[d] = pitch;
    small_move(dims, shape, width, room, dense, from, step);
}

/* Are the elements of each piece the same ones, as those of an operand that is the same along the first dimensions? */
static int repeats(int first, const npy_intp *strides)
{
    while (first >= 0 && strides[first] == 0)
        first--;
    return first < 0;
}

void small_run_gathered(const Loop *loop, int dims, const npy_intp *shape, npy_intp out, const Side *sides, int count)
{
    _Alignas(64) char rooms[2][PIECE * WIDEST];
    npy_intp width[] = {loop->width, count == 2 ? out : loop->width, out}, piece[RANK], place[RANK] = {0}, block = 1;
    char *data[3];
    int ready[3] = {0}; /* sides that are gathered once for all pieces */
    int cut = dims; /* the dimensions from here on fit in a piece */
    while (cut > 0 && block * shape[cut - 1] <= PIECE)
        block *= shape[--cut];
    int first = cut ? cut - 1 : 0;
    npy_intp some = cut ? PIECE / block : shape[0];
    memcpy(piece, shape, sizeof piece);
    for (int k = 0; k < count; k++)
        data[k] = sides[k].data;
    do {
        for (npy_intp from = 0; from < shape[first]; from += some) {
            char *now[3];
            npy_intp steps[3], n = 1;
            piece[first] = Py_MIN(some, shape[first] - from);
            for (int d = first; d < dims; d++)
                n *= piece[d];
            for (int k = 0; k < count; k++) {
                const npy_intp *strides = sides[k].strides + first;
                now[k] = data[k] + from * strides[0];
                steps[k] = straight(dims - first, piece + first, width[k], strides);
                if (steps[k] >= 0)
                    continue;
                if (!ready[k])
                    gather(dims - first, piece + first, width[k], rooms[k], now[k], strides);
                ready[k] = repeats(first, sides[k].strides); /* a later piece is no longer than this one */
                now[k] = rooms[k];
                steps[k] = width[k];
            }
            loop->run(now, &n, steps, loop->data);
        }
    } while (small_next(first, place, shape, data, sides, count));
}
