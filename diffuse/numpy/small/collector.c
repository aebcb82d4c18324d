/* Python's garbage collector: which objects it leaves alone. */
#include "small.h"

#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
/* What precedes an object that the collector knows: its neighbours in the list of a generation, which is circular.  The
 * lowest bits of `before` are flags.  (`PyGC_Head` of Python's internal headers, from 3.8 to 3.13.) */
typedef struct Head {
    uintptr_t after, before;
} Head;
enum { FLAGS = 3 };

static Head *head_of(PyObject *object) { return (Head *)object - 1; }

static void put_before(Head *one, Head *other) { one->before = (one->before & FLAGS) | (uintptr_t)other; }

/* Track an object in the generation of another one. */
static void track_beside(PyObject *object, PyObject *other)
{
    Head *one = head_of(object), *left = head_of(other), *right = (Head *)left->after;
    one->after = (uintptr_t)right;
    put_before(one, left);
    put_before(right, one);
    left->after = (uintptr_t)one;
}
#else
static void track_beside(PyObject *object, PyObject *other) { PyObject_GC_Track(object); } /* in the youngest one */
#endif

PyObject *small_thaw(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !PyList_Check(args[0]) || !PyObject_GC_IsTracked(args[1])) {
        PyErr_SetString(PyExc_TypeError, "thaw() takes a list of objects, and an object of the collector's");
        return NULL;
    }
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[0]); k++) {
        PyObject *object = PyList_GET_ITEM(args[0], k);
        if (object != args[1] && PyObject_GC_IsTracked(object)) {
            PyObject_GC_UnTrack(object);
            track_beside(object, args[1]);
        }
    }
    Py_RETURN_NONE;
}
