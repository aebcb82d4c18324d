/* `where` and `zeros_like` of arrays of one common type that lie in C's order, and `array` of a small one.
 *
 * NumPy's `where` branches for each element, which takes ten times as long where the mask has no order. */
#include "gate.h"
#include "loops.h"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define CLONES __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define CLONES
#endif
#define EACH(first, second)                                                                                    \
    for (npy_intp k = 0; k < n; k++) {                                                                         \
        first;                                                                                                 \
        second;                                                                                                \
        to[k] = mask[k] ? x : y;                                                                               \
    }

/* Elements of as many bits as a type from the first source where the mask says so, else from the second one.  Those
 * that are not `many` are one element, but for both. */
#define SELECTED(name, type)                                                                                   \
    CLONES static void name(npy_intp n, const npy_bool *restrict mask, void *room, const void *one, int many,  \
                            const void *other, int others)                                                     \
    {                                                                                                          \
        type *restrict to = room;                                                                              \
        const type *restrict from = one, *restrict instead = other;                                            \
        type x = *from, y = *instead;                                                                          \
        if (many && others)                                                                                    \
            EACH(x = from[k], y = instead[k])                                                                  \
        else if (many)                                                                                         \
            EACH(x = from[k], )                                                                                \
        else                                                                                                   \
            EACH(, y = instead[k])                                                                             \
    }

SELECTED(bytes, npy_uint8)
SELECTED(fours, npy_uint32)
SELECTED(eights, npy_uint64)

static int dense(PyObject *x) { return small_plain(x) && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)x); }

PyObject *small_where(PyObject *const *given)
{
    PyArrayObject *mask = (PyArrayObject *)given[0];
    const char *data[2];
    int many[2];
    Number numbers[2];
    int kind = NONE;
    if (!dense(given[0]) || PyArray_TYPE(mask) != NPY_BOOL || PyArray_NDIM(mask) == 0 || PyArray_SIZE(mask) == 0)
        return NULL;
    for (int k = 1; k < 3; k++) {
        PyArrayObject *x = (PyArrayObject *)given[k];
        if (!PyArray_CheckExact(given[k]))
            continue;
        int own = small_kind(PyArray_TYPE(x));
        if (!dense(given[k]) || !PyArray_SAMESHAPE(mask, x) || own == DOUBLES || (kind != NONE && kind != own))
            return NULL;
        kind = own;
    }
    if (kind == NONE)
        return NULL;
    npy_intp width = PyDataType_ELSIZE(small_types[kind]);
    for (int k = 0; k < 2; k++) {
        many[k] = PyArray_CheckExact(given[k + 1]);
        if (!many[k] && !small_taken(kind, given[k + 1], &numbers[k]))
            return NULL;
        data[k] = many[k] ? PyArray_BYTES((PyArrayObject *)given[k + 1]) : (const char *)&numbers[k];
    }
    Py_INCREF(small_types[kind]); /* it is stolen */
    PyObject *found = PyArray_NewFromDescr(&PyArray_Type, small_types[kind], PyArray_NDIM(mask), PyArray_DIMS(mask), NULL,
                                           NULL, 0, NULL);
    if (found != NULL)
        (width == 1 ? bytes : width == 4 ? fours : eights)(
            PyArray_SIZE(mask), (const npy_bool *)PyArray_BYTES(mask), PyArray_BYTES((PyArrayObject *)found), data[0],
            many[0], data[1], many[1]);
    return found;
}

PyObject *small_zeros_like(PyObject *x)
{
    PyArrayObject *array = (PyArrayObject *)x;
    if (!dense(x) || PyArray_NDIM(array) == 0)
        return NULL;
    Py_INCREF(PyArray_DESCR(array)); /* it is stolen */
    return PyArray_Zeros(PyArray_NDIM(array), PyArray_DIMS(array), PyArray_DESCR(array), 0);
}

PyObject *small_duplicate(PyObject *x)
{
    if (Py_TYPE(x) != state.array_class && !PyArray_CheckExact(x))
        return NULL;
    PyObject *memory = small_number_or_near(x);
    PyObject *found = memory == NULL ? NULL : PyArray_NewCopy((PyArrayObject *)memory, NPY_KEEPORDER);
    Py_XDECREF(memory);
    return small_shown(found);
}
