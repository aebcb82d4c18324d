/* Elements of short rows, moved between memory of any strides and memory in C's order.
 *
 * An inner loop of NumPy's takes 10 ns for a row of a few elements, so NumPy's iterator gathers short rows in buffers
 * first, at some 2 ns for an element.  Here that costs less than 1 ns, by copies for each length of a row. */
#include "loops.h"

enum { PIECE = 1024, WIDEST = 16 }; /* elements that are gathered together, and the most bytes of one */
enum { LINES = 4 };                 /* the longest row that has code of its own */

#define ELEMENT(k) *(type *)(to + (k) * far) = *(const type *)(from + (k) * step);
#define EACH_ROW(body) for (; rows > 0; rows--, to += to_row, from += from_row) { body } break;

/* Rows of `n` elements of one width; the numbers of bytes are those between rows, and between elements. */
#define ROWS(name, kind)                                                                                       \
    static void name(npy_intp rows, npy_intp n, char *to, npy_intp to_row, npy_intp far, const char *from,     \
                     npy_intp from_row, npy_intp step)                                                         \
    {                                                                                                          \
        typedef kind type;                                                                                     \
        switch (n) {                                                                                           \
        case 1: EACH_ROW(ELEMENT(0))                                                                           \
        case 2: EACH_ROW(ELEMENT(0) ELEMENT(1))                                                                \
        case 3: EACH_ROW(ELEMENT(0) ELEMENT(1) ELEMENT(2))                                                     \
        case LINES: EACH_ROW(ELEMENT(0) ELEMENT(1) ELEMENT(2) ELEMENT(3))                                      \
        default: EACH_ROW(for (npy_intp k = 0; k < n; k++) { ELEMENT(k) })                                     \
        }                                                                                                      \
    }

ROWS(bytes, npy_uint8)
ROWS(fours, npy_uint32)
ROWS(eights, npy_uint64)
ROWS(pairs, npy_cdouble)

void small_move(int dims, const npy_intp *shape, npy_intp width, char *to, const npy_intp *far, const char *from,
                const npy_intp *step)
{
    if (dims > 2) {
        for (npy_intp k = 0; k < shape[0]; k++)
            small_move(dims - 1, shape + 1, width, to + k * far[0], far + 1, from + k * step[0], step + 1);
        return;
    }
    int last = dims - 1;
    npy_intp rows = last ? shape[0] : 1, to_row = last ? far[0] : 0, from_row = last ? step[0] : 0;
    (width == 1 ? bytes : width == 4 ? fours : width == 8 ? eights : pairs)(
        rows, shape[last], to, to_row, far[last], from, from_row, step[last]);
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

/* Run a loop over these dimensions as over one row. */
static void run(const Loop *loop, int dims, const npy_intp *shape, const npy_intp *width, char *const *data,
                const Side *sides, int first, int count)
{
    _Alignas(64) char rooms[2][PIECE * WIDEST];
    npy_intp dense[RANK], steps[3], n = 1;
    char *now[3];
    for (int k = 0; k < count; k++) {
        const npy_intp *strides = sides[k].strides + first;
        now[k] = data[k];
        steps[k] = straight(dims, shape, width[k], strides);
        if (steps[k] >= 0)
            continue;
        npy_intp pitch = width[k];
        for (int d = dims - 1; d >= 0; pitch *= shape[d--])
            dense[d] = pitch;
        small_move(dims, shape, width[k], rooms[k], dense, data[k], strides);
        now[k] = rooms[k];
        steps[k] = width[k];
    }
    for (int d = 0; d < dims; d++)
        n *= shape[d];
    loop->run(now, &n, steps, loop->data);
}

void small_run_gathered(const Loop *loop, int dims, const npy_intp *shape, npy_intp out, const Side *sides, int count)
{
    npy_intp width[] = {loop->width, count == 2 ? out : loop->width, out}, piece[RANK], place[RANK] = {0}, block = 1;
    char *data[3];
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
            piece[first] = Py_MIN(some, shape[first] - from);
            for (int k = 0; k < count; k++)
                now[k] = data[k] + from * sides[k].strides[first];
            run(loop, dims - first, piece + first, width, now, sides, first, count);
        }
    } while (small_next(first, place, shape, data, sides, count));
}
