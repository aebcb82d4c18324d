/* Python's operators on arrays: diffuse/numpy/arrays/arithmetic.py in C, with the same behaviour.
 *
 * What is not small and at hand goes to the functions of `core.slow`. */
#include "updates.h"

static const char *SPELLED[NAMES] = {
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "left_shift", "right_shift",
    "bitwise_and", "bitwise_or", "bitwise_xor", "matmul", "power", "square", "negative", "positive", "absolute", "invert",
    "less", "less_equal", "equal", "not_equal", "greater", "greater_equal", "forward", "reflected", "equality",
    "alone", "update", "known", "known_unary", "known_inplace", "subscript", "assign"};

static PyObject *name_of[NAMES];
PyObject *small_ufuncs[FORWARD]; /* NumPy's, by the same numbers */
static PyObject *depth;           /* calls of Python functions from the program's line to the engine */

/* One of the functions of `core.slow`. */
PyObject *small_slowly(int way, PyObject *x, PyObject *y, PyObject *z)
{
    return PyObject_CallMethodObjArgs(state.slow, name_of[way], x, y, z, NULL);
}

typedef PyObject *(*Binary)(PyObject *, PyObject *);

/* Both operands, if the operation can be done at once: 1, 0 if not, -1 with an exception. */
int small_operands(PyObject *a, PyObject *b, PyObject **left, PyObject **right)
{
    *left = small_number_or_near(a);
    if (*left == NULL)
        return PyErr_Occurred() ? -1 : 0;
    *right = small_number_or_near(b);
    if (*right != NULL && !small_spreads(*left, *right))
        return 1;
    Py_DECREF(*left);
    Py_CLEAR(*right);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *small_ask_known(PyObject *function, PyObject *a, PyObject *b)
{
    if (b == NULL)
        return PyObject_CallMethodObjArgs(state.slow, name_of[KNOWN_UNARY], function, a, depth, NULL);
    return PyObject_CallMethodObjArgs(state.slow, name_of[KNOWN], function, a, b, depth, NULL);
}

int small_moves(PyObject *ufunc)
{
    return PySet_GET_SIZE(state.moving) && PySet_Contains(state.moving, ufunc) > 0;
}

/* For which types an operation has NumPy's bits, and is no slower there.  Of products `small_connect_products` says
 * it, which depend on the processor. */
static unsigned char WAY[FORWARD] = {
    [ADD] = SMALL_ANY, [SUBTRACT] = SMALL_ANY, [MULTIPLY] = SMALL_REAL, [SQUARE] = SMALL_REAL, [DIVIDE] = SMALL_REAL,
    [FLOOR_DIVIDE] = SMALL_WHOLE, [REMAINDER] = SMALL_WHOLE, [LEFT_SHIFT] = SMALL_WHOLE,
    [RIGHT_SHIFT] = SMALL_WHOLE, [AND] = SMALL_WHOLE, [OR] = SMALL_WHOLE, [XOR] = SMALL_WHOLE,
    [NEGATIVE] = SMALL_ANY, [POSITIVE] = SMALL_ANY, [ABSOLUTE] = SMALL_REAL, [INVERT] = SMALL_WHOLE,
    [LESS] = SMALL_REAL, [LESS_EQUAL] = SMALL_REAL, [EQUAL] = SMALL_REAL, [NOT_EQUAL] = SMALL_REAL,
    [GREATER] = SMALL_REAL, [GREATER_EQUAL] = SMALL_REAL};

void small_connect_products(int fused)
{
    WAY[MULTIPLY] = WAY[SQUARE] = fused ? SMALL_DOUBLE : SMALL_REAL;
}

/* A binary operation that is not done at once. */
static PyObject *far(PyObject *a, PyObject *b, int name)
{
    PyObject *found = small_known(small_ufuncs[name], a, b);
    if (found != Py_None)
        return found;
    Py_DECREF(found);
    if (PyObject_TypeCheck(a, &Array_Type))
        return small_slowly(FORWARD, name_of[name], a, b);
    return small_slowly(REFLECTED, name_of[name], b, a);
}

/* An operand that is a list or tuple of numbers as the array that NumPy makes of it, a new reference; NULL for other
 * operands, or with an exception. */
static PyObject *listed(PyObject *x) { return small_sequence(x, state.small) ? PyArray_FROM_O(x) : NULL; }

enum { NEW_CALLS = 8 }; /* on the same views, from which on they are recorded */

/* An operation that an update needs next, at a place that may bring other views every turn: it is put off instead of
 * recorded, as long as its views are new; NULL if it has to be recorded, or with an exception. */
static PyObject *put_off_new(PyObject *a, PyObject *b, int name)
{
    npy_intp bytes = 0;
    PyObject *left = state.small ? small_soon_operand(a, WAY[name], &bytes) : NULL, *found = NULL;
    PyObject *right = left == NULL ? NULL : small_soon_operand(b, WAY[name], &bytes);
    if (right != NULL)
        found = small_put_off(name, a, b, left, right, NEW_CALLS);
    Py_XDECREF(left);
    Py_XDECREF(right);
    return found;
}

/* `frame` is that of the slot's function, of which the caller is told. */
static PyObject *binary(PyObject *a, PyObject *b, Binary function, int name, void **frame)
{
    PyObject *left, *right;
    int ours = PyObject_TypeCheck(a, &Array_Type);
    if ((left = listed(ours ? b : a)) != NULL || PyErr_Occurred()) {
        PyObject *found = left == NULL ? NULL : ours ? binary(a, left, function, name, frame)
                          : binary(left, b, function, name, frame);
        Py_XDECREF(left);
        return found;
    }
    int ready = small_operands(a, b, &left, &right), soon = ready == 0;
    if (ready == 0 && state.left > 0) {
        PyObject *moved;
        int moves = small_moved_before(small_ufuncs[name], a, b, &moved);
        if (moved != NULL || PyErr_Occurred())
            return moved;
        ready = moves ? 0 : small_soon(a, b, WAY[name], &left, &right);
        if (ready > 0 && small_met(small_ufuncs[name], (PyObject *[]){a, b}, 2) < 0) {
            Py_DECREF(left);
            Py_DECREF(right);
            return NULL;
        }
    }
    if (ready < 0)
        return NULL;
    if (!ready) {
        PyObject *later = small_moves(small_ufuncs[name]) ? put_off_new(a, b, name) : NULL;
        return later != NULL || PyErr_Occurred() ? later : far(a, b, name);
    }
    PyObject *found = soon ? small_put_off(name, a, b, left, right, 0) : NULL;
    if (found == NULL && !PyErr_Occurred() && (Py_REFCNT(a) == 1 || Py_REFCNT(b) == 1))
        found = small_over_temporary(name, a, b, left, right, frame);
    if (found == NULL && !PyErr_Occurred()) {
        if ((found = small_loop(name, left, right)) == NULL && !PyErr_Occurred())
            found = function(left, right);
        found = small_shown(found);
    }
    Py_DECREF(left);
    Py_DECREF(right);
    return found;
}

PyObject *small_reflected(PyObject *a, PyObject *b, int name)
{
    PyObject *left, *right;
    int ready = state.left > 0 ? small_soon(a, b, WAY[name], &left, &right) : 0;
    if (ready <= 0)
        return ready < 0 ? NULL : far(a, b, name);
    PyObject *found = small_shown(PyObject_CallFunctionObjArgs(small_ufuncs[name], left, right, NULL));
    Py_DECREF(left);
    Py_DECREF(right);
    return found;
}

#define BINARY(slot, function, name) \
    static PyObject *slot(PyObject *a, PyObject *b)                                   \
    {                                                                                 \
        return binary(a, b, function, name, (void **)__builtin_frame_address(0));     \
    }

BINARY(op_add, PyNumber_Add, ADD)
BINARY(op_subtract, PyNumber_Subtract, SUBTRACT)
BINARY(op_multiply, PyNumber_Multiply, MULTIPLY)
BINARY(op_divide, PyNumber_TrueDivide, DIVIDE)
BINARY(op_floor_divide, PyNumber_FloorDivide, FLOOR_DIVIDE)
BINARY(op_remainder, PyNumber_Remainder, REMAINDER)
BINARY(op_left_shift, PyNumber_Lshift, LEFT_SHIFT)
BINARY(op_right_shift, PyNumber_Rshift, RIGHT_SHIFT)
BINARY(op_and, PyNumber_And, AND)
BINARY(op_or, PyNumber_Or, OR)
BINARY(op_xor, PyNumber_Xor, XOR)

static PyObject *op_matmul(PyObject *a, PyObject *b)
{
    PyObject *found = small_product(a, b);
    return found != NULL || PyErr_Occurred() ? found : far(a, b, MATMUL);
}

static PyObject *two_powers(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }

static PyObject *op_power(PyObject *a, PyObject *b, PyObject *modulo)
{
    if (modulo != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *left, *right;
    int ready = small_operands(a, b, &left, &right);
    if (ready == 0 && state.left > 0 && PyLong_CheckExact(b) && PyLong_AsLong(b) == 2)
        ready = small_soon(a, b, WAY[SQUARE], &left, &right);
    if (ready < 0)
        return NULL;
    if (!ready) {
        if (PyLong_CheckExact(b) && PyLong_AsLong(b) == 2) {
            PyObject *again = small_known(small_ufuncs[SQUARE], a, NULL);
            if (again != Py_None)
                return again;
            Py_DECREF(again);
        }
        PyErr_Clear(); /* the exponent may be too large for a number of C's */
        if (PyObject_TypeCheck(a, &Array_Type))
            return small_slowly(POWER, a, b, NULL);
        return small_slowly(REFLECTED, name_of[POWER], b, a);
    }
    PyObject *found = PyLong_CheckExact(b) && PyLong_AsLong(b) == 2 ? small_loop(SQUARE, left, NULL) : NULL;
    PyErr_Clear(); /* the exponent may be too large for a number of C's */
    if (found == NULL)
        found = two_powers(left, right);
    found = small_shown(found);
    Py_DECREF(left);
    Py_DECREF(right);
    return found;
}

static PyObject *unary(PyObject *a, unaryfunc function, int name)
{
    PyObject *memory = small_number_or_near(a), *none;
    if (memory == NULL && !PyErr_Occurred() && state.left > 0) {
        PyObject *moved;
        int moves = small_moved_before(small_ufuncs[name], a, NULL, &moved);
        if (moved != NULL || PyErr_Occurred())
            return moved;
        if (!moves && small_soon(a, NULL, WAY[name], &memory, &none) > 0 && small_met(small_ufuncs[name], &a, 1) < 0)
            Py_CLEAR(memory);
    }
    if (memory == NULL && PyErr_Occurred())
        return NULL;
    if (memory == NULL) {
        PyObject *again = small_known(small_ufuncs[name], a, NULL);
        if (again != Py_None)
            return again;
        Py_DECREF(again);
        return small_slowly(ALONE, name_of[name], a, NULL);
    }
    PyObject *found = small_loop(name, memory, NULL);
    if (found == NULL && !PyErr_Occurred())
        found = function(memory);
    Py_DECREF(memory);
    return small_shown(found);
}

static PyObject *op_negative(PyObject *a) { return unary(a, PyNumber_Negative, NEGATIVE); }
static PyObject *op_positive(PyObject *a) { return unary(a, PyNumber_Positive, POSITIVE); }
static PyObject *op_absolute(PyObject *a) { return unary(a, PyNumber_Absolute, ABSOLUTE); }
static PyObject *op_invert(PyObject *a) { return unary(a, PyNumber_Invert, INVERT); }

/* In the order of Py_LT, Py_LE, Py_EQ, Py_NE, Py_GT and Py_GE. */
static PyObject *compare(PyObject *a, PyObject *b, int op)
{
    PyObject *left, *right;
    if ((right = listed(b)) != NULL || PyErr_Occurred()) {
        PyObject *found = right == NULL ? NULL : compare(a, right, op);
        Py_XDECREF(right);
        return found;
    }
    int ready = small_operands(a, b, &left, &right);
    if (ready == 0 && state.left > 0)
        ready = small_soon(a, b, WAY[LESS + op], &left, &right);
    if (ready < 0)
        return NULL;
    if (!ready) {
        PyObject *again = small_known(small_ufuncs[LESS + op], a, b);
        if (again != Py_None)
            return again;
        Py_DECREF(again);
        return small_slowly(op == Py_EQ || op == Py_NE ? EQUALITY : FORWARD, name_of[LESS + op], a, b);
    }
    PyObject *found = small_loop(LESS + op, left, right);
    if (found == NULL && !PyErr_Occurred())
        found = PyObject_RichCompare(left, right, op);
    found = small_shown(found);
    Py_DECREF(left);
    Py_DECREF(right);
    return found;
}

static PyNumberMethods operators_number = {
    .nb_add = op_add, .nb_subtract = op_subtract, .nb_multiply = op_multiply, .nb_true_divide = op_divide,
    .nb_floor_divide = op_floor_divide, .nb_remainder = op_remainder, .nb_lshift = op_left_shift,
    .nb_rshift = op_right_shift, .nb_and = op_and, .nb_or = op_or, .nb_xor = op_xor,
    .nb_matrix_multiply = op_matmul, .nb_power = op_power, .nb_negative = op_negative,
    .nb_positive = op_positive, .nb_absolute = op_absolute, .nb_invert = op_invert,
};

PyTypeObject Operators_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "diffuse.numpy.small.Operators",
    .tp_doc = "Arithmetic, comparison and bitwise operators.",
    .tp_base = &Array_Type,
    .tp_basicsize = sizeof(Array),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_as_number = &operators_number,
    .tp_richcompare = compare,
};

/* -- operators in place --------------------------------------------------------------------------------- */

/* The memory of a large array to write to and the other operand, if the operation is to be done now: 1; 0 if not,
 * -1 with an exception. */
static int soon_in_place(PyObject *a, PyObject *b, int name, PyObject **memory, PyObject **right)
{
    int ready = name == POWER ? 0 : small_soon(a, b, WAY[name], memory, right);
    if (ready <= 0)
        return ready;
    Py_SETREF(*memory, small_mine((Array *)a));
    if (*memory == NULL)
        Py_CLEAR(*right);
    return *memory != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

static PyObject *in_place(PyObject *a, PyObject *b, Binary function, int name)
{
    int updated = small_put_off_array == NULL ? 0 : small_update(name, a, b);
    if (updated)
        return updated < 0 ? NULL : Py_NewRef(a);
    PyObject *array = listed(b);
    if (array != NULL || PyErr_Occurred()) {
        PyObject *found = array == NULL ? NULL : in_place(a, array, function, name);
        Py_XDECREF(array);
        return found;
    }
    PyObject *memory = small_near_to_write((Array *)a);
    PyObject *right = memory == NULL ? NULL : small_number_or_near(b);
    if (right == NULL && !PyErr_Occurred() && state.left > 0) {
        Py_CLEAR(memory);
        if (soon_in_place(a, b, name, &memory, &right) < 0)
            return NULL;
    }
    if (right == NULL) {
        Py_XDECREF(memory);
        if (!PyErr_Occurred() && small_moves(small_ufuncs[name])) {
            PyObject *moved = small_moved_in_place(small_ufuncs[name], a, b);
            if (moved != Py_None)
                return moved != NULL || PyErr_Occurred() ? moved : small_slowly(UPDATE, name_of[name], a, b);
            Py_DECREF(moved);
        }
        PyObject *operands[] = {a, b};
        if (name == POWER && !PyErr_Occurred()) /* which operation it is the exponent tells, not its type */
            return small_slowly(UPDATE, name_of[name], a, b);
        int done = PyErr_Occurred() ? -1 : small_known_into(small_ufuncs[name], operands, 2, (Array *)a);
        if (done == 0) {
            PyObject *again = small_slowly(KNOWN_INPLACE, small_ufuncs[name], a, b);
            done = again == NULL ? -1 : PyObject_IsTrue(again);
            Py_XDECREF(again);
        }
        return done < 0 ? NULL : done ? Py_NewRef(a) : small_slowly(UPDATE, name_of[name], a, b);
    }
    int done = small_loop_in_place(name, memory, right);
    PyObject *found = done < 0 ? NULL : done ? Py_NewRef(memory) : function(memory, right);
    Py_DECREF(memory);
    Py_DECREF(right);
    if (found == NULL)
        return NULL;
    Py_DECREF(found);
    return Py_NewRef(a);
}

static PyObject *raise(PyObject *a, PyObject *b) { return PyNumber_InPlacePower(a, b, Py_None); }

#define IN_PLACE(slot, function, name) \
    static PyObject *slot(PyObject *a, PyObject *b) { return in_place(a, b, function, name); }

IN_PLACE(in_add, PyNumber_InPlaceAdd, ADD)
IN_PLACE(in_subtract, PyNumber_InPlaceSubtract, SUBTRACT)
IN_PLACE(in_multiply, PyNumber_InPlaceMultiply, MULTIPLY)
IN_PLACE(in_divide, PyNumber_InPlaceTrueDivide, DIVIDE)
IN_PLACE(in_floor_divide, PyNumber_InPlaceFloorDivide, FLOOR_DIVIDE)
IN_PLACE(in_remainder, PyNumber_InPlaceRemainder, REMAINDER)
IN_PLACE(in_left_shift, PyNumber_InPlaceLshift, LEFT_SHIFT)
IN_PLACE(in_right_shift, PyNumber_InPlaceRshift, RIGHT_SHIFT)
IN_PLACE(in_and, PyNumber_InPlaceAnd, AND)
IN_PLACE(in_or, PyNumber_InPlaceOr, OR)
IN_PLACE(in_xor, PyNumber_InPlaceXor, XOR)

static PyObject *in_power(PyObject *a, PyObject *b, PyObject *modulo) { return in_place(a, b, raise, POWER); }

PyNumberMethods small_described_number = {
    .nb_index = (unaryfunc)small_as_index,
    .nb_inplace_add = in_add, .nb_inplace_subtract = in_subtract, .nb_inplace_multiply = in_multiply,
    .nb_inplace_true_divide = in_divide, .nb_inplace_floor_divide = in_floor_divide,
    .nb_inplace_remainder = in_remainder, .nb_inplace_lshift = in_left_shift,
    .nb_inplace_rshift = in_right_shift, .nb_inplace_and = in_and, .nb_inplace_or = in_or,
    .nb_inplace_xor = in_xor, .nb_inplace_power = in_power,
};

int small_operators_ready(void)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    for (int k = 0; numpy != NULL && k < NAMES; k++)
        if ((name_of[k] = PyUnicode_InternFromString(SPELLED[k])) == NULL
                || (k < FORWARD && (small_ufuncs[k] = PyObject_GetAttr(numpy, name_of[k])) == NULL))
            break;
    Py_XDECREF(numpy);
    depth = PyLong_FromLong(2);
    if (!PyErr_Occurred() && small_types_ready() == 0)
        small_find_loops();
    return PyErr_Occurred() ? -1 : 0;
}
