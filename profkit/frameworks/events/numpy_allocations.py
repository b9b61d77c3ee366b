"""Every block of memory that NumPy allocates and frees while a block of code runs, with its time.

NumPy lets a program replace the functions that allocate its arrays (PyDataMem_SetHandler, NEP 49, NumPy 1.22); here
they wrap NumPy's own and record each call. tracemalloc sees the same blocks, but has no sum of what came
and went inside an operator.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

AllocationEvent = tuple[int, int, int]
"""Time in ns, address, bytes (negative: freed)."""
_SET_HANDLER, _GET_HANDLER = 304, 305
_CAPSULE_NAME = b"mem_handler"
# NumPy's functions want the GIL, which PYFUNCTYPE keeps.
_Malloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_Calloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_Realloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_Free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


_FUNCTIONS = (("malloc", _Malloc), ("calloc", _Calloc), ("realloc", _Realloc), ("free", _Free))


class _Handler(ctypes.Structure):
    """PyDataMem_Handler of numpy/ndarraytypes.h, version 1."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        *_FUNCTIONS,
    )


class _AllocationWatch:
    """NumPy's own functions with a note of each call, for as long as it is on."""

    def __init__(self) -> None:
        self.events: list[AllocationEvent] = []
        self._sizes: dict[int, int] = {}
        self._set = _from_api(_SET_HANDLER, ctypes.py_object, ctypes.py_object)
        capsule = _from_api(_GET_HANDLER, ctypes.py_object)()
        self._usual = _Handler.from_address(_pointer(capsule, _CAPSULE_NAME))
        self._calls = _Malloc(self._malloc), _Calloc(self._calloc), _Realloc(self._realloc), _Free(self._free)
        self._handler = _Handler(b"profkit", 1, self._usual.context, *self._calls)
        # Arrays may outlive everything else here, and are freed through the handler: it is never freed itself.
        for needed in (self._handler, _CAPSULE_NAME):
            _keep_for_ever(needed)
        self._previous = self._set(_new_capsule(ctypes.addressof(self._handler), _CAPSULE_NAME, None))

    def stop(self) -> None:
        """Arrays that are still there will be freed by NumPy's own function, even while Python ends."""
        self._set(self._previous)
        for name, _ in _FUNCTIONS:
            setattr(self._handler, name, getattr(self._usual, name))

    def _malloc(self, context: int, size: int) -> int | None:
        return self._taken(self._usual.malloc(context, size), size)

    def _calloc(self, context: int, count: int, size: int) -> int | None:
        return self._taken(self._usual.calloc(context, count, size), count * size)

    def _realloc(self, context: int, address: int, size: int) -> int | None:
        moved = self._usual.realloc(context, address, size)
        if moved is not None:
            self._given(address)
        return self._taken(moved, size)

    def _free(self, context: int, address: int, size: int) -> None:
        self._given(address)
        self._usual.free(context, address, size)

    def _taken(self, address: int | None, size: int) -> int | None:
        if address is not None:
            self._sizes[address] = size
            self.events.append((time.perf_counter_ns(), address, size))
        return address

    def _given(self, address: int) -> None:
        if address in self._sizes:
            self.events.append((time.perf_counter_ns(), address, -self._sizes.pop(address)))


@contextlib.contextmanager
def numpy_allocations() -> Iterator[list[AllocationEvent]]:
    """A list that grows while NumPy allocates in this thread; blocks from before are freed without a note."""
    watch = _AllocationWatch()
    try:
        yield watch.events
    finally:
        watch.stop()


def _from_api(place: int, *types: Any) -> Any:
    """A function of the table that NumPy offers to extension modules."""
    core = getattr(np, "_core", None) or np.core
    table = ctypes.cast(_pointer(core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return ctypes.PYFUNCTYPE(*types)(table[place] or 0)


def _function(name: str, *types: Any) -> Any:
    return ctypes.PYFUNCTYPE(*types)((name, ctypes.pythonapi))


_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_new_capsule = _function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_keep_for_ever = _function("Py_IncRef", None, ctypes.py_object)
