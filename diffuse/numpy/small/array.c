/* Arrays and their operators: diffuse/numpy/arrays/{core,access,arithmetic,elements}.py in C, with the same names
 * and the same behaviour.
 *
 * Only what is small and at hand is done here; everything else goes to the functions of `core.slow`. */
#include "small.h"
#define PY_UFUNC_UNIQUE_SYMBOL diffuse_small_ufuncs
#define NO_IMPORT_UFUNC
#include <numpy/ufuncobject.h>

State state;
static PyObject *name_touched, *name_epoch;

/* -- the array ----------------------------------------------------------------------------------------- */

static PyMemberDef array_members[] = {
    {"storage", T_OBJECT_EX, offsetof(Array, storage), 0, NULL},
    {"_form", T_OBJECT_EX, offsetof(Array, form), 0, NULL},
    {"part", T_OBJECT_EX, offsetof(Array, part), 0, NULL},
    {"meta", T_OBJECT_EX, offsetof(Array, meta), 0, NULL},
    {"memory", T_OBJECT_EX, offsetof(Array, memory), 0, NULL},
    {"owner", T_OBJECT_EX, offsetof(Array, owner), 0, NULL},
    {"lent", T_BOOL, offsetof(Array, lent), 0, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Array, weakrefs), READONLY, NULL},
    {NULL}};

static int array_traverse(Array *x, visitproc visit, void *arg)
{
    Py_VISIT(x->storage);
    Py_VISIT(x->form);
    Py_VISIT(x->part);
    Py_VISIT(x->meta);
    Py_VISIT(x->memory);
    Py_VISIT(x->owner);
    return 0;
}

static int array_clear(Array *x)
{
    Py_CLEAR(x->storage);
    Py_CLEAR(x->form);
    Py_CLEAR(x->part);
    Py_CLEAR(x->meta);
    Py_CLEAR(x->memory);
    Py_CLEAR(x->owner);
    return 0;
}

static void array_dealloc(Array *x)
{
    PyObject_GC_UnTrack(x);
    if (x->weakrefs != NULL)
        PyObject_ClearWeakRefs((PyObject *)x);
    array_clear(x);
    Py_TYPE(x)->tp_free((PyObject *)x);
}

static PyObject *get_form(Array *x, void *closure)
{
    if (!absent(x->form))
        return Py_NewRef(x->form);
    PyObject *found = PyObject_CallMethod(state.slow, "form_of", "O", x->meta);
    if (found != NULL)
        Py_XSETREF(x->form, Py_NewRef(found));
    return found;
}

static int set_form(Array *x, PyObject *form, void *closure)
{
    Py_XSETREF(x->form, Py_XNewRef(form));
    return 0;
}

static PyGetSetDef array_getset[] = {
    {"form", (getter)get_form, (setter)set_form, "Shape, strides and element type, interned.", NULL}, {NULL}};

PyTypeObject Array_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "diffuse.numpy.small.Array",
    .tp_doc = "The common part of `ndarray` and the lazy scalar.",
    .tp_basicsize = sizeof(Array),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_weaklistoffset = offsetof(Array, weakrefs),
    .tp_traverse = (traverseproc)array_traverse,
    .tp_clear = (inquiry)array_clear,
    .tp_dealloc = (destructor)array_dealloc,
    .tp_members = array_members,
    .tp_getset = array_getset,
    .tp_new = PyType_GenericNew,
};

/* The memory of arrays that died, for the next ones: most arrays live no longer than one expression. */
enum { SPARE = 64 };
static Array *spare[SPARE];
static int spares;

Array *small_blank(void)
{
    if (spares == 0)
        return (Array *)state.array_class->tp_alloc(state.array_class, 0);
    Array *x = spare[--spares];
    PyObject_Init((PyObject *)x, state.array_class);
    PyObject_GC_Track(x);
    return x;
}

/* `tp_dealloc` of the class of arrays, which has no slots and no `__dict__` beside those of its base. */
static void ended(Array *x)
{
    PyTypeObject *type = Py_TYPE(x);
    PyObject_GC_UnTrack(x);
    if (x->weakrefs != NULL)
        PyObject_ClearWeakRefs((PyObject *)x);
    array_clear(x);
    x->lent = 0;
    if (type == state.array_class && spares < SPARE)
        spare[spares++] = x;
    else
        type->tp_free(x);
    Py_DECREF(type);
}

void small_recycle(PyTypeObject *type) { type->tp_dealloc = (destructor)ended; }

static Array *fresh(PyObject *meta)
{
    Array *x = small_blank();
    if (x != NULL) {
        x->form = Py_NewRef(Py_None);
        x->part = Py_NewRef(Py_None);
        x->meta = Py_NewRef(meta);
    }
    return x;
}

PyObject *small_hosted(PyObject *memory, PyObject *form)
{
    Array *x = fresh(memory);
    if (x == NULL)
        return NULL;
    if (form != Py_None)
        Py_SETREF(x->form, Py_NewRef(form));
    x->memory = Py_NewRef(memory);
    x->storage = Py_NewRef(Py_None);
    x->owner = Py_NewRef(Py_None);
    return (PyObject *)x;
}

PyObject *small_viewing(Array *parent, PyObject *meta)
{
    Array *owner = absent(parent->owner) ? parent : (Array *)parent->owner;
    Array *x = fresh(meta);
    if (x == NULL)
        return NULL;
    x->memory = Py_NewRef(parent->meta == parent->memory ? meta : Py_None);
    x->storage = Py_NewRef(owner->storage == NULL ? Py_None : owner->storage);
    x->owner = Py_NewRef((PyObject *)owner);
    return (PyObject *)x;
}

PyObject *small_looking(Array *parent, PyObject *memory)
{
    PyObject *x = small_viewing(parent, memory);
    if (x != NULL)
        Py_SETREF(((Array *)x)->memory, Py_NewRef(memory));
    return x;
}

/* -- what is at hand ------------------------------------------------------------------------------------ */

int small_native(PyArrayObject *x)
{
    int type = PyArray_TYPE(x);
    return (type <= NPY_ULONGLONG || type == NPY_FLOAT || type == NPY_DOUBLE || type == NPY_CFLOAT
            || type == NPY_CDOUBLE || type == NPY_HALF) && PyArray_ISNBO(PyArray_DESCR(x)->byteorder);
}

/* May the memory of an array that no store was given to be used?  Takes over the owner's store. */
static int unattached(Array *x)
{
    if (!absent(x->storage))
        return 0;
    if (absent(x->owner) || absent(((Array *)x->owner)->storage))
        return !absent(x->memory);
    Py_XSETREF(x->storage, Py_NewRef(((Array *)x->owner)->storage));
    return 0;
}

/* Is no task pending on the store of an array?  -1 with an exception. */
static int idle(Array *x)
{
    int now = small_idle(x->storage);
    if (now >= 0)
        return now;
    PyObject *touched = PyObject_GetAttr(x->storage, name_touched);
    PyObject *epoch = touched == NULL ? NULL : PyObject_GetAttr(state.engine, name_epoch);
    int same = epoch == NULL ? -1 : PyObject_RichCompareBool(touched, epoch, Py_EQ);
    Py_XDECREF(touched);
    Py_XDECREF(epoch);
    return same < 0 ? -1 : !same;
}

/* May the memory of an array be read now, as far as can be told at once?  -1 with an exception. */
int small_readable(Array *x)
{
    if (unattached(x))
        return 1;
    return absent(x->memory) || absent(x->storage) ? 0 : idle(x);
}

PyObject *small_at_hand(Array *x) { return small_readable(x) > 0 ? Py_NewRef(x->memory) : NULL; }

/* What a Python function says of an array: NULL, without an exception, for None. */
static PyObject *asked(PyObject *function, Array *x)
{
    PyObject *found = PyObject_CallOneArg(function, (PyObject *)x);
    if (found == Py_None)
        Py_CLEAR(found);
    return found;
}

PyObject *small_near(Array *x)
{
    if (absent(x->meta) || size_of(x->meta) >= state.small)
        return NULL;
    int now = small_readable(x);
    return now < 0 ? NULL : now ? Py_NewRef(x->memory) : asked(state.near, x);
}

/* The memory of an array if the host may write to it, as far as can be told at once: NULL, without an
   exception, if not.  Its store counts the writes. */
PyObject *small_mine(Array *x)
{
    if (unattached(x))
        return Py_NewRef(x->memory);
    if (!state.sees || absent(x->memory) || absent(x->storage) || small_idle(x->storage) <= 0)
        return NULL;
    return small_wrote(x->storage) < 0 ? NULL : Py_NewRef(x->memory);
}

PyObject *small_near_to_write(Array *x)
{
    if (absent(x->meta) || size_of(x->meta) >= state.small)
        return NULL;
    PyObject *memory = small_mine(x);
    return memory != NULL || PyErr_Occurred() ? memory : asked(state.near_to_write, x);
}

static int is_number(PyTypeObject *type)
{
    return type == &PyFloat_Type || type == &PyLong_Type || type == &PyComplex_Type || type == &PyBool_Type;
}

PyObject *small_number_or_near(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    if (type == state.array_class)
        return small_near((Array *)x);
    if (is_number(type))
        return Py_NewRef(x);
    if (type == &PyArray_Type)
        return size_of(x) < state.small && small_native((PyArrayObject *)x) ? Py_NewRef(x) : NULL;
    if (type == state.scalar_class) {
        PyObject *memory = small_near((Array *)x);
        if (memory == NULL)
            return NULL;
        PyObject *number = PyArray_ToScalar(PyArray_DATA((PyArrayObject *)memory), (PyArrayObject *)memory);
        Py_DECREF(memory);
        return number;
    }
    int known = PySet_Contains(state.numbers, (PyObject *)type);
    return known > 0 ? Py_NewRef(x) : NULL;
}

PyObject *small_given(PyObject *found)
{
    if (size_of(found) < state.tiny || !small_native((PyArrayObject *)found))
        return found;
    PyObject *x = small_hosted(found, Py_None);
    Py_DECREF(found);
    return x;
}

static PyObject *shown(PyObject *found)
{
    return found != NULL && PyArray_CheckExact(found) ? small_given(found) : found;
}

/* Is the result of two arrays larger than small arrays are?  Where shapes do not fit, NumPy says so. */
static int spreads(PyObject *left, PyObject *right)
{
    if (!PyArray_CheckExact(left) || !PyArray_CheckExact(right) || size_of(left) * size_of(right) < state.small)
        return 0;
    PyArrayObject *a = (PyArrayObject *)left, *b = (PyArrayObject *)right;
    npy_intp size = 1;
    for (int k = 1; k <= PyArray_NDIM(a) || k <= PyArray_NDIM(b); k++) {
        npy_intp one = k <= PyArray_NDIM(a) ? PyArray_DIM(a, PyArray_NDIM(a) - k) : 1;
        npy_intp other = k <= PyArray_NDIM(b) ? PyArray_DIM(b, PyArray_NDIM(b) - k) : 1;
        size *= one == 1 ? other : one;
    }
    return size >= state.small;
}

/* -- operators ------------------------------------------------------------------------------------------ */

/* The names of ufuncs, and of the functions of `core.slow`, as Python's strings. */
enum { ADD, SUBTRACT, MULTIPLY, DIVIDE, FLOOR_DIVIDE, REMAINDER, LEFT_SHIFT, RIGHT_SHIFT, AND, OR, XOR, MATMUL,
       POWER, SQUARE, NEGATIVE, POSITIVE, ABSOLUTE, INVERT, LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL,
       FORWARD, REFLECTED, EQUALITY, ALONE, UPDATE, KNOWN, KNOWN_UNARY, KNOWN_INPLACE, SUBSCRIPT, ASSIGN, NAMES };

static const char *SPELLED[NAMES] = {
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "left_shift", "right_shift",
    "bitwise_and", "bitwise_or", "bitwise_xor", "matmul", "power", "square", "negative", "positive", "absolute", "invert",
    "less", "less_equal", "equal", "not_equal", "greater", "greater_equal", "forward", "reflected", "equality",
    "alone", "update", "known", "known_unary", "known_inplace", "subscript", "assign"};

static PyObject *name_of[NAMES];
static PyObject *ufuncs[FORWARD]; /* NumPy's, by the same numbers */
static PyObject *depth;           /* calls of Python functions from the program's line to the engine */

/* One of the functions of `core.slow`. */
static PyObject *slowly(int way, PyObject *x, PyObject *y, PyObject *z)
{
    return PyObject_CallMethodObjArgs(state.slow, name_of[way], x, y, z, NULL);
}

typedef PyObject *(*Binary)(PyObject *, PyObject *);

/* Both operands, if the operation can be done at once: 1, 0 if not, -1 with an exception. */
static int operands(PyObject *a, PyObject *b, PyObject **left, PyObject **right)
{
    *left = small_number_or_near(a);
    if (*left == NULL)
        return PyErr_Occurred() ? -1 : 0;
    *right = small_number_or_near(b);
    if (*right != NULL && !spreads(*left, *right))
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

/* For which types an operation has NumPy's bits, and is no slower there. */
static const unsigned char WAY[FORWARD] = {
    [ADD] = SMALL_ANY, [SUBTRACT] = SMALL_ANY, [MULTIPLY] = SMALL_REAL, [DIVIDE] = SMALL_REAL,
    [FLOOR_DIVIDE] = SMALL_WHOLE, [REMAINDER] = SMALL_WHOLE, [LEFT_SHIFT] = SMALL_WHOLE,
    [RIGHT_SHIFT] = SMALL_WHOLE, [AND] = SMALL_WHOLE, [OR] = SMALL_WHOLE, [XOR] = SMALL_WHOLE,
    [NEGATIVE] = SMALL_REAL, [POSITIVE] = SMALL_REAL, [ABSOLUTE] = SMALL_REAL, [INVERT] = SMALL_WHOLE,
    [LESS] = SMALL_REAL, [LESS_EQUAL] = SMALL_REAL, [EQUAL] = SMALL_REAL, [NOT_EQUAL] = SMALL_REAL,
    [GREATER] = SMALL_REAL, [GREATER_EQUAL] = SMALL_REAL};

static PyObject *far(PyObject *a, PyObject *b, int name)
{
    PyObject *found = small_known(ufuncs[name], a, b);
    if (found != Py_None)
        return found;
    Py_DECREF(found);
    if (PyObject_TypeCheck(a, &Array_Type))
        return slowly(FORWARD, name_of[name], a, b);
    return slowly(REFLECTED, name_of[name], b, a);
}

static PyObject *binary(PyObject *a, PyObject *b, Binary function, int name)
{
    PyObject *left, *right;
    int ready = operands(a, b, &left, &right);
    if (ready == 0 && state.left > 0)
        ready = small_soon(a, b, WAY[name], &left, &right);
    if (ready < 0)
        return NULL;
    if (!ready)
        return far(a, b, name);
    PyObject *found = shown(function(left, right));
    Py_DECREF(left);
    Py_DECREF(right);
    return found;
}

#define BINARY(slot, function, name) \
    static PyObject *slot(PyObject *a, PyObject *b) { return binary(a, b, function, name); }

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

/* Elements of a matrix product.  Where shapes do not fit, NumPy says so. */
static npy_intp product_size(PyObject *left, PyObject *right)
{
    if (!PyArray_CheckExact(left) || !PyArray_CheckExact(right) || size_of(left) * size_of(right) < state.small)
        return 0;
    PyArrayObject *a = (PyArrayObject *)left, *b = (PyArrayObject *)right;
    int n = PyArray_NDIM(a), m = PyArray_NDIM(b);
    npy_intp size = (n > 1 ? PyArray_DIM(a, n - 2) : 1) * (m > 1 ? PyArray_DIM(b, m - 1) : 1);
    for (int k = 3; k <= n || k <= m; k++) { /* the stacks of matrices are broadcast */
        npy_intp one = k <= n ? PyArray_DIM(a, n - k) : 1, other = k <= m ? PyArray_DIM(b, m - k) : 1;
        size *= one == 1 ? other : one;
    }
    return size;
}

enum { BRIEF = 3 << 20 }; /* bytes of a product's result, as products.MOST */

/* products._at_once: the product of a matrix and a matrix or vector that are at hand, whatever their size. */
static PyObject *brief_product(PyObject *a, PyObject *b)
{
    if (!state.small || !state.sees || Py_TYPE(a) != state.array_class || Py_TYPE(b) != state.array_class
            || small_readable((Array *)a) <= 0 || small_readable((Array *)b) <= 0)
        return NULL;
    PyArrayObject *one = (PyArrayObject *)((Array *)a)->memory, *other = (PyArrayObject *)((Array *)b)->memory;
    int ranks = PyArray_NDIM(one) + PyArray_NDIM(other);
    if (PyArray_NDIM(one) > 2 || PyArray_NDIM(other) > 2 || ranks < 3 || PyArray_NDIM(one) == 0 || PyArray_NDIM(other) == 0)
        return NULL;
    npy_intp rows = PyArray_NDIM(one) == 2 ? PyArray_DIM(one, 0) : 1;
    npy_intp columns = PyArray_NDIM(other) == 2 ? PyArray_DIM(other, 1) : 1;
    npy_intp width = PyArray_ITEMSIZE(one) > PyArray_ITEMSIZE(other) ? PyArray_ITEMSIZE(one) : PyArray_ITEMSIZE(other);
    if (rows * columns * width > BRIEF)
        return NULL;
    small_looked();
    PyObject *found = PyObject_CallFunctionObjArgs(ufuncs[MATMUL], one, other, NULL);
    if (found == NULL || !PyArray_CheckExact(found))
        return found;
    PyObject *x = small_hosted(found, Py_None);
    Py_DECREF(found);
    return x;
}

/* arithmetic.product: NULL without an exception unless both operands, and what they make, are small. */
static PyObject *product(PyObject *a, PyObject *b)
{
    PyObject *left = small_number_or_near(a), *found = NULL;
    PyObject *right = left == NULL ? NULL : small_number_or_near(b);
    if (right != NULL && product_size(left, right) < state.small)
        found = shown(PyNumber_MatrixMultiply(left, right));
    Py_XDECREF(left);
    Py_XDECREF(right);
    return found != NULL || PyErr_Occurred() ? found : brief_product(a, b);
}

static PyObject *op_matmul(PyObject *a, PyObject *b)
{
    PyObject *found = product(a, b);
    return found != NULL || PyErr_Occurred() ? found : far(a, b, MATMUL);
}

static PyObject *two_powers(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }

static PyObject *op_power(PyObject *a, PyObject *b, PyObject *modulo)
{
    if (modulo != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *left, *right;
    int ready = operands(a, b, &left, &right);
    if (ready == 0 && state.left > 0 && PyLong_CheckExact(b) && PyLong_AsLong(b) == 2)
        ready = small_soon(a, b, SMALL_REAL, &left, &right);
    if (ready < 0)
        return NULL;
    if (!ready) {
        if (PyLong_CheckExact(b) && PyLong_AsLong(b) == 2) {
            PyObject *again = small_known(ufuncs[SQUARE], a, NULL);
            if (again != Py_None)
                return again;
            Py_DECREF(again);
        }
        PyErr_Clear(); /* the exponent may be too large for a number of C's */
        if (PyObject_TypeCheck(a, &Array_Type))
            return slowly(POWER, a, b, NULL);
        return slowly(REFLECTED, name_of[POWER], b, a);
    }
    PyObject *found = shown(two_powers(left, right));
    Py_DECREF(left);
    Py_DECREF(right);
    return found;
}

static PyObject *unary(PyObject *a, unaryfunc function, int name)
{
    PyObject *memory = small_number_or_near(a), *none;
    if (memory == NULL && !PyErr_Occurred() && state.left > 0)
        small_soon(a, NULL, WAY[name], &memory, &none);
    if (memory == NULL && PyErr_Occurred())
        return NULL;
    if (memory == NULL) {
        PyObject *again = small_known(ufuncs[name], a, NULL);
        if (again != Py_None)
            return again;
        Py_DECREF(again);
        return slowly(ALONE, name_of[name], a, NULL);
    }
    PyObject *found = shown(function(memory));
    Py_DECREF(memory);
    return found;
}

static PyObject *op_negative(PyObject *a) { return unary(a, PyNumber_Negative, NEGATIVE); }
static PyObject *op_positive(PyObject *a) { return unary(a, PyNumber_Positive, POSITIVE); }
static PyObject *op_absolute(PyObject *a) { return unary(a, PyNumber_Absolute, ABSOLUTE); }
static PyObject *op_invert(PyObject *a) { return unary(a, PyNumber_Invert, INVERT); }

/* In the order of Py_LT, Py_LE, Py_EQ, Py_NE, Py_GT and Py_GE. */
static PyObject *compare(PyObject *a, PyObject *b, int op)
{
    PyObject *left, *right;
    int ready = operands(a, b, &left, &right);
    if (ready == 0 && state.left > 0)
        ready = small_soon(a, b, WAY[LESS + op], &left, &right);
    if (ready < 0)
        return NULL;
    if (!ready) {
        PyObject *again = small_known(ufuncs[LESS + op], a, b);
        if (again != Py_None)
            return again;
        Py_DECREF(again);
        return slowly(op == Py_EQ || op == Py_NE ? EQUALITY : FORWARD, name_of[LESS + op], a, b);
    }
    PyObject *found = shown(PyObject_RichCompare(left, right, op));
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
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = (traverseproc)array_traverse,
    .tp_clear = (inquiry)array_clear,
    .tp_dealloc = (destructor)array_dealloc,
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
    PyObject *memory = small_near_to_write((Array *)a);
    PyObject *right = memory == NULL ? NULL : small_number_or_near(b);
    if (right == NULL && !PyErr_Occurred() && state.left > 0) {
        Py_CLEAR(memory);
        if (soon_in_place(a, b, name, &memory, &right) < 0)
            return NULL;
    }
    if (right == NULL) {
        Py_XDECREF(memory);
        if (!PyErr_Occurred() && small_moves(ufuncs[name])) {
            PyObject *moved = small_moved_in_place(ufuncs[name], a, b);
            if (moved != Py_None)
                return moved != NULL || PyErr_Occurred() ? moved : slowly(UPDATE, name_of[name], a, b);
            Py_DECREF(moved);
        }
        PyObject *operands[] = {a, b};
        if (name == POWER && !PyErr_Occurred()) /* which operation it is the exponent tells, not its type */
            return slowly(UPDATE, name_of[name], a, b);
        int done = PyErr_Occurred() ? -1 : small_known_into(ufuncs[name], operands, 2, (Array *)a);
        if (done == 0) {
            PyObject *again = slowly(KNOWN_INPLACE, ufuncs[name], a, b);
            done = again == NULL ? -1 : PyObject_IsTrue(again);
            Py_XDECREF(again);
        }
        return done < 0 ? NULL : done ? Py_NewRef(a) : slowly(UPDATE, name_of[name], a, b);
    }
    PyObject *found = function(memory, right);
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

/* -- elements and description ---------------------------------------------------------------------------- */

static int simple_part(PyObject *index)
{
    return PyLong_CheckExact(index) || PySlice_Check(index) || index == Py_None || index == Py_Ellipsis
           || PyArray_IsScalar(index, Integer);
}

/* Does an index select a view or an element, whatever the array? */
static int simple(PyObject *index)
{
    if (!PyTuple_CheckExact(index))
        return simple_part(index);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(index); k++)
        if (!simple_part(PyTuple_GET_ITEM(index, k)))
            return 0;
    return 1;
}

/* access.lend: may the program get this view as NumPy's array?  Then the array is marked. */
static int lend(Array *x, PyObject *found)
{
    Array *root = absent(x->owner) ? x : (Array *)x->owner;
    if (size_of(found) >= state.tiny || !absent(root->storage) || size_of(root->meta) >= state.small
            || PyArray_BASE((PyArrayObject *)found) != root->meta)
        return 0;
    root->lent = 1;
    return 1;
}

static PyObject *subscript(Array *x, PyObject *index)
{
    int plain = simple(index), known = !absent(x->memory) && (state.sees || x->memory == x->meta);
    int now = plain && known ? small_readable(x) : 0;
    PyObject *part = now != 0 || state.left > 0 ? NULL : small_known_slice(x, index);
    if (part != NULL || PyErr_Occurred())
        return part;
    if (plain && known) {
        PyObject *found = PyObject_GetItem(x->memory, index);
        if (found == NULL)
            return NULL;
        if (!PyArray_CheckExact(found)) { /* an element */
            if (now > 0) {
                small_looked();
                return found;
            }
            Py_DECREF(found);
        } else if (lend(x, found)) {
            return found;
        } else {
            int looks = absent(x->part) || size_of(found) < state.small || state.left > 0;
            PyObject *view = looks ? small_looking(x, found) : now > 0 ? small_known_slice(x, index) : NULL;
            Py_DECREF(found);
            if (view != NULL || PyErr_Occurred())
                return view;
        }
    }
    if (!plain) {
        PyObject *chosen = small_chosen(x, index);
        if (chosen != NULL || PyErr_Occurred())
            return chosen;
    }
    return slowly(SUBSCRIPT, (PyObject *)x, index, NULL);
}

static PyObject *item(Array *x, Py_ssize_t k)
{
    PyObject *index = PyLong_FromSsize_t(k);
    PyObject *found = index == NULL ? NULL : PyObject_GetItem((PyObject *)x, index);
    Py_XDECREF(index);
    return found;
}

/* Does an index select few elements?  0 with an exception, too.  `target` gets these elements of a large array. */
static int writes_little(Array *x, PyObject *index, PyObject **target)
{
    if (size_of(x->memory) < state.small
            || (PyLong_CheckExact(index) && PyArray_NDIM((PyArrayObject *)x->memory) == 1))
        return 1;
    *target = PyObject_GetItem(x->memory, index);
    return *target != NULL && (!PyArray_CheckExact(*target) || size_of(*target) < state.small
                               || (state.left > 0 && small_spend(2 * PyArray_NBYTES((PyArrayObject *)*target))));
}

/* `memory[index] = right`, where `target` may be the view of the memory that the index selects. */
static int put(PyObject *memory, PyObject *index, PyObject *target, PyObject *right)
{
    if (target != NULL && PyArray_CheckExact(target) && PyArray_ISWRITEABLE((PyArrayObject *)target)
            && PyArray_BASE((PyArrayObject *)target) != NULL)
        return PyArray_CopyObject((PyArrayObject *)target, right);
    return PyObject_SetItem(memory, index, right);
}

static int assign(Array *x, PyObject *index, PyObject *value)
{
    if (value == NULL) {
        PyErr_SetString(PyExc_ValueError, "cannot delete array elements");
        return -1;
    }
    if (!absent(x->memory)) {
        npy_intp bytes = 0;
        int fancy = !simple(index); /* NumPy does it at once, however many elements it selects */
        PyObject *plain = fancy ? small_index(x, index) : Py_NewRef(index);
        PyObject *right = plain == NULL ? NULL : small_number_or_near(value);
        if (plain == index && right == NULL && state.left > 0 && !PyErr_Occurred())
            right = small_soon_operand(value, SMALL_ANY, &bytes);
        PyObject *target = NULL;
        PyObject *memory = right == NULL || !(fancy || writes_little(x, plain, &target)) ? NULL : small_mine(x);
        int done = memory == NULL ? -2 : put(memory, plain, target, right);
        Py_XDECREF(target);
        Py_XDECREF(memory);
        Py_XDECREF(right);
        Py_XDECREF(plain);
        if (done != -2)
            return done;
        if (PyErr_Occurred())
            return -1;
    }
    int known = small_known_assignment(x, index, value);
    if (known)
        return known < 0 ? -1 : 0;
    PyObject *found = slowly(ASSIGN, (PyObject *)x, index, value);
    Py_XDECREF(found);
    return found == NULL ? -1 : 0;
}

/* -- ufuncs that NumPy's arrays and scalars call ----------------------------------------------------------- */

/* The only output array, if that is the only option and NumPy's; NULL else. */
static PyObject *only_output(PyObject *const *options, PyObject *names)
{
    if (PyTuple_GET_SIZE(names) != 1 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "out") != 0)
        return NULL;
    PyObject *out = options[0];
    if (!PyTuple_CheckExact(out) || PyTuple_GET_SIZE(out) != 1)
        return NULL;
    out = PyTuple_GET_ITEM(out, 0);
    return PyArray_CheckExact(out) && size_of(out) < state.small ? out : NULL;
}

/* arithmetic.called: NumPy's ufunc if all operands are small and at hand.  NULL as `small_near` has it. */
static PyObject *called(PyObject *ufunc, PyObject *const *inputs, Py_ssize_t n, PyObject *out)
{
    PyObject *values[3] = {NULL, NULL, NULL}, *found = NULL;
    values[0] = small_number_or_near(inputs[0]);
    if (values[0] != NULL && n == 2)
        values[1] = small_number_or_near(inputs[1]);
    if (values[n - 1] != NULL && (n == 1 || !spreads(values[0], values[1]))) {
        values[n] = out;
        found = PyObject_Vectorcall(ufunc, values, n + (out != NULL), NULL);
        found = out != NULL ? found : shown(found);
    }
    Py_XDECREF(values[0]);
    if (n == 2)
        Py_XDECREF(values[1]);
    return found;
}

static int is_call(PyObject *method) { return PyUnicode_CompareWithASCIIString(method, "__call__") == 0; }

/* Is it a call of a ufunc with this many operands, and not of one of its methods? */
static int plain_call(PyObject *ufunc, PyObject *method, Py_ssize_t n)
{
    return n >= 1 && n <= 2 && is_call(method)
           && PySet_Contains(state.ufuncs, ufunc) > 0 && ((PyUFuncObject *)ufunc)->nin == n;
}

static PyObject *array_ufunc(PyObject *x, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (names == NULL && n == 4 && args[0] == ufuncs[MATMUL] && is_call(args[1])) {
        PyObject *found = product(args[2], args[3]);
        if (found != NULL || PyErr_Occurred())
            return found;
    }
    if (n >= 3 && plain_call(args[0], args[1], n - 2)) {
        PyObject *out = names == NULL ? NULL : only_output(args + n, names);
        PyObject *found = names == NULL || out != NULL ? called(args[0], args + 2, n - 2, out) : NULL;
        if (found != NULL || PyErr_Occurred())
            return found;
        for (int name = ADD; names == NULL && n == 4 && name <= DIVIDE; name++)
            if (ufuncs[name] == args[0] && PySet_Contains(state.numbers, (PyObject *)Py_TYPE(args[2])) > 0)
                return far(args[2], args[3], name); /* an operator of a number of NumPy's and an array */
    }
    PyObject *function = PyObject_GetAttrString(state.slow, "array_ufunc"), *found = NULL;
    PyObject **all = function == NULL ? NULL : PyMem_New(PyObject *, n + 1 + (names ? PyTuple_GET_SIZE(names) : 0));
    if (all != NULL) {
        all[0] = x;
        memcpy(all + 1, args, (n + (names ? PyTuple_GET_SIZE(names) : 0)) * sizeof *all);
        found = PyObject_Vectorcall(function, all, n + 1, names);
        PyMem_Free(all);
    }
    Py_XDECREF(function);
    return found;
}

static PyMethodDef array_methods[] = {
    {"__array_ufunc__", (PyCFunction)(void (*)(void))array_ufunc, METH_FASTCALL | METH_KEYWORDS,
     "__array_ufunc__($self, ufunc, method, /, *inputs, **kwargs)\n--\n\n"
     "Compute one of NumPy's ufuncs that NumPy's arrays or scalars, or a library, called."},
    {NULL}};

static Py_ssize_t length(Array *x) { return PyObject_Length(x->meta); }

static PyObject *get_shape(Array *x, void *closure)
{
    return PyArray_IntTupleFromIntp(PyArray_NDIM((PyArrayObject *)x->meta), PyArray_DIMS((PyArrayObject *)x->meta));
}

static int set_shape(Array *x, PyObject *shape, void *closure)
{
    PyObject *done = shape == NULL ? NULL : PyObject_CallMethod(state.slow, "set_shape", "OO", x, shape);
    if (shape == NULL)
        PyErr_SetString(PyExc_AttributeError, "Cannot delete array shape");
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *get_dtype(Array *x, void *closure)
{
    return Py_NewRef((PyObject *)PyArray_DESCR((PyArrayObject *)x->meta));
}

static int set_dtype(Array *x, PyObject *dtype, void *closure)
{
    PyObject *done = dtype == NULL ? NULL : PyObject_CallMethod(state.slow, "set_dtype", "OO", x, dtype);
    if (dtype == NULL)
        PyErr_SetString(PyExc_AttributeError, "Cannot delete array dtype");
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *get_ndim(Array *x, void *closure)
{
    return PyLong_FromLong(PyArray_NDIM((PyArrayObject *)x->meta));
}

static PyObject *get_size(Array *x, void *closure) { return PyLong_FromSsize_t(size_of(x->meta)); }

static PyObject *get_transpose(Array *x, void *closure)
{
    PyObject *meta = PyArray_Transpose((PyArrayObject *)x->meta, NULL);
    PyObject *view = meta == NULL ? NULL : small_viewing(x, meta);
    Py_XDECREF(meta);
    return view;
}

static int is_complex(Array *x)
{
    int type = PyArray_TYPE((PyArrayObject *)x->meta);
    return type == NPY_CFLOAT || type == NPY_CDOUBLE;
}

/* `x.real` and `x.imag`, by the name in `closure`: views of complex arrays. */
static PyObject *get_component(Array *x, void *closure)
{
    if (!is_complex(x))
        return PyObject_CallMethod(state.slow, "component", "Os", x, closure);
    PyObject *meta = PyObject_GetAttrString(x->meta, closure);
    PyObject *view = meta == NULL ? NULL : small_viewing(x, meta);
    Py_XDECREF(meta);
    return view;
}

static int set_component(Array *x, PyObject *value, void *closure)
{
    if (value == NULL) {
        PyErr_Format(PyExc_AttributeError, "Cannot delete array %s part", closure);
        return -1;
    }
    PyObject *done = PyObject_CallMethod(state.slow, "set_component", "OsO", x, closure, value);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyGetSetDef described_getset[] = {
    {"real", (getter)get_component, (setter)set_component, NULL, "real"},
    {"imag", (getter)get_component, (setter)set_component, NULL, "imag"},
    {"shape", (getter)get_shape, (setter)set_shape, NULL, NULL},
    {"dtype", (getter)get_dtype, (setter)set_dtype, NULL, NULL},
    {"ndim", (getter)get_ndim, NULL, NULL, NULL},
    {"size", (getter)get_size, NULL, NULL, NULL},
    {"T", (getter)get_transpose, NULL, NULL, NULL},
    {NULL}};

/* The only element as an index of Python's. */
static PyObject *as_index(Array *x)
{
    if (PyArray_NDIM((PyArrayObject *)x->meta) > 0) {
        PyErr_SetString(PyExc_TypeError, "only integer scalar arrays can be converted to a scalar index");
        return NULL;
    }
    PyObject *memory = PyObject_CallMethod(state.slow, "host", "O", x);
    PyObject *index = memory == NULL ? NULL : PyNumber_Index(memory);
    Py_XDECREF(memory);
    return index;
}

/* Python's buffer protocol: memory that stays valid, and is the array's, as long as the buffer is held. */
static int get_buffer(Array *x, Py_buffer *view, int flags)
{
    PyObject *memory = PyObject_CallMethod(state.slow, "buffer", "O", x);
    int done = memory == NULL ? -1 : PyObject_GetBuffer(memory, view, flags);
    Py_XDECREF(memory);
    return done;
}

static PyBufferProcs described_buffer = {.bf_getbuffer = (getbufferproc)get_buffer};

static PyNumberMethods described_number = {
    .nb_index = (unaryfunc)as_index,
    .nb_inplace_add = in_add, .nb_inplace_subtract = in_subtract, .nb_inplace_multiply = in_multiply,
    .nb_inplace_true_divide = in_divide, .nb_inplace_floor_divide = in_floor_divide,
    .nb_inplace_remainder = in_remainder, .nb_inplace_lshift = in_left_shift,
    .nb_inplace_rshift = in_right_shift, .nb_inplace_and = in_and, .nb_inplace_or = in_or,
    .nb_inplace_xor = in_xor, .nb_inplace_power = in_power,
};

static PySequenceMethods described_sequence = {.sq_length = (lenfunc)length, .sq_item = (ssizeargfunc)item};

static PyMappingMethods described_mapping = {
    .mp_length = (lenfunc)length, .mp_subscript = (binaryfunc)subscript,
    .mp_ass_subscript = (objobjargproc)assign};

PyTypeObject Described_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "diffuse.numpy.small.Described",
    .tp_doc = "What an array looks like, its elements, and the operators that change them.",
    .tp_base = &Operators_Type,
    .tp_basicsize = sizeof(Array),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = (traverseproc)array_traverse,
    .tp_clear = (inquiry)array_clear,
    .tp_dealloc = (destructor)array_dealloc,
    .tp_as_number = &described_number,
    .tp_as_sequence = &described_sequence,
    .tp_as_mapping = &described_mapping,
    .tp_as_buffer = &described_buffer,
    .tp_getset = described_getset,
};

int small_arrays_ready(void)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    for (int k = 0; numpy != NULL && k < NAMES; k++)
        if ((name_of[k] = PyUnicode_InternFromString(SPELLED[k])) == NULL
                || (k < FORWARD && (ufuncs[k] = PyObject_GetAttr(numpy, name_of[k])) == NULL))
            break;
    Py_XDECREF(numpy);
    depth = PyLong_FromLong(2);
    Array_Type.tp_methods = array_methods;
    name_touched = PyUnicode_InternFromString("touched");
    name_epoch = PyUnicode_InternFromString("epoch");
    return PyErr_Occurred() ? -1 : 0;
}
