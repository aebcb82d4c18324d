"""The Sharing protocol: stores that Diffuse and other libraries on the same runtime hold together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from diffuse.ir import Store
from diffuse.ir.view import View

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from diffuse.runtime.base import Instance


class Sharing(Protocol):
    """Stores shared between Diffuse and other libraries on the same runtime.

    The valid data of a *shared* instance is always in the store; what the host writes to its copy has to be
    written back at once.
    """

    fenced: bool
    """Must launches have ended before another library may access the store?  Otherwise it is enough that they
    were submitted: the runtime orders the other library's tasks after them."""
    dimensions: int
    """The largest rank of a store."""
    room: int
    """Bytes of memory that a process may use for arrays, stores included."""

    attribute: str
    """The attribute through which an object exposes a store."""

    def shows(self, thing: Any) -> bool:
        """Does an object of another library expose a store of the runtime's kind?"""
        ...

    def share(self, instance: Any) -> Any:
        """Share the store of an instance: other libraries may read and write it from now on.  Everything
        recorded on it was launched before, and has ended if `fenced`."""
        ...

    def unshare(self, instance: Any) -> None:
        """End the sharing of an instance's store, which no other library holds any more."""
        ...

    def reclaim(self) -> None:
        """End the sharing of instances whose borrowers have returned them."""
        ...

    def adopt(self, store: Any, dtype: str) -> Instance:
        """Make an instance over another library's store."""
        ...

    def holds(self, instance: Any, store: Any) -> bool:
        """Is `store` the store of the instance?"""
        ...

    def write_back(self, instance: Any) -> None:
        """Copy the host's copy of a shared instance, to which the host wrote, to the store."""
        ...

    def overlap(self, one: Any, other: Any) -> bool:
        """May two shared instances have elements in common?"""
        ...

    def nameable(self, view: View, store: Store) -> bool:
        """Can the library express the part of a store that a view shows?"""
        ...

    def part(self, store: Any, view: View) -> Any:
        """The part of the library's store that a view shows."""
        ...

    def name(self, store: Any) -> str | None:
        """A key that is equal for equal views of one memory; None if the library defines none."""
        ...

    def value(self, store: Any) -> NDArray[Any]:
        """Copy the data of a store that has no memory of its own, such as a future's."""
        ...

    def type_name(self, store: Any) -> str | None:
        """Diffuse's name of the element type; None if Diffuse does not compute in it."""
        ...
