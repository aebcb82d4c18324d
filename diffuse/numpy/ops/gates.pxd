# C types of gates.py, for Cython: the module means the same without them.

cimport cython
from diffuse.numpy.arrays cimport core

cdef type NDARRAY

@cython.locals(same=cython.bint, items=list)
cpdef object lowered(object value, list arrays, int depth=*)
@cython.locals(x=core.Array)
cpdef object raised(object found, list arrays)
