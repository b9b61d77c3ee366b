"""Keys: `conv2d/native/cpu/winograd_6x6` names one implementation of one operator, everywhere."""

from __future__ import annotations

from typing import NamedTuple


class KeyParts(NamedTuple):
    """`op/framework/device[/variant]`: the key that names an implementation everywhere."""

    op: str
    framework: str
    device: str
    variant: str

    @property
    def short(self) -> str:
        """As tables name it: without the operator, and without `cpu`."""
        return (
            "/".join(filter(None, (self.framework, "" if self.device == "cpu" else self.device, self.variant)))
            or self.op
        )


def parts_of(key: str) -> KeyParts:
    """Words that a key of a damaged file lacks are empty."""
    op, framework, device, variant = (*key.split("/", 3), "", "", "")[:4]
    return KeyParts(op, framework, device, variant)
