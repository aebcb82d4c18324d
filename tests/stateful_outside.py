"""Episodes of tests/stateful.py whose memory also belongs to others: buffers, fields, NumPy's own arrays.

Programs write to such memory between Diffuse's operations, look at it through windows that overlap, in
foreign byte orders and unaligned, and go on after exceptions.
"""

from __future__ import annotations

import numpy

from tests.stateful import NAMES, NUMBERS, Family

SHAPES = ((40,), (260,), (5000,), (17000,), (130, 140), (20, 25, 40))
DTYPES = ("f8", "f8", "f8", "i8", "f4", "c16", ">f8", ">i4", "f2", "u2", "m8[s]")


class Outside(Family):
    """An episode that shares its memory."""

    def statement(self) -> str:
        pick, names = self.pick, self.arrays()
        if len(names) < 2 or len(names) < 8 and pick.random() < 0.08:
            return self.foreign()
        if pick.random() < 0.5:
            return super().statement()
        return pick.choice((self.written, self.real, self.shifted, self.window, self.refused, self.other))()

    def root(self) -> str:
        return self.foreign() if self.pick.random() < 0.5 else super().root()

    def method(self) -> str:
        statement = super().method()
        while "setflags" in statement or ".shape = " in statement:  # of NumPy's `real`, too, if it is that
            statement = super().method()
        return statement

    def foreign(self) -> str:
        """An array over memory that has another name, too."""
        pick = self.pick
        name, shape, dtype = pick.choice(NAMES), pick.choice(SHAPES), pick.choice(DTYPES)
        size = int(numpy.prod(shape))
        count = size * numpy.dtype(dtype).itemsize
        over = f"{name} = np.frombuffer(buf, '{dtype}').reshape({shape})"
        field = f"{name} = rec['a']"
        real = f"real = numpy.arange({size}).astype('{dtype}').reshape({shape})"
        return pick.choice((
            f"buf = bytearray({count}); {over}", f"buf = mmap.mmap(-1, {count}); {over}",
            f"buf = (ctypes.c_char * {count})(); {over}",
            f"buf = bytearray({count + 3}); {over.replace(').re', ', offset=3).re')}",
            f"buf = bytearray({count}); {name} = np.ndarray({shape}, '{dtype}', buffer=buf)",
            f"rec = np.zeros({shape}, [('a', '{dtype}'), ('b', 'f8')]); {field}",
            f"rec = np.zeros({shape}, [('x', 'u1'), ('a', '{dtype}')]); {field}",
            f"{name} = np.zeros({count + 1}, 'u1')[1:].view('{dtype}').reshape({shape})",
            f"{real}; {name} = np.asarray(real)", f"{real}; {name} = np.array(real)",
            f"{name} = np.arange({size}).astype('{dtype}').reshape({shape})"))

    def written(self) -> str:
        """Somebody else reads or writes the memory."""
        pick, k = self.pick, self.pick.randrange(1, 40)
        return pick.choice((
            f"memoryview(buf).cast('B')[{k}:{k + 3}] = b'abc'", "r = bytes(buf[:20])", "del buf",
            f"real[...] = {pick.choice(NUMBERS)}", "real += 1", "real[::2] = 5", "real.sort()", "del real",
            "r = real.ravel()[-3:].tolist()", f"rec['a'] = {pick.choice(NUMBERS)}", "rec['b'] += 1",
            "rec[3] = 0", f"{pick.choice(NAMES)} = rec['b']",
            f"numpy.asarray({self.one(True)}).flat[{k}] = 3", f"real = numpy.asarray({self.one()})",
            f"real = numpy.array({self.one()})"))

    def real(self) -> str:
        """NumPy's array `real` is an operand, an output or a mask."""
        pick, name, first, new = self.pick, self.one(True), self.one(), self.pick.choice(NAMES)
        return pick.choice((
            f"{new} = {first} + real", f"{new} = real * {first}", f"{name} += real", f"{name}[...] = real",
            f"real += {first}", f"real[...] = {first}", f"np.add({first}, 1, out=real, casting='unsafe')",
            f"{new} = np.where(real > 1, {first}, real)", f"{name}[real > 1] = 2",
            f"real[{first} > 1] += 1", f"numpy.add({first}, {first}, out=real, casting='unsafe')",
            f"np.maximum({first}, real, out={name}, casting='unsafe')", f"{new} = np.asarray(real)[::2]"))

    def shifted(self) -> str:
        """Operands and outputs that overlap."""
        pick, name, first = self.pick, self.one(True), self.one()
        # sums of many numbers are rounded by their order
        fold = "maximum" if self.scope[name].dtype.kind in "fc" and self.scope[name].size > 10_000 else "add"
        return pick.choice((
            f"{name}[1:] = {name}[:-1]", f"{name}[:-1] += {name}[1:]", f"{name}[...] = {name}[::-1]",
            f"np.add({name}[1:], {name}[:-1], out={name}[1:])", f"{name} -= {name}[0]",
            f"np.add({name}[:-2], {name}[2:], out={name}[1:-1])", f"{name}[{name} > 1] += {name}[{name} > 1]",
            f"np.multiply({name}, {first}, out={name}[::-1], casting='unsafe')", f"{name} += {name}.max()",
            f"np.cumsum({name}, axis=0, out={name})", f"{name}.cumsum(axis=-1, out={name}[::-1])",
            f"np.{fold}.reduce({name}, axis=0, out={name}[0])",
            f"{name}[:, 0] = np.{fold}.reduce({name}, axis=1)",
            f"np.add.at({name}, np.arange({name}.shape[0]) % 4, {name})",
            f"np.clip({name}, 1, 3, out={name})", f"np.copyto({name}, {first}, where={first} > 1)"))

    def window(self) -> str:
        """A view whose elements share memory."""
        pick, name, new = self.pick, self.one(True), self.pick.choice(NAMES)
        array = self.scope[name]
        if not array.flags.c_contiguous or not 60 < array.size < 60_000:
            return f"{new} = {name}.copy()"
        step, size = array.itemsize, array.size
        shape, strides = pick.choice((((50, 10), (step, step)), ((size // 2, 2), (2 * step, step)),
                                      ((size - 9, 10), (step, step)), ((5, size), (0, step))))
        return f"{new} = np.lib.stride_tricks.as_strided({name}, {shape}, {strides})"

    def refused(self) -> str:
        """An exception in the middle of other work."""
        pick, name, first, new = self.pick, self.one(True), self.one(), self.pick.choice(NAMES)
        call = pick.choice((f"1 / {first}", f"{first} // 0", f"{first} + 'a'", f"{first}[{first}.shape[0]]",
                            f"{first} + np.ones({first}.shape[-1] + 1)", f"{name}.__iadd__(1j)"))
        return pick.choice((
            f"exec('try:\\n {name} += 1\\n {new} = {call}\\n {name} += 1\\nexcept Exception: r = 1')",
            f"exec('with np.errstate(all=\"raise\"):\\n try: {new} = {call}\\n except Exception: r = 2')"))

    def other(self) -> str:
        """Other ways to the same memory: iterators, threads, files in memory."""
        pick, name, first, new = self.pick, self.one(True), self.one(), self.pick.choice(NAMES)
        loop = '[\"readwrite\"], flags=[\"external_loop\", \"buffered\"]'
        return pick.choice((
            f"exec('with np.nditer({name}, op_flags={loop}) as it:\\n for c in it: c[...] = c + 1')",
            f"t = threading.Thread(target={name}.__setitem__, args=(0, 3)); t.start(); t.join()",
            f"l = []; p = pickle.dumps({first}, 5, buffer_callback=l.append); "
            f"{new} = pickle.loads(p, buffers=l)",
            f"q = {name}.flat", "q[3] = 5", f"{new} = np.array(q)", f"{new} = copy.deepcopy([{first}])[0]",
            f"q = np.ma.array({first}, mask={first} > 2)", f"{new} = np.ma.getdata(q + {first})",
            f"{new} = {first}.astype('>f8') + 1", f"{new} = {first}.astype('f2') * 2"))
