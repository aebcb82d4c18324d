/* The hash of `diffuse.numpy.ndarray`, which is that of NumPy's class outside of Diffuse.
 *
 * The two classes compare equal, as short arrays are NumPy's own.  With the same hash a program's table of types
 * (`{np.ndarray: f}[type(x)]`) finds both kinds of arrays.  Diffuse's own tables tell them apart, so its modules get the
 * hash that any class has. */
#include "small.h"

static PyObject *name_name;

/* Is the running function one of Diffuse's? */
static int inside(void)
{
    PyObject *globals = PyEval_GetGlobals(), *name = globals == NULL ? NULL : PyDict_GetItemWithError(globals, name_name);
    if (name == NULL || !PyUnicode_Check(name) || PyUnicode_KIND(name) != PyUnicode_1BYTE_KIND)
        return 0;
    Py_ssize_t length = PyUnicode_GET_LENGTH(name);
    const char *text = (const char *)PyUnicode_1BYTE_DATA(name);
    return length >= 7 && memcmp(text, "diffuse", 7) == 0 && (length == 7 || text[7] == '.');
}

static Py_hash_t kind_hash(PyObject *kind)
{
    int numpys = (PyTypeObject *)kind == state.array_class && !inside();
    return PyType_Type.tp_hash(numpys ? (PyObject *)&PyArray_Type : kind);
}

PyTypeObject Kind_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "diffuse.numpy.small.Kind",
    .tp_doc = "Classes of arrays: the base of core's metaclass.",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_base = &PyType_Type,
    .tp_hash = kind_hash,
};

int small_kind_ready(void)
{
    name_name = PyUnicode_InternFromString("__name__");
    return name_name == NULL ? -1 : 0;
}
