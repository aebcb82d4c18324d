"""What a program on small arrays does not need: modules of sorts and searches, and a runtime."""

from __future__ import annotations

from tests.jobs import python


def test_sorts_and_searches_are_imported_for_large_arrays() -> None:
    done = python("""
        import sys
        import numpy
        import diffuse.numpy as np
        from diffuse import library
        x = numpy.random.default_rng(2).random(30_000)
        assert np.pi == numpy.pi and "diffuse.numpy.ops.choosing" not in sys.modules
        small, large = np.array(x[:5000]), np.array(x)
        np.argsort(small), np.median(small), np.unique(small), np.histogram(small), np.digitize(small, [1.0])
        assert not {"sorting", "selection", "sets"} & {name.rpartition(".")[2] for name in sys.modules}
        assert np.argsort(large).tolist() == numpy.argsort(x).tolist()
        assert not library.current().stores.made
        """, DIFFUSE_RUNTIME="local")
    assert done.returncode == 0, done.tail
