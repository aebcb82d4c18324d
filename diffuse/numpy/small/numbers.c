/* Operators of NumPy's numbers on the left of arrays.
 *
 * `numpy.float64(2) * x` reaches an array by way of NumPy's ufunc, which looks for `__array_ufunc__` among its
 * operands and makes a call of it: twice what the operation takes.  As far as NumPy's numbers have slots of their own
 * for Python's operators, these look at the right operand first. */
#include "small.h"

enum { ADDED, SUBTRACTED, MULTIPLIED, DIVIDED, OPERATORS };
enum { DOUBLE, SINGLE, LONG, KINDS };

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
}
