/* Operators of NumPy's numbers and arrays on the left of Diffuse's arrays.
 *
 * `numpy.float64(2) * x` reaches an array by way of NumPy's ufunc, which looks for `__array_ufunc__` among its
 * operands and makes a call of it: twice what the operation takes.  As far as NumPy's numbers have slots of their own
 * for Python's operators, these look at the right operand first.  So do those of NumPy's arrays, which small views
 * and results are: where both operands are small and at hand, the operation is done there. */
#include "operators.h"

enum { ADDED, SUBTRACTED, MULTIPLIED, DIVIDED, OPERATORS };
enum { DOUBLE, SINGLE, LONG, ARRAY, KINDS };

static binaryfunc numpys[KINDS][OPERATORS];

#define OPERATOR(kind, number, slot)                                                                           \
    static PyObject *kind##_##number(PyObject *a, PyObject *b)                                                 \
    {                                                                                                          \
        return Py_TYPE(b) == state.array_class ? Operators_Type.tp_as_number->slot(a, b)                       \
                                               : numpys[kind][number](a, b);                                   \
    }

#define OPERATORS_OF(kind)                                                                                     \
    OPERATOR(kind, ADDED, nb_add)                                                                              \
    OPERATOR(kind, SUBTRACTED, nb_subtract)                                                                    \
    OPERATOR(kind, MULTIPLIED, nb_multiply)                                                                    \
    OPERATOR(kind, DIVIDED, nb_true_divide)

OPERATORS_OF(DOUBLE)
OPERATORS_OF(SINGLE)
OPERATORS_OF(LONG)

/* The operation of an array of NumPy's own and one of ours, if both are small and at hand; else NULL. */
static PyObject *at_hand(PyObject *a, PyObject *b, int name, binaryfunc function)
{
    PyObject *left, *right;
    if (Py_TYPE(b) != state.array_class || !PyArray_CheckExact(a) || small_operands(a, b, &left, &right) <= 0)
        return NULL;
    PyObject *found = small_loop(name, left, right);
    if (found == NULL && !PyErr_Occurred())
        found = function(left, right);
    found = small_shown(found);
    Py_DECREF(left);
    Py_DECREF(right);
    return found;
}

#define ARRAYS_OPERATOR(number, name)                                                                                \
    static PyObject *ARRAY_##number(PyObject *a, PyObject *b)                                                  \
    {                                                                                                          \
        PyObject *found = at_hand(a, b, name, numpys[ARRAY][number]);                                          \
        return found != NULL || PyErr_Occurred() ? found : numpys[ARRAY][number](a, b);                        \
    }

ARRAYS_OPERATOR(ADDED, ADD)
ARRAYS_OPERATOR(SUBTRACTED, SUBTRACT)
ARRAYS_OPERATOR(MULTIPLIED, MULTIPLY)
ARRAYS_OPERATOR(DIVIDED, DIVIDE)

static void take(binaryfunc *slot, binaryfunc *before, binaryfunc ours)
{
    if (*slot != ours) { /* again, if the module is made anew */
        *before = *slot;
        *slot = ours;
    }
}

#define TAKE(kind, type)                                                                                       \
    take(&type.tp_as_number->nb_add, &numpys[kind][ADDED], kind##_ADDED);                                      \
    take(&type.tp_as_number->nb_subtract, &numpys[kind][SUBTRACTED], kind##_SUBTRACTED);                       \
    take(&type.tp_as_number->nb_multiply, &numpys[kind][MULTIPLIED], kind##_MULTIPLIED);                       \
    take(&type.tp_as_number->nb_true_divide, &numpys[kind][DIVIDED], kind##_DIVIDED);

void small_numbers(void)
{
    TAKE(DOUBLE, PyDoubleArrType_Type)
    TAKE(SINGLE, PyFloatArrType_Type)
    TAKE(LONG, PyLongArrType_Type)
    TAKE(ARRAY, PyArray_Type)
}
