"""Gradients of programs, by reverse-mode differentiation: the forward pass is recorded, and the backward pass
after it.

`grad` and `value_and_grad` run a function on variables (`variable`), which remember each operation, and go
back through these operations with the rules of `elementwise`, `shapes`, `reductions` and `products`.  The
backward pass consists of operations of `diffuse.numpy` like the program's own: forward pass, loss, backward
pass and update stand in one window, fuse, and share their temporaries ("Partition work, not data",
papers/000, chapter 7, records training steps for the same reason).
"""

from diffuse.gradients import elementwise, products, reductions, shapes
from diffuse.gradients.backward import grad, value_and_grad
from diffuse.gradients.variable import Variable

__all__ = ["Variable", "elementwise", "grad", "products", "reductions", "shapes", "value_and_grad"]
