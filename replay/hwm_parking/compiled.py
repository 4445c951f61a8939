"""Two ways to run the kernels: as the Python they are written in, or compiled by numba.

A kernel is a function over flat numbers: a ``State`` and rows, no objects of its own. Interpreted,
it runs at once on lists; compiled, it runs some thirty times as fast on arrays, but numba takes
half a second to import and much longer to compile. So short logs are interpreted, and numba is not
even imported; long ones are compiled. Both run the same source.

numba keeps what it compiled beside this file, or, where that can't be written (a package shipped
as a zip, say), in the user's cache folder; without either every process compiles anew. It looks
for changes in one file alone, so a hash of all kernels' sources is made part of the cache's name.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_KERNELS: list[Callable[..., Any]] = []


def kernel(function: Kernel) -> Kernel:
    """Mark a kernel: numba is to compile it where another one calls it."""
    _KERNELS.append(function)
    return function


@cache
def compiled(function: Kernel) -> Kernel:
    """A kernel as numba compiles it; the first call with new types takes seconds."""
    # Here and not above: a process that replays short logs never pays for the import.
    import numba

    called, source = function, _known_to_numba()

    def run(state: Any, rows: Any, steps: Any) -> Any:
        return called(state, rows, steps)

    # The name is the name of the file in the cache.
    run.__qualname__ = f"{function.__name__}_{source}"
    # numba's types leave `_nrt` out.
    njit: Callable[..., Any] = numba.njit
    try:
        return njit(cache=True, _nrt=False)(run)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder to keep it in
        return njit(_nrt=False)(run)  # type: ignore[no-any-return]


@cache
def _known_to_numba() -> str:
    """Tell numba of all kernels, as a hash of the modules they are in.

    Kernels make no arrays, so numba need not count who holds one (``_nrt``); that would be what
    most of the time goes to.
    """
    from numba.extending import register_jitable

    for each in _KERNELS:
        register_jitable(_nrt=False)(each)
    modules = {inspect.getmodule(each) for each in _KERNELS}
    sources = sorted(inspect.getsource(module) for module in modules if module is not None)
    return hashlib.blake2b("".join(sources).encode(), digest_size=16).hexdigest()
