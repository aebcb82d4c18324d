# C types of core.py, for Cython: the module means the same without them.

cimport cython

cdef class Array:
    cdef public object storage
    cdef public object _form
    cdef public object part
    cdef public object meta
    cdef public object memory
    cdef public object owner
    cdef object __weakref__

cdef class Operators(Array):
    pass

cdef object array_kind
cdef object scalar_kind
cdef class Described(Operators):
    pass

cdef type NDARRAY

cdef Py_ssize_t _small

@cython.locals(x=Array)
cpdef object recorded(object shape_form)
@cython.locals(x=Array)
cpdef object hosted(object array, object known=*)
@cython.locals(x=Array, owner=Array)
cpdef object viewing(Array parent, object meta)
@cython.locals(owner=Array)
cpdef object at_hand(Array x)
@cython.locals(size=Py_ssize_t)
cpdef object near(Array x)
@cython.locals(owner=Array, size=Py_ssize_t)
cpdef object near_to_write(Array x)
cpdef bint ready(Array x)
cpdef object host(Array x)
cpdef object number_or_near(object x)
@cython.locals(one=Py_ssize_t, other=Py_ssize_t)
cdef bint spreads(object left, object right)
cpdef object binary(object function, object a, object b)
cpdef object product(object a, object b)
cpdef object unary(object function, object a)
cpdef bint inplace(object function, object a, object b)
cdef bint simple(object index)
cdef object sliced(object view, object index)
@cython.locals(part=Array, hosted_there=cython.bint)
cdef object part_of(Array x, object index, object key)
