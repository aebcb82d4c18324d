/* Numbers and arrays copied into arrays of one dimension, of few elements, or of short rows, as NumPy's assignments do it. */
#include "loops.h"
#include <numpy/arrayscalars.h>
#include <float.h>
#include <math.h>

PyArray_Descr *small_types[KINDS];

int small_types_ready(void)
{
    static const int types[KINDS] = {NPY_BOOL, NPY_UBYTE, NPY_LONG, NPY_FLOAT, NPY_DOUBLE, NPY_CDOUBLE};
    for (int kind = 0; kind < KINDS; kind++)
        if ((small_types[kind] = PyArray_DescrFromType(types[kind])) == NULL)
            return -1;
    return 0;
}

int small_kind(int type)
{
    switch (type) {
    case NPY_BOOL: return BOOL;
    case NPY_UBYTE: return BYTE;
    case NPY_LONG: return LONG;
    case NPY_FLOAT: return SINGLE;
    case NPY_DOUBLE: return DOUBLE;
    case NPY_CDOUBLE: return DOUBLES;
    default: return NONE;
    }
}

/* A whole number of Python's that the type holds exactly. */
static int whole(int kind, PyObject *x, Number *number)
{
    int over;
    long value = PyLong_AsLongAndOverflow(x, &over);
    long most = kind == BYTE ? 255 : kind == SINGLE ? 1L << FLT_MANT_DIG : 1L << DBL_MANT_DIG;
    if (over || (kind != LONG && (value > most || value < (kind == BYTE ? 0 : -most))))
        return 0;
    switch (kind) {
    case BYTE: number->byte = (npy_ubyte)value; return 1;
    case LONG: number->whole = value; return 1;
    case SINGLE: number->single = (float)value; return 1;
    case DOUBLE: number->number = (double)value; return 1;
    case DOUBLES: number->pair[0] = (double)value; number->pair[1] = 0.0; return 1;
    default: return 0;
    }
}

int small_taken(int kind, PyObject *x, Number *number)
{
    PyTypeObject *type = Py_TYPE(x);
    if (type == &PyLong_Type)
        return whole(kind, x, number);
    if (type == &PyLongArrType_Type && kind == LONG) {
        number->whole = PyArrayScalar_VAL(x, Long);
        return 1;
    }
    if (type == &PyFloatArrType_Type && kind == SINGLE) {
        number->single = PyArrayScalar_VAL(x, Float);
        return 1;
    }
    if (type == &PyComplex_Type && kind == DOUBLES) {
        number->pair[0] = PyComplex_RealAsDouble(x);
        number->pair[1] = PyComplex_ImagAsDouble(x);
        return 1;
    }
    if (type != &PyFloat_Type && (type != &PyDoubleArrType_Type || kind == SINGLE))
        return 0;
    double value = PyFloat_AS_DOUBLE(x); /* NumPy's is one of Python's */
    number->pair[0] = value;
    number->pair[1] = 0.0;
    if (kind != SINGLE)
        return kind == DOUBLE || kind == DOUBLES;
    float rounded = (float)value;
    int same = isfinite(rounded) ? value == 0.0 || fabsf(rounded) >= FLT_MIN : !isfinite(value);
    number->single = rounded;
    return same;
}

int small_plain(PyObject *x)
{
    PyArrayObject *array = (PyArrayObject *)x;
    int kind = PyArray_CheckExact(x) ? small_kind(PyArray_TYPE(array)) : NONE;
    return kind != NONE && PyArray_DESCR(array) == small_types[kind] && PyArray_ISALIGNED(array);
}

/* Four elements at a time: the stores of a column of a large matrix wait for its cache lines together. */
#define COPY(type)                                                                                             \
    {                                                                                                          \
        for (; n >= 4; n -= 4, to += 4 * stride, from += 4 * step) {                                           \
            type first = *(const type *)from, second = *(const type *)(from + step);                           \
            type third = *(const type *)(from + 2 * step), fourth = *(const type *)(from + 3 * step);          \
            *(type *)to = first;                                                                               \
            *(type *)(to + stride) = second;                                                                   \
            *(type *)(to + 2 * stride) = third;                                                                \
            *(type *)(to + 3 * stride) = fourth;                                                               \
        }                                                                                                      \
        for (npy_intp k = 0; k < n; k++)                                                                       \
            *(type *)(to + k * stride) = *(const type *)(from + k * step);                                     \
        break;                                                                                                 \
    }

enum { PIECE = 4096 }; /* bytes that stay in the nearest cache */

/* Fill memory with one element: twice as much is copied each time, and then pieces of one size. */
static void repeated(char *to, npy_intp bytes, const char *from, npy_intp width)
{
    memcpy(to, from, width);
    for (npy_intp done = width, more; done < bytes; done += more) {
        more = Py_MIN(Py_MIN(done, PIECE), bytes - done);
        memcpy(to + done, to, more);
    }
}

/* Copy `n` elements of `width` bytes, or one to `n` places where `step` is 0. */
static void copied(npy_intp n, npy_intp width, char *to, npy_intp stride, const char *from, npy_intp step)
{
    if (stride == width && step == width) {
        memcpy(to, from, n * width);
        return;
    }
    if (stride == width && step == 0 && n > 0) {
        repeated(to, n * width, from, width);
        return;
    }
    switch (width) {
    case 1: COPY(npy_ubyte)
    case 4: COPY(npy_int32)
    case 8: COPY(npy_int64)
    default: COPY(npy_cdouble)
    }
}

/* Where the memory of an array that is not empty begins, and where it ends. */
static void bounds(PyArrayObject *array, char **begin, char **end)
{
    *begin = PyArray_BYTES(array);
    *end = *begin + PyArray_ITEMSIZE(array);
    for (int d = 0; d < PyArray_NDIM(array); d++) {
        npy_intp last = (PyArray_DIM(array, d) - 1) * PyArray_STRIDE(array, d);
        *(last < 0 ? begin : end) += last;
    }
}

int small_overlap(PyArrayObject *one, PyArrayObject *two)
{
    char *begin, *end, *from, *to;
    bounds(one, &begin, &end);
    bounds(two, &from, &to);
    return from < end && begin < to;
}

int small_same_or_apart(PyArrayObject *one, PyObject *other)
{
    PyArrayObject *array = (PyArrayObject *)other;
    if (!PyArray_CheckExact(other) || !small_overlap(one, array))
        return 1;
    int dims = PyArray_NDIM(one);
    return PyArray_BYTES(one) == PyArray_BYTES(array) && dims == PyArray_NDIM(array)
           && PyArray_CompareLists(PyArray_DIMS(one), PyArray_DIMS(array), dims)
           && PyArray_CompareLists(PyArray_STRIDES(one), PyArray_STRIDES(array), dims);
}

int small_apart(PyArrayObject *array)
{
    npy_intp reach = PyArray_ITEMSIZE(array);
    for (int d = PyArray_NDIM(array) - 1; d >= 0; d--) {
        if (PyArray_STRIDE(array, d) < reach)
            return 0;
        reach = PyArray_STRIDE(array, d) * PyArray_DIM(array, d);
    }
    return PyArray_NDIM(array) > 0 && reach > 0;
}

enum { QUICK = 4096 }; /* elements that are copied in the time in which NumPy finds out how */

/* Copy to an array whose rows are short, rows that lie side by side to one of few elements, or to an array whose many
 * elements lie far apart; 0 if NumPy has to do it, as it is quicker for others. */
static int put_rows(PyArrayObject *array, PyObject *value)
{
    PyArrayObject *other = (PyArrayObject *)value;
    int dims = PyArray_NDIM(array), kind = small_kind(PyArray_TYPE(array)), missing;
    npy_intp size = size_of((PyObject *)array);
    if (dims > RANK || (PyArray_IS_C_CONTIGUOUS(array) && size >= QUICK) || !small_apart(array))
        return 0;
    npy_intp row = PyArray_DIM(array, dims - 1), width = PyArray_ITEMSIZE(array), step[RANK] = {0};
    int brief = row < SHORT && size > row * SHORT;
    Number number;
    const char *from = (const char *)&number;
    if (!PyArray_CheckExact(value)) {
        if (!small_taken(kind, value, &number))
            return 0;
    } else {
        if (!small_plain(value) || PyArray_TYPE(other) != PyArray_TYPE(array)
                || (missing = dims - PyArray_NDIM(other)) < 0 || PyArray_SIZE(other) == 0 || small_overlap(array, other))
            return 0;
        for (int d = missing; d < dims; d++) {
            npy_intp n = PyArray_DIM(other, d - missing);
            if (n != 1 && n != PyArray_DIM(array, d))
                return 0;
            step[d] = n == 1 ? 0 : PyArray_STRIDE(other, d - missing);
        }
        from = PyArray_BYTES(other);
    }
    if (!brief && small_move_shared(dims, PyArray_DIMS(array), width, PyArray_BYTES(array), PyArray_STRIDES(array), from, step))
        return 1;
    if (!brief && (size >= QUICK || (step[dims - 1] != 0 && step[dims - 1] != width)))
        return 0;
    small_move(dims, PyArray_DIMS(array), width, PyArray_BYTES(array), PyArray_STRIDES(array), from, step);
    return 1;
}

int small_put(PyObject *target, PyObject *value)
{
    PyArrayObject *array = (PyArrayObject *)target, *other = (PyArrayObject *)value;
    int kind = small_kind(PyArray_TYPE(array));
    if (PyArray_NDIM(array) == 0 || PyArray_SIZE(array) == 0 || !small_plain(target) || !PyArray_ISWRITEABLE(array))
        return 0;
    if (PyArray_NDIM(array) != 1)
        return put_rows(array, value);
    npy_intp n = PyArray_DIM(array, 0), width = PyArray_ITEMSIZE(array), stride = PyArray_STRIDE(array, 0);
    if (stride < width && stride > -width)
        return 0;
    if (!PyArray_CheckExact(value)) {
        Number number;
        if (!small_taken(kind, value, &number))
            return 0;
        copied(n, width, PyArray_BYTES(array), stride, (const char *)&number, 0);
        return 1;
    }
    if (!small_plain(value) || PyArray_TYPE(other) != PyArray_TYPE(array) || PyArray_NDIM(other) != 1
            || PyArray_DIM(other, 0) != n)
        return 0;
    if (small_overlap(array, other))
        return PyArray_BYTES(array) == PyArray_BYTES(other) && stride == PyArray_STRIDE(other, 0);
    copied(n, width, PyArray_BYTES(array), stride, PyArray_BYTES(other), PyArray_STRIDE(other, 0));
    return 1;
}

/* The element that a number makes in an array; 0 if NumPy has to say. */
static int element(PyArrayObject *x, PyObject *number, Number *made)
{
    int type = PyArray_TYPE(x), kind = small_kind(type);
    if (kind != NONE && small_taken(kind, number, made))
        return 1;
    if (PyBool_Check(number) && type == NPY_BOOL)
        made->truth = number == Py_True;
    else if (!PyLong_CheckExact(number) || !PyTypeNum_ISINTEGER(type) || PyArray_SETITEM(x, (char *)made, number) < 0) {
        PyErr_Clear(); /* a number that is too large */
        return 0;
    }
    return 1;
}

enum { BLOCK = 16 }; /* elements of a mask that are looked at together */

#define FILL_SOME(type, count)                                                                                 \
    for (npy_intp i = 0; i < (count); i++) {                                                                   \
        type chosen = (type)((type)0 - (type)(mask[i] != 0));                                                  \
        to[i] = (type)((to[i] & (type)~chosen) | (with & chosen));                                             \
    }

/* Without a branch for each element, but for blocks of elements that a mask excludes. */
#define FILL_MASKED(type)                                                                                      \
    {                                                                                                          \
        type *restrict to = (type *)PyArray_DATA(x), with;                                                     \
        memcpy(&with, &made, sizeof with);                                                                     \
        for (; n >= BLOCK; n -= BLOCK, mask += BLOCK, to += BLOCK) {                                           \
            npy_uint64 some[2];                                                                                \
            memcpy(some, mask, BLOCK);                                                                         \
            if (some[0] | some[1])                                                                             \
                FILL_SOME(type, BLOCK)                                                                         \
        }                                                                                                      \
        FILL_SOME(type, n)                                                                                     \
        return 1;                                                                                              \
    }

int small_fill_masked(PyArrayObject *x, PyObject *truths, PyObject *number)
{
    Number made;
    PyArrayObject *given = (PyArrayObject *)truths;
    if (!PyArray_CheckExact(truths) || !PyArray_ISBOOL(given) || PyArray_CheckExact(number) || !PyArray_SAMESHAPE(x, given)
            || !PyArray_ISCARRAY(x) || !PyArray_ISCARRAY_RO(given) || !element(x, number, &made))
        return 0;
    const npy_bool *restrict mask = PyArray_DATA(given);
    npy_intp n = size_of(truths);
    if (PyArray_BYTES(x) < (char *)mask + n && (char *)mask < PyArray_BYTES(x) + PyArray_NBYTES(x))
        return 0; /* NumPy writes elements of the mask that it reads later */
    switch (PyArray_ITEMSIZE(x)) {
    case 1: FILL_MASKED(npy_uint8)
    case 2: FILL_MASKED(npy_uint16)
    case 4: FILL_MASKED(npy_uint32)
    case 8: FILL_MASKED(npy_uint64)
    }
    for (npy_intp k = 0; k < n; k++) /* complex numbers */
        if (mask[k])
            memcpy(PyArray_BYTES(x) + k * sizeof made.pair, made.pair, sizeof made.pair);
    return 1;
}
