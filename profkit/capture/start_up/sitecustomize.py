"""Runs at the start of every traced Python process: has torch's operators become ranges once torch is imported, has
threads show their Python names, then hands over to the program's own sitecustomize. It imports nothing big and never
stops the program."""

from __future__ import annotations

import os
import sys

# Importing typing would cost every process milliseconds.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))


def _complain(what: str, error: BaseException) -> None:
    sys.stderr.write(f"profkit.trace: {what}: {error!r}\n")


def _hide_from_children() -> None:
    """With --no-children the processes this one starts must find no trace of us."""
    os.environ.pop("PROFKIT_TORCH_RANGES", None)
    parts = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != _HERE]
    if parts:
        os.environ["PYTHONPATH"] = os.pathsep.join(parts)
    else:
        os.environ.pop("PYTHONPATH", None)


class _AfterImport:
    """Lets the other finders find the module, and acts only once its import is done."""

    def __init__(self, name: str, act: Any) -> None:
        self._name = name
        self._act = act

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self._act)
                return spec
        return None


class _Loader:
    def __init__(self, loader: Any, act: Any) -> None:
        self._loader = loader
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        # Later users of the module must find its true loader.
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            self._act(module)
        except Exception as error:
            _complain(f"nothing could be done after the import of {module.__name__}", error)


def _turn_torch_ranges_on(record_shapes: bool) -> None:
    sys.path.insert(0, _HERE)
    try:
        import profkit_torch_ranges  # type: ignore[import-not-found,unused-ignore]
    finally:
        sys.path.remove(_HERE)
    profkit_torch_ranges.turn_on(record_shapes)


def _show_thread_names(threading: Any) -> None:
    """Before Python 3.14 the system, and so the recorder, does not know what a Python thread is called."""
    original = threading.Thread._bootstrap_inner

    def bootstrap(thread: Any) -> None:
        try:
            # The kernel keeps 15 bytes.
            with open("/proc/thread-self/comm", "wb") as comm:
                comm.write(thread.name.encode("utf-8", "replace")[:15])
        except OSError:
            pass
        original(thread)

    threading.Thread._bootstrap_inner = bootstrap


def _hand_over() -> None:
    """Import the sitecustomize that this one hides, if there is one; its errors are its own."""
    sys.path[:] = [part for part in sys.path if part != _HERE]
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


try:
    _torch, _, _alone = os.environ.get("PROFKIT_TORCH_RANGES", "off").partition(",")
    if _alone:
        _hide_from_children()
    if _torch in ("on", "shapes"):
        sys.meta_path.insert(0, _AfterImport("torch", lambda _: _turn_torch_ranges_on(_torch == "shapes")))
    if sys.version_info < (3, 14):
        if "threading" in sys.modules:
            _show_thread_names(sys.modules["threading"])
        else:
            sys.meta_path.insert(0, _AfterImport("threading", _show_thread_names))
except Exception as error:
    _complain("start-up failed", error)

_hand_over()
