"""Compiled functions that are kept on disk where that is possible, and compiled anew where not.

Numba has a few folders for the functions of a file: that of ``NUMBA_CACHE_DIR``, the one beside the
file, the user's. It takes the first that can be written, and raises if there is none, as in an
image that is read-only. Here functions are also read from folders before that one, so that those
that were compiled while an image was built serve those who cannot write there; and nothing that
happens to a folder ends a fit. Signals wait until a function has been compiled or read.
"""

import os
import pickle
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache

from .._callers import user_stacklevel
from .._log import logger

BROKEN = (OSError, EOFError, pickle.UnpicklingError)


def cached_njit(**options: Any) -> Callable[[Callable], Any]:
    """The decorator ``numba.njit(cache=True, nogil=True, **options)``, without its need of a folder
    that can be written.
    """

    def decorate(function: Callable) -> Any:
        compiled = njit(nogil=True, **options)(function)
        if compiled is not function:  # NUMBA_DISABLE_JIT leaves it as it is
            compiled._cache = LoopCache(function)
            compiled._compile_for_args = _as_a_whole(compiled._compile_for_args)
        return compiled

    return decorate


def _as_a_whole(compile_for: Callable) -> Callable:
    def compile_as_a_whole(*args: Any, **named: Any) -> Any:
        with signals_afterwards():
            return compile_for(*args, **named)

    return compile_as_a_whole


@contextmanager
def signals_afterwards() -> Iterator[None]:
    """A context that no signal, such as Ctrl-C, leaves half done: handlers hear of it after the
    end. In the middle of compiling Numba may ignore what they raise, or keep a lock for which all
    other threads then wait.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread alone
        return
    every = {number: signal.getsignal(number) for number in signal.valid_signals()}
    handlers = {number: handler for number, handler in every.items() if callable(handler)}
    heard: list[Any] = []
    for number in handlers:
        signal.signal(number, lambda *said: heard.append(said))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in heard:
            handlers[number](number, frame)


class LoopCache(NullCache):
    """Folders in Numba's order, up to the first that can be written.

    Attributes
    ----------
    warned : bool
        True once this process has said that compiled functions are not kept.
    """

    warned = False

    def __init__(self, function: Callable) -> None:
        self.places: list[Any] = []
        for kind in CACHES:
            try:
                place = kind(function)
            except (RuntimeError, OSError):
                continue  # not for this file
            # a user without a home
            if place.cache_path.startswith("~"):
                continue
            self.places.append(place)
            if can_be_written(place.cache_path):
                break

    @property
    def cache_path(self) -> str | None:
        return self.places[-1].cache_path if self.places else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        for place in self.places:
            try:
                found = place.load_overload(sig, target_context)
            except BROKEN:
                continue
            if found is not None:
                return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            if not self.places:
                raise FileNotFoundError("there is no folder for them")
            place = self.places[-1]
            os.makedirs(place.cache_path, exist_ok=True)
            place.save_overload(sig, data)
        except BROKEN as error:
            self._warn(error)

    def _warn(self, error: BaseException) -> None:
        if LoopCache.warned:
            return
        LoopCache.warned = True
        logger.warning("compiled loops cannot be kept on disk (%s)", error)
        folders = ", ".join(place.cache_path for place in self.places) or "any folder"
        warnings.warn(
            f"Compiled loops cannot be kept in {folders} ({error}), so that every process compiles "
            "them anew, which takes seconds: set NUMBA_CACHE_DIR to a folder that can be written, "
            "or let an image have them by a fit while it is built.",
            stacklevel=user_stacklevel(),
        )


def _without_question(locator: Any) -> Any:
    """Numba's cache in one of its folders, whether or not the folder can be written."""
    readable = type(locator.__name__, (locator,), {"ensure_cache_path": lambda self: None})
    implementation = type(
        "Implementation", (CompileResultCacheImpl,), {"_locator_classes": [readable]}
    )
    return type("Place", (FunctionCache,), {"_impl_class": implementation})


CACHES = [_without_question(locator) for locator in CompileResultCacheImpl._locator_classes]


@cache
def can_be_written(folder: str) -> bool:
    """True if files can be made in a folder, which is made if it is not there."""
    try:
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True
