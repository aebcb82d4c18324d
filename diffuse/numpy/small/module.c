/* The extension module `diffuse.numpy.small._small`. */
#define SMALL_MODULE
#include "small.h"
#include "folds.h"
#include "team.h"

static PyObject *set_sizes(PyObject *module, PyObject *args)
{
    Py_ssize_t small, tiny;
    if (!PyArg_ParseTuple(args, "nn", &small, &tiny))
        return NULL;
    state.small = small;
    state.tiny = tiny;
    Py_RETURN_NONE;
}

/* Python calls it where `x + y` has no result, and for `operator.concat`. */
static PyObject *concatenate(PyObject *x, PyObject *y)
{
    PyErr_SetString(PyExc_TypeError, "Concatenation operation is not implemented for NumPy arrays, use "
                    "np.concatenate() instead. Please do not rely on this error; it may not be given on all Python "
                    "implementations.");
    return NULL;
}

static PyObject *set_classes(PyObject *module, PyObject *args)
{
    PyTypeObject *array, *scalar;
    PyObject *pending, *one, *number; /* the classes of pending numbers, and for each that of NumPy's numbers */
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyType_Type, &array, &PyType_Type, &scalar, &PyDict_Type, &pending))
        return NULL;
    Py_XSETREF(state.array_class, (PyTypeObject *)Py_NewRef((PyObject *)array));
    Py_XSETREF(state.scalar_class, (PyTypeObject *)Py_NewRef((PyObject *)scalar));
    array->tp_as_sequence->sq_concat = array->tp_as_sequence->sq_inplace_concat = concatenate;
    array->tp_name = "numpy.ndarray"; /* in the messages of Python's errors; __name__ and __module__ stay */
    for (Py_ssize_t place = 0; PyDict_Next(pending, &place, &one, &number);) {
        ((PyTypeObject *)one)->tp_name = ((PyTypeObject *)number)->tp_name;
        ((PyTypeObject *)one)->tp_as_buffer->bf_getbuffer = (getbufferproc)small_get_buffer; /* as of the number */
    }
    if (array->tp_basicsize == sizeof(Array) && PyType_IsSubtype(array, &Array_Type))
        small_recycle(array);
    small_numbers();
    if (small_describe(array) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* NumPy asks what keeps an array's memory for a buffer to write to before it sets the flag WRITEABLE again.  A span
 * gives one, without bytes, if the array that it keeps may be written. */
static int span_buffer(PyObject *span, Py_buffer *view, int flags)
{
    PyObject *keep = PyObject_GetAttrString(span, "keep"), *array = keep;
    if (array != NULL && PyTuple_CheckExact(array) && PyTuple_GET_SIZE(array))
        array = PyTuple_GET_ITEM(array, PyTuple_GET_SIZE(array) - 1);
    int done = -1;
    if (flags == PyBUF_WRITABLE && array != NULL && PyArray_Check(array) && PyArray_ISWRITEABLE((PyArrayObject *)array))
        done = PyBuffer_FillInfo(view, span, PyArray_DATA((PyArrayObject *)array), 0, 0, flags);
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_BufferError, "this memory is read as its array says");
    if (done < 0)
        view->obj = NULL;
    Py_XDECREF(keep);
    return done;
}

static PyObject *lend_buffers(PyObject *module, PyObject *kind)
{
    ((PyTypeObject *)kind)->tp_as_buffer->bf_getbuffer = span_buffer;
    Py_RETURN_NONE;
}

static PyObject *connect(PyObject *module, PyObject *args)
{
    PyObject *slow, *engine, *near, *near_to_write, *numbers, *moving, *ufuncs;
    if (!PyArg_ParseTuple(args, "OOOOO!O!O!", &slow, &engine, &near, &near_to_write, &PySet_Type, &numbers,
                          &PySet_Type, &moving, &PySet_Type, &ufuncs))
        return NULL;
    Py_XSETREF(state.ufuncs, Py_NewRef(ufuncs));
    Py_XSETREF(state.moving, Py_NewRef(moving));
    Py_XSETREF(state.slow, Py_NewRef(slow));
    Py_XSETREF(state.engine, Py_NewRef(engine));
    Py_XSETREF(state.near, Py_NewRef(near));
    Py_XSETREF(state.near_to_write, Py_NewRef(near_to_write));
    Py_XSETREF(state.numbers, Py_NewRef(numbers));
    Py_RETURN_NONE;
}

static PyObject *teach(PyObject *module, PyObject *args)
{
    PyObject *for_writing, *after_writing, *for_reading;
    if (!PyArg_ParseTuple(args, "OOO", &for_writing, &after_writing, &for_reading))
        return NULL;
    small_teach(for_writing, after_writing, for_reading);
    Py_RETURN_NONE;
}

static PyObject *teach_generator(PyObject *module, PyObject *args)
{
    PyObject *method, *function;
    if (!PyArg_ParseTuple(args, "OO", &method, &function))
        return NULL;
    small_teach_generator(method, function);
    Py_RETURN_NONE;
}

static PyObject *connect_moving(PyObject *module, PyObject *args)
{
    PyObject *grants;
    unsigned long long mirrors, mirrored;
    if (!PyArg_ParseTuple(args, "O!KK", &PyDict_Type, &grants, &mirrors, &mirrored)
            || small_connect_moving(grants, mirrors, mirrored) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *connect_met(PyObject *module, PyObject *met)
{
    small_connect_met(met);
    Py_RETURN_NONE;
}

static PyObject *calls(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    return n ? PyLong_FromLong(small_calls(args[0], args + 1, n - 1)) : PyLong_FromLong(0);
}

static PyObject *connect_gates(PyObject *module, PyObject *args)
{
    PyObject *raised, *options, *before_out, *refused;
    if (!PyArg_ParseTuple(args, "OO!OO", &raised, &PySet_Type, &options, &before_out, &refused))
        return NULL;
    Py_XSETREF(state.refused, Py_NewRef(refused));
    Py_XSETREF(state.before_out, Py_NewRef(before_out));
    Py_XSETREF(state.raised, Py_NewRef(raised));
    Py_XSETREF(state.options, Py_NewRef(options));
    Py_RETURN_NONE;
}

static PyObject *connect_folds(PyObject *module, PyObject *args)
{
    PyObject *names, *lay_out;
    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &names, &lay_out))
        return NULL;
    Py_XSETREF(state.folds, Py_NewRef(names));
    if (small_connect_folds(lay_out) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *connect_team(PyObject *module, PyObject *function)
{
    small_connect_team(function);
    Py_RETURN_NONE;
}

static PyObject *connect_reals(PyObject *module, PyObject *args)
{
    Py_ssize_t normal, exponential, even;
    PyTypeObject *generator;
    if (!PyArg_ParseTuple(args, "nnnO!", &normal, &exponential, &even, &PyType_Type, &generator))
        return NULL;
    small_connect_reals((void *[]){(void *)normal, (void *)exponential, (void *)even}, generator);
    Py_RETURN_NONE;
}

static PyObject *connect_integers(PyObject *module, PyObject *args)
{
    PyTypeObject *pcg64;
    PyObject *agree, *share, *room;
    if (!PyArg_ParseTuple(args, "O!OOO", &PyType_Type, &pcg64, &agree, &share, &room))
        return NULL;
    small_connect_integers(pcg64, agree);
    small_connect_pieces(share);
    small_connect_room(room);
    Py_RETURN_NONE;
}

static PyObject *dot(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "dot() takes two arrays");
        return NULL;
    }
    PyObject *found = small_dot(args[0], args[1]);
    return found != NULL || PyErr_Occurred() ? found : Py_NewRef(Py_None);
}

static PyObject *connect_places(PyObject *module, PyObject *args)
{
    PyObject *places, *type, *made_at_once;
    if (!PyArg_ParseTuple(args, "O!OOlln", &PyDict_Type, &places, &type, &made_at_once, &state.often, &state.most,
                          &state.bytes)
            || (state.place_alone = small_slot(type, "alone")) < 0)
        return NULL;
    Py_XSETREF(state.places, Py_NewRef(places));
    Py_XSETREF(state.made_at_once, Py_NewRef(made_at_once));
    Py_RETURN_NONE;
}

static PyObject *hosted(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n < 1 || n > 2) {
        PyErr_SetString(PyExc_TypeError, "hosted() takes NumPy's array and its form");
        return NULL;
    }
    return small_hosted(args[0], n == 2 ? args[1] : Py_None);
}

static PyObject *given(PyObject *module, PyObject *found) { return small_given(Py_NewRef(found)); }

static PyObject *viewing(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !PyObject_TypeCheck(args[0], &Array_Type)) {
        PyErr_SetString(PyExc_TypeError, "viewing() takes an array and a view of its meta");
        return NULL;
    }
    return small_viewing((Array *)args[0], args[1]);
}

static PyObject *looking(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !PyObject_TypeCheck(args[0], &Array_Type)) {
        PyErr_SetString(PyExc_TypeError, "looking() takes an array and a view of its memory");
        return NULL;
    }
    return small_looking((Array *)args[0], args[1]);
}

static PyObject *set_sees(PyObject *module, PyObject *sees)
{
    state.sees = PyObject_IsTrue(sees);
    Py_RETURN_NONE;
}

static PyObject *connect_recording(PyObject *module, PyObject *args)
{
    PyObject *stream, *known;
    if (!PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &stream, &PyDict_Type, &known)
            || small_connect_stream(stream) < 0 || small_connect_known(known) < 0
            || small_connect_slices(known) < 0 || small_connect_roll(stream, known) < 0
            || small_connect_sketch(stream) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *connect_soon(PyObject *module, PyObject *args)
{
    PyObject *at_hand, *counters, *single, *fallbacks;
    int fused;
    if (!PyArg_ParseTuple(args, "OO!O!O!p", &at_hand, &PyDict_Type, &counters, &PyUnicode_Type, &single, &PyUnicode_Type,
                          &fallbacks, &fused))
        return NULL;
    small_connect_products(fused);
    Py_XSETREF(state.at_hand, Py_NewRef(at_hand));
    Py_XSETREF(state.counters, Py_NewRef(counters));
    Py_XSETREF(state.single, Py_NewRef(single));
    Py_XSETREF(state.fallbacks, Py_NewRef(fallbacks));
    Py_RETURN_NONE;
}

static PyObject *set_allowance(PyObject *module, PyObject *args)
{
    Py_ssize_t allowance;
    int trial = 0;
    if (!PyArg_ParseTuple(args, "n|p", &allowance, &trial))
        return NULL;
    state.allowance = state.left = allowance;
    state.trial = trial;
    Py_RETURN_NONE;
}

static PyObject *allowance(PyObject *module, PyObject *ignored) { return PyLong_FromSsize_t(state.allowance); }

static PyObject *grant(PyObject *module, PyObject *bytes)
{
    Py_ssize_t granted = PyLong_AsSsize_t(bytes);
    if (PyErr_Occurred())
        return NULL;
    small_grant(granted);
    Py_RETURN_NONE;
}

/* Python calls instances of classes written in Python by a tuple and a dictionary of arguments, even where the base
 * class takes them as they come (from Python 3.12 on it looks). */
static PyObject *hasten(PyObject *module, PyObject *type)
{
    PyTypeObject *given = (PyTypeObject *)type;
    if (PyType_Check(type) && PyType_IsSubtype(given, &StaticGate_Type) && given->tp_call == PyVectorcall_Call)
        given->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    Py_RETURN_NONE;
}

static PyObject *looked(PyObject *module, PyObject *ignored)
{
    small_looked();
    Py_RETURN_NONE;
}

/* Did the trial meet another loop over slices than those that were asked for before? */
static PyObject *loop_met(PyObject *module, PyObject *ignored)
{
    if (state.loops == 0)
        Py_RETURN_FALSE;
    state.loops--;
    Py_RETURN_TRUE;
}

static PyMethodDef methods[] = {
    {"connect_soon", connect_soon, METH_VARARGS,
     "Give access.at_hand, the counters, the names of two of them, and operations.products_fused()."},
    {"set_allowance", set_allowance, METH_VARARGS, "As soon.set_allowance."},
    {"allowance", allowance, METH_NOARGS, "What set_allowance said, or 0 once it was exceeded."},
    {"grant", grant, METH_O, "As soon.grant."},
    {"loop_met", loop_met, METH_NOARGS,
     "Did the trial (arrays/soon.py) meet a loop over slices?  Answers once for each."},
    {"looked", looked, METH_NOARGS, "As soon.looked."},
    {"looking", (PyCFunction)(void (*)(void))looking, METH_FASTCALL, "As core.looking."},
    {"set_sees", set_sees, METH_O, "Say whether the memory of arrays that is known is the stores' own."},
    {"set_sizes", set_sizes, METH_VARARGS, "Set which arrays are small, and which results stay NumPy's."},
    {"set_classes", set_classes, METH_VARARGS, "Say of which classes arrays and pending numbers are."},
    {"lend_buffers", lend_buffers, METH_O, "Let NumPy make views of the memory of a class of spans writeable again."},
    {"connect", connect, METH_VARARGS, "Give the Python functions for what is not done here."},
    {"teach", teach, METH_VARARGS, "Have NumPy's own arrays take arrays as outputs and values; give base.writable, base.wrote and base.host."},
    {"teach_generator", teach_generator, METH_VARARGS,
     "Have a method of NumPy's generators take arrays; give what calls it with such."},
    {"connect_moving", connect_moving, METH_VARARGS,
     "Give the table of what was decided about places, and where mirrors lie."},
    {"connect_met", connect_met, METH_O, "Give moving.met."},
    {"calls", (PyCFunction)(void (*)(void))calls, METH_FASTCALL,
     "Count a call of a ufunc, and return how many there were on the same views before."},
    {"hasten", hasten, METH_O, "Have Python call instances of a class derived from StaticGate as it calls functions."},
    {"connect_gates", connect_gates, METH_VARARGS,
     "Give lowering.raised, the types of options, lowering.before_out, and refusals.refused."},
    {"connect_folds", connect_folds, METH_VARARGS,
     "Give the names of the module of reductions, and small_folds.laid_out."},
    {"connect_reals", connect_reals, METH_VARARGS, "Give the addresses of NumPy's random_standard_normal, "
     "random_standard_exponential and random_standard_uniform, and the class of the generators that draw by them."},
    {"connect_integers", connect_integers, METH_VARARGS,
     "Give the class PCG64, a function that says whether integers are NumPy's, one that calls a function in threads, and "
     "one that gives the memory of large arrays."},
    {"integers", small_integers_of, METH_VARARGS, "Integers from a range, as a generator of NumPy's draws them, or None."},
    {"tridiagonal", small_tridiagonal, METH_VARARGS,
     "Solve for some columns of right-hand sides; False where the matrix is singular or a solution is not finite."},
    {"products", small_products, METH_VARARGS, "Multiply some matrices of two stacks; False where NumPy has to."},
    {"inverses", small_inverses, METH_VARARGS, "Invert some matrices of a stack; False where NumPy has to."},
    {"connect_team", connect_team, METH_O,
     "Give the function that says where the runtime's threads are; what it said before is forgotten."},
    {"dot", (PyCFunction)(void (*)(void))dot, METH_FASTCALL, "As at_once.dot, where compiled code is laid out."},
    {"connect_places", connect_places, METH_VARARGS,
     "Give the table of places that call functions, their class, and what counts there."},
    {"connect_recording", connect_recording, METH_VARARGS,
     "Give the engine with the classes of its parts, and the table of known calls."},
    {"thaw", (PyCFunction)(void (*)(void))small_thaw, METH_FASTCALL,
     "Have the garbage collector look again at some of the objects that gc.freeze() hid, in the generation of another one."},
    {"capsule_destructor", small_capsule_destructor, METH_O,
     "The address of a destructor of capsules, which calls a function with the address of the capsule."},
    {"uses_of", (PyCFunction)(void (*)(void))small_uses_of, METH_FASTCALL, "As sketch.uses_of of the stream."},
    {"live_bits", (PyCFunction)(void (*)(void))small_live_bits, METH_FASTCALL, "As liveness.live_bits of the stream."},
    {"unreferenced", (PyCFunction)(void (*)(void))small_unreferenced, METH_FASTCALL, "As liveness.unreferenced of the stream."},
    {"forget", (PyCFunction)(void (*)(void))small_forget, METH_FASTCALL, "As liveness.forget of the stream."},
    {"call", (PyCFunction)(void (*)(void))small_known_function, METH_FASTCALL, "As known.call."},
    {"rolled", (PyCFunction)(void (*)(void))small_known_roll, METH_FASTCALL, "As known.rolled."},
    {"filled", (PyCFunction)(void (*)(void))small_filled, METH_FASTCALL, "As creation.constant, for a known call."},
    {"hosted", (PyCFunction)(void (*)(void))hosted, METH_FASTCALL, "As core.hosted."},
    {"given", given, METH_O, "As core.given."},
    {"viewing", (PyCFunction)(void (*)(void))viewing, METH_FASTCALL, "As core.viewing."},
    {NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "diffuse.numpy.small._small", .m_size = -1, .m_methods = methods,
    .m_doc = "What small arrays do, in C: the same as arrays/ and ops/gates.py."};

PyMODINIT_FUNC PyInit__small(void)
{
    import_array();
    PyTypeObject *types[] = {&Array_Type, &Operators_Type, &Described_Type, &Gate_Type, &StaticGate_Type, &Kind_Type,
                             &Direct_Type};
    const char *names[] = {"Array", "Operators", "Described", "Gate", "StaticGate", "Kind", "Direct"};
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || small_hand_ready() < 0 || small_operators_ready() < 0 || small_draws_ready() < 0 || small_reductions_ready() < 0
            || small_teach_view() < 0 || small_kind_ready() < 0 || small_memory_ready() < 0)
        return NULL;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (PyType_Ready(types[k]) < 0 || PyModule_AddObjectRef(module, names[k], (PyObject *)types[k]) < 0)
            return NULL;
    return module;
}
