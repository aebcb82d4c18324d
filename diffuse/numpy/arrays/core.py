"""The parts of an array, and its construction.

`Array` holds the parts of an array and nothing else; `Operators` (arithmetic.py) adds Python's operators,
`Described` (elements.py) elements and shape, and `ndarray` and the pending number NumPy's methods.  An array
is created in one of two ways: *recorded* (a store, perhaps without memory yet; `meta` is a mirror) or
*hosted* (`meta` is a real NumPy array; a store is attached when the first task touches it).

An array of fewer than DIFFUSE_SMALL elements that nothing pending writes behaves as NumPy's, bits, warnings
and errors included, and costs little more: no form is looked up, nothing is recorded.  So does a small view
of a large array; access.py decides what happens while tasks on that are pending.

With the extension (../small/), its classes and functions replace those of the same names in these modules:
changes in one have to be made in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from diffuse import library
from diffuse.library import view
from diffuse.numpy.arrays.forms import NATIVE, Form, Mirror, computable, form_of
from diffuse.numpy.small import native
from diffuse.settings import config, watch

NDARRAY = numpy.ndarray
ENGINE = library.current()

NUMBERS: set[type] = {float, int, complex, bool, *(dtype.type for dtype in NATIVE)}
"""Types of the numbers that operations take by value."""


class Array:
    """The common part of `ndarray` and the pending number."""

    __slots__ = ("storage", "_form", "part", "meta", "memory", "owner", "lent", "__weakref__")

    storage: Any
    """The engine's handle of the store; None until a task uses a hosted array."""
    _form: Form | None
    """Shape, strides and element type, interned; None until requested."""
    part: view.View | None
    """The part of the store that this array shows; None until a task needs it."""
    meta: Mirror
    """Shape, strides, type, offset and flags: a mirror, or the real memory of a hosted array.  A view of a
    mirror may be real; the memory of its owner is known then."""
    memory: Mirror | None
    """The memory as NumPy sees it, once known; valid for reading while the store is not busy."""
    owner: Array | None
    """The array of whose store this is a view."""
    lent: bool
    """Did the program get NumPy arrays that are views of this hosted array (`lend`)?"""

    @property
    def form(self) -> Form:
        """Shape, strides and element type, interned."""
        found = self._form
        if found is None:
            found = self._form = form_of(self.meta)
        return found

    @form.setter
    def form(self, form: Form) -> None:
        self._form = form


array_class: Any = Array
scalar_class: Any = Array
"""The class of arrays and the common one of pending numbers that operations return (`set_classes`)."""

PENDING: set[type] = set()
"""The classes of pending numbers, one for each element type."""
ARRAYS: set[type] = set()
"""The classes of pending numbers and that of arrays: one look-up tells whether an operand is Diffuse's."""


def set_classes(array: Any, scalar: Any, pending: dict[Any, Any]) -> None:
    """Set the classes of arrays and pending numbers; `pending` has those for each element type."""
    global array_class, scalar_class
    array_class, scalar_class = array, scalar
    PENDING.update(pending.values())
    ARRAYS.update((array, *PENDING))
    if native is not None:
        native.set_classes(array, scalar, {found: dtype.type for dtype, found in pending.items()})

SMALL = config.small
"""Arrays of fewer elements behave as NumPy's: if they are at hand, NumPy computes on them at once."""

TINY = min(128, SMALL)
"""NumPy's results with fewer elements stay NumPy's arrays, whose operators and methods are NumPy's own.  Two
such arrays never broadcast to a large one, which would stay NumPy's, too."""


def set_small(elements: int) -> None:
    """Change which arrays are small."""
    global SMALL, TINY
    SMALL, TINY = elements, min(128, elements)
    if native is not None:
        native.set_sizes(SMALL, TINY)


watch("small", set_small)

SEES = False
"""Is the known memory of arrays that of their stores, rather than a copy?  Views of arrays are then views of
it."""


def _look_again(_: Any) -> None:
    see(False)


def see(sees: bool) -> None:
    global SEES
    SEES = sees
    if native is not None:
        native.set_sees(sees)


watch("runtime", _look_again)
see(config.runtime in library.SEEN)


def recorded(shape_form: Form) -> Any:
    """Make an array over a new store, which the next task has to write."""
    x = Array.__new__(array_class)
    x.storage = library.new(shape_form.frame)
    x._form = shape_form
    x.part = shape_form.root
    x.meta = shape_form.mirror
    x.memory = x.owner = None
    return x


def hosted(array: Mirror, known: Form | None = None) -> Any:
    """Make a Diffuse array over the memory of a NumPy array that is packed and owns its elements."""
    x = Array.__new__(array_class)
    x.meta = x.memory = array
    x._form = known
    x.storage = x.part = x.owner = None
    x.lent = False
    return x


def given(found: Mirror) -> Any:
    """The program's result for a new packed NumPy array: a Diffuse array, or that array itself if it is
    tiny."""
    return found if found.size < TINY or not computable(found.dtype) else hosted(found)


def viewing(parent: Array, meta: Mirror) -> Any:
    """The view of `parent` that a view of its meta describes."""
    x = Array.__new__(array_class)
    owner = parent if parent.owner is None else parent.owner
    x.owner = owner
    x.storage = owner.storage
    x._form = x.part = None
    x.meta = meta
    x.memory = meta if parent.meta is parent.memory else None
    return x


def looking(parent: Array, memory: Mirror) -> Any:
    """The view of `parent`, whose memory is known, that is given as a view of that memory."""
    x = Array.__new__(array_class)
    owner = parent if parent.owner is None else parent.owner
    x.owner = owner
    x.storage = owner.storage
    x._form = x.part = None
    x.meta = x.memory = memory
    return x


class Slow:
    """The functions that operators and attributes call for arrays that are not small or not at hand, set by
    later modules."""

    known: Callable[[Any, Any, Any], Any]
    known_unary: Callable[[Any, Any], Any]
    known_inplace: Callable[[Any, Any, Any], bool]
    forward: Callable[[str, Any, Any], Any]
    reflected: Callable[[str, Any, Any], Any]
    equality: Callable[[str, Any, Any], Any]
    alone: Callable[[str, Any], Any]
    power: Callable[[Any, Any], Any]
    update: Callable[[str, Any, Any], Any]
    getitem: Callable[[Any, Any], Any]
    setitem: Callable[[Any, Any, Any], None]
    locate: Callable[[Any], bool]
    set_shape: Callable[[Any, Any], None]
    set_dtype: Callable[[Any, Any], None]
    form_of: Callable[[Mirror], Form]
    subscript: Callable[[Any, Any], Any]
    assign: Callable[[Any, Any, Any], None]
    array_ufunc: Callable[..., Any]
    component: Callable[[Any, str], Any]
    set_component: Callable[[Any, str, Any], None]
    host: Callable[[Any], Mirror]
    gathered: Callable[[Any], Any]
    buffer: Callable[[Any, int], Mirror]


slow = Slow()
slow.form_of = form_of


if native is not None:
    for _name in ("Array", "hosted", "given", "viewing", "looking"):
        globals()[_name] = getattr(native, _name)
