"""How the rule's functions become machine code: by numba, once per machine.

The functions are written over arrays (``state``) and read like Python. An ``entry`` is what the
replay calls; it is compiled together with all that it calls when it is called first, and kept in
``__pycache__`` beside its module, or in the user's cache directory where that can't be written to
or the code is in a zip archive (``NUMBA_CACHE_DIR`` names another). Where there is neither, every
process compiles anew.

Functions allocate nothing, so numba need not count who holds an array (``_nrt``): counting for all
arrays of a state at every call takes longer than most functions do.
"""

from __future__ import annotations

import hashlib
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

from numba import njit
from numba.core.caching import FunctionCache

#: Not among the options that numba documents.
_UNCOUNTED: dict[str, Any] = {"_nrt": False}
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """A function that entries call: it becomes part of them."""
    machine_code: Function = njit(forceinline=True, **_UNCOUNTED)(function)
    return machine_code


def entry(function: Function) -> Function:
    """A function that the replay calls: compiled when it first is, or read where it is kept."""
    machine_code: Function = njit(**_UNCOUNTED)(function)
    try:
        machine_code._cache = _Kept(function)  # type: ignore[attr-defined, no-untyped-call]
    except RuntimeError:  # no directory to keep it in
        return machine_code
    return machine_code


class _Kept(FunctionCache):
    """What is kept of a function, as long as no module of the rule is another.

    numba by itself looks at the function's own module alone, and not at those that it calls.
    """

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        key: tuple[Any, ...] = super()._index_key(signature, codegen)  # type: ignore[no-untyped-call]
        return (*key, _source())


@cache
def _source() -> str:
    """Hash of the rule's modules, from files or from an archive."""
    digest = hashlib.blake2b(digest_size=16)
    package = find_spec(__package__)
    paths = [] if package is None else package.submodule_search_locations
    for name in sorted(module.name for module in pkgutil.iter_modules(paths)):
        spec = find_spec(f"{__package__}.{name}")
        source = spec.loader.get_source(spec.name) if spec is not None else ""  # type: ignore[union-attr]
        digest.update(f"{name}\0{source}\0".encode())
    return digest.hexdigest()
