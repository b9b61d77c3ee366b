"""The modules of frameworks, imported when something of them is first used: most are missing, all are slow.

Of type Any, so that types are checked alike whether or not they are installed.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    """Becomes a copy of the module, and as quick: what replaces the module's own functions later is not seen here."""

    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(self.__name__)
        vars(self).update(vars(module))
        self.__class__ = ModuleType  # type: ignore[assignment]
        return getattr(module, name)


Tensor = Any
cv2: Any = LazyModule("cv2")
jax: Any = LazyModule("jax")
keras_ops: Any = LazyModule("keras.ops")
onnx: Any = LazyModule("onnx")
onnxruntime: Any = LazyModule("onnxruntime")
tf: Any = LazyModule("tensorflow")
torch: Any = LazyModule("torch")
functional: Any = LazyModule("torch.nn.functional")
