/* Views of NumPy's arrays, made of views that died: most live no longer than one expression, and NumPy takes most of
 * the time of a view to allocate it and to free it. */
#include "views.h"
#include "record.h"

static PyArrayObject_fields *spare[VIEW_RANK + 1][16];
static size_t spares[VIEW_RANK + 1];

enum { SPARE = sizeof *spare / sizeof **spare };

/* The array that keeps the memory of `x` alive, as PyArray_SetBaseObject finds it. */
static PyObject *keeper(PyArrayObject *x)
{
    PyObject *base;
    while (!PyArray_CHKFLAGS(x, NPY_ARRAY_OWNDATA) && (base = PyArray_BASE(x)) != NULL && PyArray_CheckExact(base))
        x = (PyArrayObject *)base;
    return (PyObject *)x;
}

/* Do elements lie side by side, in the order of C, of Fortran, or of both? */
static int contiguity(int rank, const npy_intp *shape, const npy_intp *strides, npy_intp width)
{
    npy_intp rows = width, columns = width;
    int found = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS;
    for (int d = 0, e = rank - 1; d < rank; d++, e--) {
        if (shape[d] == 0)
            return NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS;
        if (shape[d] != 1 && strides[d] != columns)
            found &= ~NPY_ARRAY_F_CONTIGUOUS;
        if (shape[e] != 1 && strides[e] != rows)
            found &= ~NPY_ARRAY_C_CONTIGUOUS;
        columns *= shape[d];
        rows *= shape[e];
    }
    return found;
}

/* A view of any rank and alignment, by NumPy. */
static PyObject *numpys(PyArrayObject *of, PyArray_Descr *type, int rank, const npy_intp *shape,
                        const npy_intp *strides, char *data)
{
    Py_INCREF(type); /* stolen */
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, type, rank, shape, strides, data, PyArray_FLAGS(of), NULL);
    if (view != NULL && PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef((PyObject *)of)) < 0)
        Py_CLEAR(view);
    return view;
}

HOT PyObject *small_view(PyArrayObject *of, PyArray_Descr *type, int rank, const npy_intp *shape, const npy_intp *strides,
                     char *data)
{
    int flags = PyArray_FLAGS(of);
    if (rank < 1 || rank > VIEW_RANK || spares[rank] == 0 || !(flags & NPY_ARRAY_ALIGNED)
            || flags < 0 /* NumPy would warn of writes */ || PyDataType_ALIGNMENT(type) > PyDataType_ALIGNMENT(PyArray_DESCR(of)))
        return numpys(of, type, rank, shape, strides, data);
    PyArrayObject_fields *view = spare[rank][--spares[rank]];
    for (int d = 0; d < rank; d++) {
        view->dimensions[d] = shape[d];
        view->strides[d] = strides[d];
    }
    view->data = data;
    view->base = Py_NewRef(keeper(of));
    Py_INCREF(type);
    view->descr = type;
    view->flags = (flags & (NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED))
                  | contiguity(rank, shape, strides, PyDataType_ELSIZE(type));
    return (PyObject *)view;
}

HOT void small_drop(PyObject *x)
{
    PyArrayObject_fields *view = (PyArrayObject_fields *)x;
    int rank = x != NULL && PyArray_CheckExact(x) && Py_REFCNT(x) == 1 ? view->nd : 0;
    if (rank < 1 || rank > VIEW_RANK || spares[rank] == SPARE || view->base == NULL || view->weakreflist != NULL
            || view->_buffer_info != NULL || view->mem_handler != NULL || view->strides != view->dimensions + rank
            || (view->flags & (NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEBACKIFCOPY))) {
        Py_XDECREF(x);
        return;
    }
    PyObject *base = view->base, *type = (PyObject *)view->descr;
    view->base = NULL;
    view->descr = NULL;
    spare[rank][spares[rank]++] = view;
    Py_DECREF(type);
    Py_DECREF(base); /* last: it may run code that makes and drops views */
}

PyObject *small_reversed(PyArrayObject *x)
{
    int rank = PyArray_NDIM(x);
    npy_intp shape[VIEW_RANK], strides[VIEW_RANK];
    if (rank == 0 || rank > VIEW_RANK)
        return PyArray_Transpose(x, NULL);
    for (int d = 0; d < rank; d++) {
        shape[d] = PyArray_DIM(x, rank - 1 - d);
        strides[d] = PyArray_STRIDE(x, rank - 1 - d);
    }
    return small_view(x, PyArray_DESCR(x), rank, shape, strides, PyArray_BYTES(x));
}

PyObject *small_component(PyArrayObject *x, int imaginary)
{
    PyArray_Descr *type = PyArray_DescrFromType(PyArray_TYPE(x) == NPY_CFLOAT ? NPY_FLOAT : NPY_DOUBLE);
    if (type == NULL)
        return NULL;
    PyObject *view = small_view(x, type, PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x),
                                PyArray_BYTES(x) + (imaginary ? PyDataType_ELSIZE(type) : 0));
    Py_DECREF(type);
    return view;
}

/* -- methods that give views ------------------------------------------------------------------------------- */

/* A packed view of so many elements under another shape. */
static PyObject *packed(PyArrayObject *x, int rank, const npy_intp *shape)
{
    npy_intp strides[VIEW_RANK], width = PyArray_ITEMSIZE(x);
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = width;
        width *= shape[d];
    }
    return small_view(x, PyArray_DESCR(x), rank, shape, strides, PyArray_BYTES(x));
}

static int is_packed(PyArrayObject *x) { return PyArray_IS_C_CONTIGUOUS(x) && PyArray_SIZE(x) > 0; }

PyObject *small_ravel(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    npy_intp size = PyArray_SIZE(x);
    return n == 0 && is_packed(x) ? packed(x, 1, &size) : NULL;
}

PyObject *small_reshape(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    npy_intp shape[VIEW_RANK], known = 1;
    int open = -1;
    if (n == 1 && PyTuple_CheckExact(args[0])) {
        n = PyTuple_GET_SIZE(args[0]);
        args = &PyTuple_GET_ITEM(args[0], 0);
    }
    if (n < 1 || n > VIEW_RANK || !is_packed(x))
        return NULL;
    for (int d = 0; d < n; d++) {
        int over = 0;
        shape[d] = PyLong_CheckExact(args[d]) ? PyLong_AsLongAndOverflow(args[d], &over) : 0;
        if (over || shape[d] == 0 || shape[d] < -1 || (shape[d] == -1 && open >= 0))
            return NULL;
        if (shape[d] == -1)
            open = d;
        else if (__builtin_mul_overflow(known, shape[d], &known))
            return NULL;
    }
    npy_intp size = PyArray_SIZE(x);
    if (open >= 0 ? size % known != 0 : size != known)
        return NULL; /* NumPy says so */
    if (open >= 0)
        shape[open] = size / known;
    if (open < 0 && n == PyArray_NDIM(x) && !memcmp(shape, PyArray_DIMS(x), n * sizeof *shape)) /* keeps strides */
        return small_view(x, PyArray_DESCR(x), (int)n, shape, PyArray_STRIDES(x), PyArray_BYTES(x));
    return packed(x, (int)n, shape);
}

PyObject *small_swapaxes(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    int rank = PyArray_NDIM(x);
    npy_intp shape[VIEW_RANK], strides[VIEW_RANK], axes[2];
    if (n != 2 || rank == 0 || rank > VIEW_RANK)
        return NULL;
    for (int k = 0; k < 2; k++) {
        int over = 0;
        axes[k] = PyLong_CheckExact(args[k]) ? PyLong_AsLongAndOverflow(args[k], &over) : rank;
        axes[k] += axes[k] < 0 ? rank : 0;
        if (over || axes[k] < 0 || axes[k] >= rank)
            return NULL;
    }
    for (int d = 0; d < rank; d++) {
        int from = d == axes[0] ? (int)axes[1] : d == axes[1] ? (int)axes[0] : d;
        shape[d] = PyArray_DIM(x, from);
        strides[d] = PyArray_STRIDE(x, from);
    }
    return axes[0] == axes[1] ? NULL : small_view(x, PyArray_DESCR(x), rank, shape, strides, PyArray_BYTES(x));
}

PyObject *small_item(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    char *data = n == 1 && PyArray_NDIM(x) == 1 ? small_spot((PyObject *)x, args[0]) : NULL;
    if (data == NULL)
        return NULL;
    if (PyArray_TYPE(x) == NPY_DOUBLE && PyArray_ISALIGNED(x))
        return PyFloat_FromDouble(*(double *)data);
    return PyArray_GETITEM(x, data);
}

PyObject *small_trace(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    if (n != 0 || PyArray_NDIM(x) != 2 || (PyArray_DIM(x, 0) >= state.small && PyArray_DIM(x, 1) >= state.small))
        return NULL;
    PyObject *found = PyArray_Trace(x, 0, 0, 1, NPY_NOTYPE, NULL);
    return found != NULL && PyArray_Check(found) ? PyArray_Return((PyArrayObject *)found) : found;
}

PyObject *small_shape(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    return n == 0 ? PyArray_IntTupleFromIntp(PyArray_NDIM(x), PyArray_DIMS(x)) : NULL;
}

PyObject *small_ndim(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    return n == 0 ? PyLong_FromLong(PyArray_NDIM(x)) : NULL;
}

PyObject *small_size(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    return n == 0 ? PyLong_FromSsize_t(PyArray_SIZE(x)) : NULL;
}

PyObject *small_retyped(PyArrayObject *x, PyObject *const *args, Py_ssize_t n)
{
    PyArray_Descr *type = NULL;
    if (n != 1 || !PyUnicode_CheckExact(args[0]) || PyArray_NDIM(x) == 0)
        return NULL;
    if (!PyArray_DescrConverter(args[0], &type)) {
        PyErr_Clear(); /* NumPy says so */
        return NULL;
    }
    PyObject *view = NULL;
    if (PyDataType_ELSIZE(type) == PyArray_ITEMSIZE(x) && small_native_type(type))
        view = small_view(x, type, PyArray_NDIM(x), PyArray_DIMS(x), PyArray_STRIDES(x), PyArray_BYTES(x));
    Py_DECREF(type);
    return view;
}

PyObject *small_token_of(PyObject *x)
{
    PyObject *name = small_name_of(x);
    Array *array = (Array *)x;
    if (name != NULL || Py_TYPE(x) != state.array_class || !absent(array->storage) || !absent(array->owner)
            || !absent(array->part) || array->lent)
        return Py_XNewRef(name);
    PyObject *form = PyObject_GetAttrString(x, "form"), *root = form == NULL ? NULL : PyObject_GetAttrString(form, "root");
    name = root == NULL ? NULL : Py_XNewRef(SLOT(root, view_token));
    Py_XDECREF(root);
    Py_XDECREF(form);
    return name;
}
