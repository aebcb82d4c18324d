"""Settings: declared once, read late, checked, and overridable for a while."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from diffuse import settings
from diffuse.settings import config, using
from tests.jobs import python


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Each test reads the environment itself, and leaves the settings as they were."""
    before = dict(config.__dict__)
    before["_code"] = set(before["_code"])
    yield
    config.__dict__.clear()
    config.__dict__.update(before)


def test_environment_is_read_at_the_first_use_and_then_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIFFUSE_MIN_CHUNK", "77")
    del config.min_chunk
    assert config.min_chunk == 77
    assert settings.source("min_chunk") == "environment"
    monkeypatch.setenv("DIFFUSE_MIN_CHUNK", "78")
    assert config.min_chunk == 77
    assert "min_chunk" in config.__dict__, "a setting in use must cost what an attribute costs"


def test_code_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIFFUSE_WINDOW_SIZE", "5")
    config.window = 3
    assert config.window == 3 and settings.source("window") == "code"
    del config.window
    assert config.window == 5


def test_using_restores_values_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIFFUSE_WINDOW_SIZE", raising=False)
    del config.window
    with using(window=1, compile="wait"):
        assert [config.window, config.compile] == [1, "wait"]
        assert settings.source("window") == "code"
    assert [config.window, settings.source("window")] == ["auto", "default"]


def test_using_restores_after_a_wrong_value_and_an_error() -> None:
    window = config.window
    with pytest.raises(ValueError), using(window=1, compile="never"):
        pass
    assert config.window == window
    with pytest.raises(KeyError), using(window=1):
        raise KeyError
    assert config.window == window


@pytest.mark.parametrize("name, value, expected", [
    ("window", "0", "auto or a whole number >= 1"),
    ("window", 2.5, "auto or a whole number >= 1"),
    ("window", "many", "auto or a whole number >= 1"),
    ("compile", "sometimes", "one of background, wait, off"),
    ("runtime", "gpu", "one of local, reference"),
    ("cache_size", "12 parsecs", "none or a number of bytes"),
    ("cache_size", -1, "none or a number of bytes"),
    ("trace", "2", "0 or 1"),
    ("small", True, "a whole number >= 0"),
])
def test_a_wrong_value_names_itself_and_the_rule(name: str, value: object, expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        setattr(config, name, value)
    assert all(part in str(caught.value) for part in (name, repr(value), expected))


def test_a_wrong_environment_value_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    del config.compile
    monkeypatch.setenv("DIFFUSE_COMPILE", "maybe")
    with pytest.raises(ValueError, match="DIFFUSE_COMPILE='maybe': expected one of background, wait, off"):
        config.compile  # noqa: B018


def test_an_unknown_setting_or_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AttributeError, match="no setting 'windows': expected one of runtime, threads"):
        config.windows = 3
    monkeypatch.setenv("DIFFUSE_WINDOW", "3")
    with pytest.raises(ValueError, match="DIFFUSE_WINDOW='3': there is no such setting"):
        settings.check_environment()


@pytest.mark.parametrize("variable, text", [
    *((setting.variable, "no, value!") for setting in settings.SETTINGS.values()
      if setting.rule is not settings.FOLDER),
    ("DIFFUSE_NUM_THREADS", "0"), ("DIFFUSE_NUM_THREADS", "2.5"), ("DIFFUSE_MEMORY", "4X"),
    ("DIFFUSE_TREADS", "2")])
def test_a_program_that_imports_diffuse_hears_of_a_wrong_setting(variable: str, text: str) -> None:
    done = python("import diffuse.numpy", **{variable: text})
    assert done.returncode == 1
    assert f"ValueError: {variable}={text!r}: " in done.stderr and "expected " in done.stderr


@pytest.mark.parametrize("text, size", [("512M", 512 << 20), ("4G", 4 << 30), ("1GiB", 1 << 30), ("100", 100),
                                        ("3kb", 3 << 10), ("none", None), ("0", 0)])
def test_sizes_take_units(text: str, size: int | None) -> None:
    with using(memory=text):
        assert config.memory == size


def test_watchers_hear_of_changes() -> None:
    heard: list[object] = []
    settings.watch("min_chunk", heard.append)
    with using(min_chunk=5):
        pass
    assert heard == [5, config.min_chunk]
    settings._watchers.pop()


def test_the_table_has_a_row_for_every_setting() -> None:
    rows = settings.table().splitlines()
    assert len(rows) == 2 + len(settings.SETTINGS)
    for setting in settings.SETTINGS.values():
        assert any(f"`{setting.variable}`" in row and setting.sentence in row for row in rows)
        assert setting.rule.parse(settings.default(setting.name)) == settings.default(setting.name)


def test_importing_settings_is_light() -> None:
    code = "import sys, diffuse.settings; print({'numpy', 'llvmlite', 'numba'} & set(sys.modules))"
    found = python(code)
    assert found.stdout.strip() == "set()"
