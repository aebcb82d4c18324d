"""Random generators as objects: their seeds, pickles and classes, and what their methods do with arrays."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffuse.numpy as np
from tests.kinds import is_ours

BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


@pytest.mark.parametrize("name", BIT_GENERATORS)
def test_a_seed_may_be_an_array(name: str) -> None:
    ours, theirs = getattr(np.random, name), getattr(numpy.random, name)
    assert ours(np.arange(4)).random_raw() == theirs(numpy.arange(4)).random_raw()
    assert isinstance(theirs(1), ours)
    assert not isinstance(theirs(1), np.random.SeedSequence)


def test_a_seed_sequence_of_an_array() -> None:
    ours, theirs = np.random.SeedSequence(np.arange(3)), numpy.random.SeedSequence(numpy.arange(3))
    assert ours.generate_state(2).tolist() == theirs.generate_state(2).tolist()
    assert isinstance(np.random.PCG64(1).seed_seq, np.random.SeedSequence)


@pytest.mark.parametrize("copied", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy])
@pytest.mark.parametrize("made", [np.random.default_rng, np.random.RandomState])
def test_copies_of_generators_go_on_with_the_same_numbers(made: Any, copied: Any) -> None:
    one = made(7)
    if made is np.random.RandomState:
        one.standard_normal()  # a second number is kept for the next call
    other = copied(one)
    assert type(other) is type(one)
    assert is_ours(other.standard_normal(3))
    one.standard_normal(3)
    assert one.standard_normal() == other.standard_normal()


def test_generators_of_numpy_are_instances() -> None:
    assert isinstance(numpy.random.default_rng(1), np.random.Generator)
    assert isinstance(numpy.random.RandomState(1), np.random.RandomState)
    assert not isinstance(numpy.random.RandomState(1), np.random.Generator)
    assert type(np.random.default_rng(numpy.random.default_rng(1))) is np.random.Generator


def test_a_choice_of_one_is_no_array() -> None:
    generator = np.random.default_rng(1)
    assert np.isscalar(generator.choice(2))
    assert np.isscalar(generator.choice(2, p=[0.1, 0.9], replace=False))
    elements = np.empty(1, object)
    elements[0] = array = np.array([1, 2])
    assert generator.choice(elements) is array


def test_shuffle_moves_objects_without_unpacking_them() -> None:
    items = [None, np.array([3]), np.float64(3), np.array(10)]
    array = np.array(items, dtype=object)
    for shuffle in np.random.shuffle, np.random.default_rng(1).shuffle:
        shuffle(array)
        assert {id(item) for item in array} == {id(item) for item in items}


@pytest.mark.parametrize("shape", [(), (3,), (20, 30), (200, 300)])
def test_numbers_shapes_and_names_are_numpys_own_arguments(shape: tuple[int, ...]) -> None:
    def drawn(m: Any) -> list[Any]:
        rng, old = m.random.default_rng(5), m.random.RandomState(5)
        m.random.seed(7)
        return [rng.random(shape, dtype="f4"), rng.normal(1.0, scale=2.0, size=shape), rng.integers(4),
                rng.permutation(7), rng.choice(5, shape), old.randint(0, 9, shape), m.random.rand(*shape),
                m.random.uniform(low=1, high=[2.0], size=(*shape, 1)), m.random.normal(m.ones(shape), 1.0)]

    for ours, theirs in zip(drawn(np), drawn(numpy), strict=True):
        assert numpy.asarray(ours).dtype == numpy.asarray(theirs).dtype
        assert numpy.array_equal(ours, theirs)
        assert isinstance(ours, np.ndarray) is isinstance(theirs, numpy.ndarray)


CALLS: list[Callable[[Any], Any]] = [
    lambda m: m.random.default_rng(1).random("x"), lambda m: m.random.rand(-1),
    lambda m: m.random.default_rng(1).normal(scale=-1.0), lambda m: m.random.Generator.random(),
    lambda m: m.random.default_rng(1).integers(3, size=(2, -2))]


@pytest.mark.parametrize("call", CALLS)
def test_errors_of_generators_are_numpys(call: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as theirs:
        call(numpy)
    with pytest.raises(theirs.type):
        call(np)


def test_generators_and_their_methods_have_numpys_signatures() -> None:
    """Libraries look up there which arguments a method takes, and leave out others."""
    def told(of: Any) -> list[str]:
        names = [name for name in dir(of) if name[0] != "_" and callable(getattr(of, name))]
        return [f"{name}{inspect.signature(getattr(of, name))}" for name in names]

    for name in "Generator", "RandomState":
        ours, theirs = getattr(np.random, name), getattr(numpy.random, name)
        assert told(ours) == told(theirs) and len(told(ours)) > 40
        assert told(ours(np.random.PCG64(1))) == told(theirs(numpy.random.PCG64(1)))
    others = "Generator", "RandomState", "SeedSequence", "normal", "shuffle", "default_rng"
    for name in (*BIT_GENERATORS, *others):
        found, expected = (inspect.signature(getattr(of, name)) for of in (np.random, numpy.random))
        assert str(found) == str(expected), name
