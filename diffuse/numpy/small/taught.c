/* What NumPy's own objects are taught of Diffuse's arrays: arrays as outputs of their methods and as values for their
 * elements, pending numbers as such values, iterators as masks, generators as what they shuffle and fill.  NumPy
 * itself takes nothing but its own arrays and numbers there, and has no protocol that would ask. */
#include "small.h"

static PyObject *writable, *wrote, *readable; /* of base; base.host */

static int ours(PyObject *x) { return Py_TYPE(x) == state.array_class; }

/* -- outputs ------------------------------------------------------------------------------------------------------ */

enum { MOST = 8 /* arguments of such a method */ };

/* The methods in C that take an output, and its place among the arguments by position: none for `choose`. */
#define METHODS(M) M(argmax, 1) M(argmin, 1) M(choose, PY_SSIZE_T_MAX) M(compress, 2) M(conj, 0) M(conjugate, 0)  \
    M(cumprod, 2) M(cumsum, 2) M(dot, 1) M(round, 1) M(take, 2) M(trace, 4)

typedef PyObject *(*Fast)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
typedef PyObject *(*Named)(PyObject *, PyObject *, PyObject *);

/* A method: NumPy's function, and the place of the output. */
typedef struct {
    void (*numpys)(void);
    Py_ssize_t place;
} Method;

/* The result of a call that wrote to the memory of an output: that output, if it is the memory.  Steals both. */
static PyObject *finished(PyObject *found, PyObject *memory, PyObject *out)
{
    PyObject *done = found == NULL ? NULL : PyObject_CallOneArg(wrote, out);
    if (done == NULL)
        Py_CLEAR(found);
    else if (found == memory)
        Py_SETREF(found, Py_NewRef(out));
    Py_XDECREF(done);
    Py_DECREF(memory);
    return found;
}

static PyObject *fast(Method *method, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    Py_ssize_t all = n + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames)), at = n;
    if (method->place < n)
        at = method->place;
    else
        while (at < all && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, at - n), "out") != 0)
            at++;
    Fast numpys = (Fast)method->numpys;
    if (at >= all || all > MOST || !ours(args[at]))
        return numpys(self, args, n, kwnames);
    PyObject *given[MOST], *memory = PyObject_CallOneArg(writable, args[at]);
    if (memory == NULL)
        return NULL;
    memcpy(given, args, all * sizeof *given);
    given[at] = memory;
    return finished(numpys(self, given, n, kwnames), memory, args[at]);
}

/* A copy of a tuple or a dictionary of arguments with another output. */
static PyObject *replaced(PyObject *args, PyObject *named, Py_ssize_t place, PyObject *memory)
{
    if (named != NULL) {
        PyObject *copy = PyDict_Copy(named);
        if (copy != NULL && PyDict_SetItemString(copy, "out", memory) < 0)
            Py_CLEAR(copy);
        return copy;
    }
    PyObject *copy = PyTuple_New(PyTuple_GET_SIZE(args));
    for (Py_ssize_t k = 0; copy != NULL && k < PyTuple_GET_SIZE(args); k++)
        PyTuple_SET_ITEM(copy, k, Py_NewRef(k == place ? memory : PyTuple_GET_ITEM(args, k)));
    return copy;
}

static PyObject *slow(Method *method, PyObject *self, PyObject *args, PyObject *named, int names)
{
    int by_place = method->place < PyTuple_GET_SIZE(args);
    PyObject *out = by_place ? PyTuple_GET_ITEM(args, method->place)
                    : named == NULL ? NULL : PyDict_GetItemString(named, "out"), *memory = NULL, *low = NULL;
    if (out != NULL && ours(out)) {
        memory = PyObject_CallOneArg(writable, out);
        low = memory == NULL ? NULL : replaced(args, by_place ? NULL : named, method->place, memory);
        if (low == NULL) {
            Py_XDECREF(memory);
            return NULL;
        }
        args = by_place ? low : args;
        named = by_place ? named : low;
    }
    PyObject *found = names ? ((Named)method->numpys)(self, args, named)
                            : ((PyCFunction)method->numpys)(self, args);
    Py_XDECREF(low);
    return memory == NULL ? found : finished(found, memory, out);
}

#define DEFINE(name, place)                                                                                            \
    static Method method_##name = {NULL, place};                                                                       \
    static PyObject *fast_##name(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)               \
    {                                                                                                                  \
        return fast(&method_##name, self, args, n, kwnames);                                                           \
    }                                                                                                                  \
    static PyObject *named_##name(PyObject *self, PyObject *args, PyObject *named)                                     \
    {                                                                                                                  \
        return slow(&method_##name, self, args, named, 1);                                                             \
    }                                                                                                                  \
    static PyObject *plain_##name(PyObject *self, PyObject *args)                                                      \
    {                                                                                                                  \
        return slow(&method_##name, self, args, NULL, 0);                                                              \
    }

METHODS(DEFINE)

/* Puts one of three functions, by how NumPy's is called, before that; the method stays the same object. */
static void precede(PyTypeObject *type, const char *name, Method *method, void (*quick)(void), void (*named)(void),
                    void (*plain)(void))
{
    PyObject *found = PyDict_GetItemString(type->tp_dict, name);
    if (found == NULL || !Py_IS_TYPE(found, &PyMethodDescr_Type) || method->numpys != NULL)
        return;
    PyMethodDef *definition = ((PyMethodDescrObject *)found)->d_method;
    void (*first)(void) = definition->ml_flags == (METH_FASTCALL | METH_KEYWORDS) ? quick
                          : definition->ml_flags == (METH_VARARGS | METH_KEYWORDS) ? named
                          : definition->ml_flags == METH_VARARGS ? plain : NULL;
    if (first == NULL)
        return;
    method->numpys = (void (*)(void))definition->ml_meth;
    definition->ml_meth = (PyCFunction)first;
}

#define PRECEDE(name, place)                                                                                           \
    precede(&PyArray_Type, #name, &method_##name, (void (*)(void))fast_##name, (void (*)(void))named_##name,                          \
            (void (*)(void))plain_##name);

/* -- numbers ------------------------------------------------------------------------------------------------------ */

/* The methods of NumPy's numbers in C that may return an output without dimensions. */
#define NUMBERS(N) N(all) N(any) N(clip) N(conj) N(conjugate) N(max) N(mean) N(min) N(prod) N(round) N(std) N(sum)  \
    N(take) N(var)

/* A number's method returns the element of such an output, where an array's method returns the output. */
static PyObject *element(PyObject *found)
{
    if (found == NULL || !ours(found))
        return found;
    PyObject *empty = PyTuple_New(0), *value = empty == NULL ? NULL : PyObject_GetItem(found, empty);
    Py_XDECREF(empty);
    Py_DECREF(found);
    return value;
}

#define DEFINE_NUMBERS(name)                                                                                           \
    static Method number_##name;                                                                                       \
    static PyObject *number_named_##name(PyObject *self, PyObject *args, PyObject *named)                              \
    {                                                                                                                  \
        return element(((Named)number_##name.numpys)(self, args, named));                                              \
    }                                                                                                                  \
    static PyObject *number_plain_##name(PyObject *self, PyObject *args)                                               \
    {                                                                                                                  \
        return element(((PyCFunction)number_##name.numpys)(self, args));                                               \
    }

NUMBERS(DEFINE_NUMBERS)

#define PRECEDE_NUMBERS(name)                                                                                          \
    precede(&PyGenericArrType_Type, #name, &number_##name, NULL, (void (*)(void))number_named_##name,                  \
            (void (*)(void))number_plain_##name);

/* -- elements ----------------------------------------------------------------------------------------------------- */

static objobjargproc numpys_assign;
static PyCFunction numpys_fill;

/* Is a value that elements are assigned an array of ours or a pending number, or a list that has pending numbers? */
static int unknown(PyObject *value)
{
    if (!PyList_CheckExact(value))
        return small_is_ours(value);
    Py_ssize_t n = PyList_GET_SIZE(value), k = 0;
    while (k < n && !small_is_pending(Py_TYPE(PyList_GET_ITEM(value, k))))
        k++;
    return k < n;
}

/* A value of ours as NumPy gets it where elements of its own array are assigned.  Where a single element is, it would
 * ask ours for a number of Python's, which has no element type, and raise other errors.  An array of objects holds an
 * array of ours itself. */
static PyObject *plain_value(PyObject *array, PyObject *value)
{
    if (PyList_CheckExact(value)) {
        PyObject *plain = PyList_New(0);
        for (Py_ssize_t k = 0; plain != NULL && k < PyList_GET_SIZE(value); k++) {
            PyObject *item = PyList_GET_ITEM(value, k);
            PyObject *known = small_is_pending(Py_TYPE(item)) ? plain_value(array, item) : Py_NewRef(item);
            if (known == NULL || PyList_Append(plain, known) < 0)
                Py_CLEAR(plain);
            Py_XDECREF(known);
        }
        return plain;
    }
    int number = small_is_pending(Py_TYPE(value));
    if (!number && PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)array)))
        return Py_NewRef(value);
    PyObject *plain = PyObject_CallOneArg(readable, value);
    return number && plain != NULL ? PyArray_Return((PyArrayObject *)plain) : plain;
}

static int assign(PyObject *array, PyObject *index, PyObject *value)
{
    if (value == NULL || !unknown(value))
        return numpys_assign(array, index, value);
    PyObject *plain = plain_value(array, value);
    int failed = plain == NULL ? -1 : numpys_assign(array, index, plain);
    Py_XDECREF(plain);
    return failed;
}

static PyObject *fill(PyObject *array, PyObject *args)
{
    if (PyTuple_GET_SIZE(args) != 1 || !small_is_ours(PyTuple_GET_ITEM(args, 0)))
        return numpys_fill(array, args);
    PyObject *plain = plain_value(array, PyTuple_GET_ITEM(args, 0));
    PyObject *given = plain == NULL ? NULL : PyTuple_Pack(1, plain);
    PyObject *found = given == NULL ? NULL : numpys_fill(array, given);
    Py_XDECREF(plain);
    Py_XDECREF(given);
    return found;
}

static void teach_elements(void)
{
    PyMappingMethods *mapping = PyArray_Type.tp_as_mapping;
    PyObject *method = PyDict_GetItemString(PyArray_Type.tp_dict, "__setitem__"); /* which derived classes call */
    if (numpys_assign == NULL) {
        numpys_assign = mapping->mp_ass_subscript;
        mapping->mp_ass_subscript = assign;
        if (method != NULL && Py_IS_TYPE(method, &PyWrapperDescr_Type)
                && ((PyWrapperDescrObject *)method)->d_wrapped == (void *)numpys_assign)
            ((PyWrapperDescrObject *)method)->d_wrapped = (void *)assign;
    }
    method = PyDict_GetItemString(PyArray_Type.tp_dict, "fill");
    if (numpys_fill == NULL && method != NULL && Py_IS_TYPE(method, &PyMethodDescr_Type)
            && ((PyMethodDescrObject *)method)->d_method->ml_flags == METH_VARARGS) {
        numpys_fill = ((PyMethodDescrObject *)method)->d_method->ml_meth;
        ((PyMethodDescrObject *)method)->d_method->ml_meth = fill;
    }
}

/* -- times -------------------------------------------------------------------------------------------------------- */

static newfunc numpys_span;

/* NumPy makes a timedelta64 of its own integers, and of nothing else that has __index__. */
static PyObject *new_span(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *first = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (first == NULL || !small_is_pending(Py_TYPE(first)))
        return numpys_span(type, args, named);
    PyObject *plain = plain_value(NULL, first), *given = plain == NULL ? NULL : replaced(args, NULL, 0, plain);
    PyObject *found = given == NULL ? NULL : numpys_span(type, given, named);
    Py_XDECREF(plain);
    Py_XDECREF(given);
    return found;
}

/* -- iterators ---------------------------------------------------------------------------------------------------- */

static binaryfunc numpys_read;
static objobjargproc numpys_write;

/* The index as NumPy gets it: of Diffuse's arrays it would not take truth values for a mask. */
static PyObject *plain_index(PyObject *index) { return ours(index) ? PyArray_FROM_O(index) : Py_NewRef(index); }

static PyObject *read_flat(PyObject *flat, PyObject *index)
{
    PyObject *plain = plain_index(index), *found = plain == NULL ? NULL : numpys_read(flat, plain);
    Py_XDECREF(plain);
    return found;
}

static int write_flat(PyObject *flat, PyObject *index, PyObject *value)
{
    PyObject *plain = plain_index(index), *known = Py_XNewRef(value);
    if (value != NULL && !ours(value) && unknown(value)) /* numbers, which need no array */
        Py_SETREF(known, plain_value(NULL, value));
    int failed = plain == NULL || (known == NULL && value != NULL) ? -1 : numpys_write(flat, plain, known);
    Py_XDECREF(plain);
    Py_XDECREF(known);
    return failed;
}

/* -- generators --------------------------------------------------------------------------------------------------- */

enum { TAUGHT = 16 /* methods of generators, at most */ };

static struct {
    PyObject *method;
    vectorcallfunc numpys;
} generators[TAUGHT];

static PyObject *drawing; /* calls such a method with an array of ours */

static PyObject *draw(PyObject *method, PyObject *const *args, size_t n, PyObject *kwnames)
{
    Py_ssize_t by_place = PyVectorcall_NARGS(n), all = by_place + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    int k = 0, found = 0;
    while (generators[k].method != method)
        k++;
    for (Py_ssize_t at = 0; at < all && !found; at++)
        found = ours(args[at]);
    if (!found)
        return generators[k].numpys(method, args, n, kwnames);
    PyObject **given = PyMem_New(PyObject *, all + 1);
    if (given == NULL)
        return PyErr_NoMemory();
    given[0] = method;
    memcpy(given + 1, args, all * sizeof *given);
    PyObject *drawn = PyObject_Vectorcall(drawing, given, by_place + 1, kwnames);
    PyMem_Free(given);
    return drawn;
}

/* Puts `draw` before a method that Cython made.  The method stays the same object, which others are bound to. */
void small_teach_generator(PyObject *method, PyObject *function)
{
    Py_ssize_t offset = Py_TYPE(method)->tp_vectorcall_offset;
    int k = 0;
    while (k < TAUGHT && generators[k].method != NULL && generators[k].method != method)
        k++;
    Py_XSETREF(drawing, Py_NewRef(function));
    if (k == TAUGHT || generators[k].method != NULL || offset <= 0 || PyVectorcall_Function(method) == NULL)
        return;
    vectorcallfunc *place = (vectorcallfunc *)((char *)method + offset);
    generators[k].method = Py_NewRef(method);
    generators[k].numpys = *place;
    *place = draw;
}

void small_teach(PyObject *for_writing, PyObject *after_writing, PyObject *for_reading)
{
    Py_XSETREF(writable, Py_NewRef(for_writing));
    Py_XSETREF(wrote, Py_NewRef(after_writing));
    Py_XSETREF(readable, Py_NewRef(for_reading));
    METHODS(PRECEDE)
    NUMBERS(PRECEDE_NUMBERS)
    teach_elements();
    if (numpys_span == NULL) {
        numpys_span = PyTimedeltaArrType_Type.tp_new;
        PyTimedeltaArrType_Type.tp_new = new_span;
    }
    PyMappingMethods *mapping = PyArrayIter_Type.tp_as_mapping;
    if (numpys_read == NULL) {
        numpys_read = mapping->mp_subscript;
        numpys_write = mapping->mp_ass_subscript;
        mapping->mp_subscript = read_flat;
        mapping->mp_ass_subscript = write_flat;
    }
}

/* -- views -------------------------------------------------------------------------------------------------------- */

/* NumPy's `view`, to which `diffuse.numpy.ndarray` means NumPy's array: the few elements of which NumPy keeps
 * an array are of that class to the program.  NumPy itself refuses a class that is not derived from its own. */
static PyObject *numpys_view;

static PyObject *view(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *given[4] = {self};
    Py_ssize_t all = n + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    if (all > 3)
        all = n = 3, kwnames = NULL; /* an error, NumPy's */
    for (Py_ssize_t k = 0; k < all; k++)
        given[k + 1] = args[k] == (PyObject *)state.array_class ? (PyObject *)&PyArray_Type : args[k];
    return PyObject_Vectorcall(numpys_view, given, n + 1, kwnames);
}

static PyMethodDef view_method = {"view", (PyCFunction)(void (*)(void))view, METH_FASTCALL | METH_KEYWORDS, NULL};

int small_teach_view(void)
{
    PyObject *dict = PyArray_Type.tp_dict;
    numpys_view = Py_XNewRef(PyDict_GetItemString(dict, "view"));
    PyObject *signature = numpys_view == NULL ? NULL : PyObject_GetAttrString(numpys_view, "__text_signature__");
    PyObject *doc = signature == NULL ? NULL : PyObject_GetAttrString(numpys_view, "__doc__");
    PyObject *text = doc == NULL ? NULL : PyUnicode_FromFormat("view%S\n--\n\n%S", signature, doc);
    view_method.ml_doc = text == NULL ? NULL : PyUnicode_AsUTF8(text); /* lives as long as the module */
    Py_XDECREF(signature);
    Py_XDECREF(doc);
    PyObject *method = view_method.ml_doc == NULL ? NULL : PyDescr_NewMethod(&PyArray_Type, &view_method);
    if (method == NULL || PyDict_SetItemString(dict, "view", method) < 0)
        return -1;
    PyType_Modified(&PyArray_Type);
    return 0;
}
