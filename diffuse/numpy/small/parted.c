/* Reductions of large vectors whose parts the runtime's threads reduce: extremes, where they are and how far apart, sums
 * of integers, sections of these, and searches and counts of bools.
 *
 * Each part is reduced by NumPy's own loop, and what the parts give by that loop once more.  The order of the elements
 * matters only to zeros of both signs and to NaNs, which are left to NumPy. */
#include "loops.h"
#include "gate.h"
#include "team.h"
#include <numpy/arrayscalars.h>

enum { PARTS = 64 };            /* points of a launch, at most */
enum { GLANCE = 1 << 16 };      /* bools that this thread searches before it shares the others */
enum { LEAF = 512 };            /* the elements of which the parts are multiples */
enum { DOMAIN, TILE, WORK, WORDS };

typedef struct Work {
    void (*run)(struct Work *, const char *from, npy_intp count, int point);
    Loop loop, other;           /* the second one of a range: that of the least element */
    PyArray_ArgFunc *place;     /* says where an extreme is */
    PyArrayObject *array;
    int truth;                  /* the bool that is searched for */
    const npy_intp *starts;     /* of sections */
    npy_intp sections;
    char *results;              /* one of each section, or row */
    npy_intp row, tile;         /* the elements that stay together, and how many times these make a part */
    unsigned raised;            /* floating-point errors */
    Number values[PARTS], least[PARTS];
    npy_intp places[PARTS];     /* within the part, or how many bools */
} Work;

static void part(char *block, int64_t point)
{
    int64_t *words = (int64_t *)block;
    Work *work = (Work *)words[WORK];
    npy_intp first = point * words[TILE], rest = PyArray_SIZE(work->array) / work->row - first;
    work->run(work, PyArray_BYTES(work->array) + first * work->row * PyArray_ITEMSIZE(work->array),
              rest < words[TILE] ? rest : words[TILE], (int)point);
}

/* Run all parts, by `code`; returns their number. */
static int ran(Work *work, const void *code)
{
    npy_intp size = PyArray_SIZE(work->array), rows = size / work->row;
    int64_t block[WORDS] = {1, rows, (int64_t)work};
    work->raised = small_team_run(part, NULL, block, WORDS, rows, work->row, work->row == 1 ? LEAF : 1,
                                  small_time_of(code, size));
    work->tile = block[TILE];
    return (int)block[DOMAIN];
}

/* Reduce a number and elements by a loop of NumPy's. */
static void fold_on(const Loop *loop, npy_intp width, const char *from, npy_intp count, Number *found)
{
    npy_intp steps[] = {0, width, 0};
    char *places[] = {(char *)found, (char *)from, (char *)found};
    if (count > 0)
        loop->run(places, &count, steps, loop->data);
}

/* Reduce elements, beginning with the first of them. */
static void fold_by(const Loop *loop, npy_intp width, const char *from, npy_intp count, Number *found)
{
    memcpy(found, from, width);
    fold_on(loop, width, from + width, count - 1, found);
}

static void reduce_part(Work *work, const char *from, npy_intp count, int point)
{
    fold_by(&work->loop, PyArray_ITEMSIZE(work->array), from, count, &work->values[point]);
}

/* Both extremes, block by block: the second loop finds the elements in the first-level cache. */
static void range_part(Work *work, const char *from, npy_intp count, int point)
{
    enum { BLOCK = 2048 };
    npy_intp width = PyArray_ITEMSIZE(work->array);
    memcpy(&work->values[point], from, width);
    memcpy(&work->least[point], from, width);
    for (npy_intp k = 0; k < count; k += BLOCK) {
        npy_intp some = count - k < BLOCK ? count - k : BLOCK;
        fold_on(&work->loop, width, from + k * width, some, &work->values[point]);
        fold_on(&work->other, width, from + k * width, some, &work->least[point]);
    }
}

static void place_part(Work *work, const char *from, npy_intp count, int point)
{
    npy_intp width = PyArray_ITEMSIZE(work->array);
    work->place((void *)from, count, &work->places[point], work->array);
    memcpy(&work->values[point], from + work->places[point] * width, width);
}

/* Put the values of the parts side by side. */
static void packed(Work *work, const Number *of, int parts, char *values)
{
    npy_intp width = PyArray_ITEMSIZE(work->array);
    for (int k = 0; k < parts; k++)
        memcpy(values + k * width, &of[k], width);
}

/* Reduce what the parts gave. */
static void fold_parts(Work *work, const Loop *loop, const Number *of, int parts, Number *found)
{
    Number values[PARTS];
    packed(work, of, parts, (char *)values);
    fold_by(loop, PyArray_ITEMSIZE(work->array), (char *)values, parts, found);
}

/* Is it a zero, or no number? */
static int is_doubtful(int kind, const Number *x)
{
    double number = kind == DOUBLE ? x->number : kind == SINGLE ? x->single : 1.0;
    return number == 0.0 || number != number;
}

/* The greatest element minus the least one; NULL where NumPy has to look, as it may warn.  The sign of a zero has no
 * influence beside another number. */
static PyObject *apart(int kind, PyArray_Descr *type, Number *most, const Number *least)
{
    if (is_doubtful(kind, most) && is_doubtful(kind, least))
        return NULL;
    small_clear();
    if (kind == LONG)
        most->whole = (npy_long)((npy_ulong)most->whole - (npy_ulong)least->whole);
    else if (kind == SINGLE)
        most->single -= least->single;
    else
        most->number -= least->number;
    unsigned raised = small_raised();
    small_clear();
    return raised ? NULL : PyArray_Scalar(most, type, NULL);
}

/* Are these numbers side by side, so that NumPy's own loops can reduce parts of them here? */
static int has_parts(int kind, PyArrayObject *x)
{
    return (kind == LONG || kind == SINGLE || kind == DOUBLE) && PyArray_IS_C_CONTIGUOUS(x) && small_plain((PyObject *)x)
        && small_usual();
}

/* NumPy's function for the place of an extreme. */
static PyArray_ArgFunc *place_of(int fold, PyArrayObject *x)
{
    PyArray_ArrFuncs *functions = PyDataType_GetArrFuncs(PyArray_DESCR(x));
    return fold == SMALL_ARGMAX ? functions->argmax : functions->argmin;
}

PyObject *small_parted(int fold, PyArrayObject *x)
{
    int kind = small_kind(PyArray_TYPE(x)), places = fold == SMALL_ARGMAX || fold == SMALL_ARGMIN, range = fold == SMALL_PTP;
    Work work = {.run = places ? place_part : range ? range_part : reduce_part, .array = x, .row = 1};
    Number values[PARTS], found, least;
    if (!has_parts(kind, x) || (fold == SMALL_SUM && kind != LONG))
        return NULL;
    if (places) {
        work.place = place_of(fold, x);
    } else if (!small_fold_loop(range ? SMALL_MAX : fold, kind, &work.loop)
               || (range && !small_fold_loop(SMALL_MIN, kind, &work.other)))
        return NULL;
    int parts = ran(&work, places ? (void *)work.place : range ? (void *)range_part : (void *)work.loop.run);
    if (work.raised)
        return NULL;
    if (places) {
        packed(&work, work.values, parts, (char *)values);
        npy_intp one = 0;
        work.place(values, parts, &one, x);
        return PyArray_Scalar(&(npy_intp){one * work.tile + work.places[one]}, PyArray_DescrFromType(NPY_INTP), NULL);
    }
    fold_parts(&work, &work.loop, work.values, parts, &found);
    if (range) {
        fold_parts(&work, &work.other, work.least, parts, &least);
        return apart(kind, PyArray_DESCR(x), &found, &least);
    }
    return is_doubtful(kind, &found) ? NULL : PyArray_Scalar(&found, PyArray_DESCR(x), NULL);
}

/* Find where the extremes of whole rows are. */
static void rows_part(Work *work, const char *from, npy_intp count, int point)
{
    npy_intp bytes = work->row * PyArray_ITEMSIZE(work->array);
    npy_intp *found = (npy_intp *)work->results + (from - PyArray_BYTES(work->array)) / bytes;
    for (npy_intp k = 0; k < count; k++)
        work->place((void *)(from + k * bytes), work->row, found + k, work->array);
}

PyObject *small_parted_rows(int fold, PyArrayObject *x)
{
    int kind = small_kind(PyArray_TYPE(x)), rank = PyArray_NDIM(x);
    if ((fold != SMALL_ARGMAX && fold != SMALL_ARGMIN) || rank < 2 || PyArray_SIZE(x) == 0 || !has_parts(kind, x))
        return NULL;
    PyObject *found = PyArray_SimpleNew(rank - 1, PyArray_DIMS(x), NPY_INTP);
    if (found == NULL)
        return NULL;
    Work work = {.run = rows_part, .array = x, .row = PyArray_DIM(x, rank - 1),
                 .place = place_of(fold, x),
                 .results = PyArray_BYTES((PyArrayObject *)found)};
    ran(&work, (const void *)rows_part);
    if (work.raised) /* NumPy has to look */
        Py_CLEAR(found);
    return found;
}

/* -- sections of a vector -------------------------------------------------------------------------------------- */

/* Reduce the sections that begin in a part. */
static void sections_part(Work *work, const char *from, npy_intp count, int point)
{
    npy_intp low = from - PyArray_BYTES(work->array), width = PyArray_ITEMSIZE(work->array), k = 0, end = work->sections;
    low /= width;
    while (k < end) { /* the first one that does not begin earlier */
        npy_intp middle = (k + end) / 2;
        if (work->starts[middle] < low)
            k = middle + 1;
        else
            end = middle;
    }
    for (; k < work->sections && work->starts[k] < low + count; k++) {
        npy_intp next = k + 1 < work->sections ? work->starts[k + 1] : PyArray_SIZE(work->array);
        Number found;
        fold_by(&work->loop, width, PyArray_BYTES(work->array) + work->starts[k] * width, next - work->starts[k], &found);
        memcpy(work->results + k * width, &found, width);
    }
}

/* Are these places of a vector of so many elements, each behind the one before? */
static int ascend(PyArrayObject *starts, npy_intp size)
{
    const npy_intp *places = PyArray_DATA(starts);
    npy_intp n = PyArray_SIZE(starts), before = -1;
    for (npy_intp k = 0; k < n; before = places[k++])
        if (places[k] <= before || places[k] >= size)
            return 0;
    return 1;
}

PyObject *small_sections(int fold, PyObject *of, PyObject *at)
{
    PyArrayObject *x = (PyArrayObject *)of, *starts = (PyArrayObject *)at;
    if (!PyArray_CheckExact(of) || !PyArray_CheckExact(at) || PyArray_NDIM(x) != 1 || PyArray_NDIM(starts) != 1)
        return NULL;
    int kind = small_kind(PyArray_TYPE(x));
    npy_intp count = PyArray_SIZE(starts);
    Work work = {.run = sections_part, .array = x, .row = 1, .starts = PyArray_DATA(starts), .sections = count};
    if (!has_parts(kind, x) || PyArray_SIZE(x) < 2 * SMALL_SHARE || count < 2 || PyArray_TYPE(starts) != NPY_INTP
            || !PyArray_IS_C_CONTIGUOUS(starts) || !small_plain(at) || !ascend(starts, PyArray_SIZE(x))
            || !small_fold_loop(fold, kind, &work.loop))
        return NULL;
    PyObject *found = PyArray_SimpleNew(1, &count, PyArray_TYPE(x));
    if (found == NULL)
        return NULL;
    work.results = PyArray_BYTES((PyArrayObject *)found);
    ran(&work, (const void *)sections_part);
    if (work.raised) /* NumPy may have to warn */
        Py_CLEAR(found);
    return found;
}

/* -- bools ------------------------------------------------------------------------------------------------------ */

/* Is there an element among these bools, which lie side by side, that is true, or false? */
static int occurs(const char *bools, npy_intp n, int truth)
{
    enum { BLOCK = 64 };
    if (!truth)
        return memchr(bools, 0, n) != NULL;
    npy_intp k = 0;
    for (; k + BLOCK <= n; k += BLOCK) {
        uint64_t words[BLOCK / 8], any = 0;
        memcpy(words, bools + k, BLOCK);
        for (int w = 0; w < BLOCK / 8; w++)
            any |= words[w];
        if (any)
            return 1;
    }
    while (k < n)
        if (bools[k++])
            return 1;
    return 0;
}

static void search_part(Work *work, const char *from, npy_intp count, int point)
{
    work->places[point] = occurs(from, count, work->truth);
}

/* How many of these bools are true? */
static npy_intp trues(const char *bools, npy_intp n)
{
    npy_intp count = 0, k = 0;
#if defined(__x86_64__)
    enum { WIDE = 64, DEEP = 255 };
    const __m128i none = _mm_setzero_si128();
    __m128i falses = none;
    while (k + WIDE <= n) {
        __m128i a = none, b = none, c = none, d = none; /* how many are false, by bytes */
        for (int row = 0; row < DEEP && k + WIDE <= n; row++, k += WIDE) {
            const __m128i *at = (const __m128i *)(bools + k);
            a = _mm_sub_epi8(a, _mm_cmpeq_epi8(_mm_loadu_si128(at), none));
            b = _mm_sub_epi8(b, _mm_cmpeq_epi8(_mm_loadu_si128(at + 1), none));
            c = _mm_sub_epi8(c, _mm_cmpeq_epi8(_mm_loadu_si128(at + 2), none));
            d = _mm_sub_epi8(d, _mm_cmpeq_epi8(_mm_loadu_si128(at + 3), none));
        }
        falses = _mm_add_epi64(falses, _mm_add_epi64(_mm_sad_epu8(a, none), _mm_sad_epu8(b, none)));
        falses = _mm_add_epi64(falses, _mm_add_epi64(_mm_sad_epu8(c, none), _mm_sad_epu8(d, none)));
    }
    count = k - _mm_cvtsi128_si64(falses) - _mm_cvtsi128_si64(_mm_unpackhi_epi64(falses, falses));
#endif
    for (; k < n; k++)
        count += bools[k] != 0;
    return count;
}

static void count_part(Work *work, const char *from, npy_intp count, int point)
{
    work->places[point] = trues(from, count);
}

/* Run the parts of a search or a count, and add up what they find. */
static npy_intp added(Work *work)
{
    npy_intp sum = 0;
    int parts = ran(work, (const void *)work->run);
    for (int k = 0; k < parts; k++)
        sum += work->places[k];
    return sum;
}

static int are_side_by_side(PyArrayObject *x)
{
    enum { MANY = 1 << 26 }; /* NumPy gives Python's lock to others meanwhile */
    return (PyArray_IS_C_CONTIGUOUS(x) || PyArray_IS_F_CONTIGUOUS(x)) && PyArray_SIZE(x) <= MANY;
}

PyObject *small_searched(int fold, PyArrayObject *x)
{
    npy_intp size = PyArray_SIZE(x);
    if (!are_side_by_side(x))
        return NULL;
    int all = fold == SMALL_ALL, found = occurs(PyArray_BYTES(x), size < 4 * GLANCE ? size : GLANCE, !all);
    if (!found && size >= 4 * GLANCE) {
        Work work = {.run = search_part, .array = x, .row = 1, .truth = !all};
        found = added(&work) > 0;
    }
    return Py_NewRef(found != all ? PyArrayScalar_True : PyArrayScalar_False);
}

/* Is what NumPy's `count_nonzero` gives a number of Python's?  In some versions it is. */
static int counts_in_python(void)
{
    static int found = -1;
    if (found < 0) {
        PyObject *numpy = PyImport_ImportModule("numpy");
        PyObject *count = numpy == NULL ? NULL : PyObject_CallMethod(numpy, "count_nonzero", "i", 0);
        found = count != NULL && PyLong_CheckExact(count);
        Py_XDECREF(count);
        Py_XDECREF(numpy);
        PyErr_Clear();
    }
    return found;
}

PyObject *small_counted(int fold, PyArrayObject *x)
{
    Work work = {.run = count_part, .array = x, .row = 1};
    npy_intp size = PyArray_SIZE(x);
    if (!are_side_by_side(x))
        return NULL;
    npy_intp found = size < 4 * GLANCE ? trues(PyArray_BYTES(x), size) : added(&work);
    if (fold == SMALL_COUNT && counts_in_python())
        return PyLong_FromSsize_t(found);
    return PyArray_Scalar(&found, PyArray_DescrFromType(NPY_INTP), NULL);
}
