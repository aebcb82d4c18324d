/* Sums, differences, products, quotients, opposites and magnitudes of numbers of double precision, and comparisons of
 * these and of whole numbers, in rows of few elements, or two elements apart.
 *
 * NumPy's loops take 10 to 20 ns for a row, and 0.6 ns for each of elements that do not lie side by side.  To gather them
 * first takes as long.  These operations are rounded once, so code of any kind has NumPy's bits; this one takes 1 ns for a
 * row of three elements.  (Quotients of short rows are not computed here: to gather these for NumPy's vectors of divisors
 * is faster.) */
#include "strided.h"
#include "flags.h"

#define OPERATOR(x, y) (x) + (y)
OPERATION(sums, double, double)
#undef OPERATOR
#define OPERATOR(x, y) (x) - (y)
OPERATION(differences, double, double)
#undef OPERATOR
#define OPERATOR(x, y) (x) * (y)
OPERATION(products, double, double)
#undef OPERATOR
#define OPERATOR(x, y) (x) / (y)
OPERATION(quotients, double, double)
#undef OPERATOR
#define OPERATOR(x, y) -(x)
OPERATION(opposites, double, double)
#undef OPERATOR
#define OPERATOR(x, y) __builtin_fabs(x)
OPERATION(magnitudes, double, double)
#undef OPERATOR
#define OPERATOR(x, y) (x) < (y)
OPERATION(less, double, npy_bool)
OPERATION(less_whole, npy_long, npy_bool)
#undef OPERATOR
#define OPERATOR(x, y) (x) <= (y)
OPERATION(less_equal, double, npy_bool)
OPERATION(less_equal_whole, npy_long, npy_bool)
#undef OPERATOR
#define OPERATOR(x, y) (x) == (y)
OPERATION(equal, double, npy_bool)
OPERATION(equal_whole, npy_long, npy_bool)
#undef OPERATOR
#define OPERATOR(x, y) (x) != (y)
OPERATION(not_equal, double, npy_bool)
OPERATION(not_equal_whole, npy_long, npy_bool)
#undef OPERATOR
#define OPERATOR(x, y) (x) > (y)
OPERATION(greater, double, npy_bool)
OPERATION(greater_whole, npy_long, npy_bool)
#undef OPERATOR
#define OPERATOR(x, y) (x) >= (y)
OPERATION(greater_equal, double, npy_bool)
OPERATION(greater_equal_whole, npy_long, npy_bool)
#undef OPERATOR

StridedRows small_strided_rows(int name, int kind)
{
    static const StridedRows operations[FORWARD] = {
        [ADD] = sums, [SUBTRACT] = differences, [MULTIPLY] = products, [DIVIDE] = quotients, [NEGATIVE] = opposites,
        [ABSOLUTE] = magnitudes, [LESS] = less, [LESS_EQUAL] = less_equal, [EQUAL] = equal, [NOT_EQUAL] = not_equal,
        [GREATER] = greater, [GREATER_EQUAL] = greater_equal};
    static const StridedRows whole[FORWARD] = {
        [LESS] = less_whole, [LESS_EQUAL] = less_equal_whole, [EQUAL] = equal_whole, [NOT_EQUAL] = not_equal_whole,
        [GREATER] = greater_whole, [GREATER_EQUAL] = greater_equal_whole};
    if (name >= FORWARD || !FAST())
        return NULL;
    return kind == DOUBLE ? operations[name] : kind == LONG ? whole[name] : NULL;
}

/* Are elements neither side by side nor all the same? */
static int apart(npy_intp step) { return step != sizeof(double) && step != 0; } /* all types have as many bytes */

enum { MEDIUM = 256, MANY = 8 }; /* the elements of rows for which NumPy's loops take most of the time at their ends, and how
                                  * many rows are not few */

/* Is NumPy's loop as fast, with operands of these steps? */
static int quick(const Loop *loop, int dims, const npy_intp *shape, npy_intp one, npy_intp other)
{
    if (shape[dims - 1] < MEDIUM && rows_of(dims, shape) > MANY && (loop->slow != IN_ROWS || shape[dims - 1] >= SHORT))
        return 0;
    if (loop->slow == IN_ROWS)
        return 1;
    return loop->slow != ALWAYS && !apart(one) && !apart(other) && (loop->slow != BESIDE_ONE || (one && other));
}

int small_run_strided(const Loop *loop, int dims, const npy_intp *shape, const Side *sides, int count)
{
    if (loop->strided == NULL)
        return 0;
    int last = dims - 1, first = last ? last - 1 : 0;
    npy_intp place[RANK] = {0}, rows = last ? shape[first] : 1, row[3] = {0};
    int other = count - 2, out = count - 1; /* of one operand it is both */
    char *data[3];
    if (sides[out].strides[last] != (loop->made == NPY_BOOL ? 1 : loop->width)
            || quick(loop, dims, shape, sides[0].strides[last], sides[other].strides[last]))
        return 0;
    for (int k = 0; k < count; k++) {
        data[k] = sides[k].data;
        row[k] = last ? sides[k].strides[first] : 0;
    }
    do
        loop->strided(rows, shape[last], data[out], row[out], data[0], row[0], sides[0].strides[last], data[other],
                      row[other], sides[other].strides[last]);
    while (small_next(first, place, shape, data, sides, count));
    if (loop->silent)
        small_clear();
    return 1;
}
