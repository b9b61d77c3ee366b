"""What holds a layer back: its time, work and the machine's peaks in, one of four words and the reason out.

docs/baseline.md gives the rules in words; they are tried in the order of this file.
"""

from __future__ import annotations

from dataclasses import dataclass

TRANSFER, LATENCY, COMPUTE, MEMORY = "transfer", "latency", "compute", "memory"
MOST = 0.5
"""More than this share of a layer's time dominates it."""
SHORT_CALL_NS = 50_000
"""Below this an operator's fixed cost (a few microseconds of dispatch, a pool to wake) is a good part of its time."""
SLOW_KERNEL = "the kernel is slow, not the machine"
FAR = 4.0
"""From this multiple of the roofline bound on, neither arithmetic nor memory explains the time."""


@dataclass(frozen=True)
class LayerNumbers:
    """Of one layer in one phase, per step."""

    time_ns: float
    transfer_ns: float  # in operators that only move data: copies, reorders
    dispatch_ns: float | None
    calls: float  # operators
    flops: int
    bytes: int  # that must move at least
    peak_flops_per_s: float
    peak_bytes_per_s: float

    @property
    def intensity(self) -> float:
        """Flops per byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def balance(self) -> float:
        """Flops per byte at which this machine is busy with both."""
        return self.peak_flops_per_s / self.peak_bytes_per_s

    @property
    def flops_per_s(self) -> float:
        """Achieved."""
        return 1e9 * self.flops / self.time_ns

    @property
    def bytes_per_s(self) -> float:
        """Achieved, of the bytes that must move; what moved in truth may be more."""
        return 1e9 * self.bytes / self.time_ns

    @property
    def bound_ns(self) -> float:
        """The roofline."""
        return 1e9 * max(self.flops / self.peak_flops_per_s, self.bytes / self.peak_bytes_per_s)


@dataclass(frozen=True)
class Bottleneck:
    """The word, and the numbers that decided it as a sentence."""

    kind: str
    why: str
    is_far: bool = False
    """Compute or memory is the nearest limit, but at least FAR times away: the kernel or its threads are slow."""


def transfer(transfer_ns: float, time_ns: float) -> Bottleneck | None:
    """The first rule, which needs no work and no peaks."""
    if transfer_ns <= MOST * time_ns:
        return None
    return Bottleneck(TRANSFER, f"{_percent(transfer_ns, time_ns)} of its time goes to copies and reorders")


def bottleneck(layer: LayerNumbers, is_disturbed: bool = False) -> Bottleneck | None:
    """None for a layer that took no time. Of times of a busy machine it is not concluded that a kernel is slow."""
    if layer.time_ns <= 0:
        return None
    if moved := transfer(layer.transfer_ns, layer.time_ns):
        return moved
    if layer.dispatch_ns is not None and layer.dispatch_ns > MOST * layer.time_ns:
        share = _percent(layer.dispatch_ns, layer.time_ns)
        return Bottleneck(LATENCY, f"{share} of its time passes outside its operators")
    call_ns = layer.time_ns / max(1.0, layer.calls)
    is_far = layer.time_ns > FAR * layer.bound_ns
    times = f"the layer {layer.time_ns / layer.bound_ns:.0f} times its bound" if layer.bound_ns else "for no work"
    if call_ns < SHORT_CALL_NS and is_far:
        return Bottleneck(LATENCY, f"an operator takes {call_ns / 1e3:.1f} µs on average, {times}")
    balance = f"{layer.intensity:.3g} flops per byte (balance {layer.balance:.3g})"
    blamed = "the machine was busy, whether the kernel is slow is open" if is_disturbed else SLOW_KERNEL
    far = f", {times}: {blamed}" if is_far else ""
    if layer.intensity >= layer.balance:
        share = _percent(layer.flops_per_s, layer.peak_flops_per_s)
        rate = f"{layer.flops_per_s / 1e9:.3g} GFLOP/s are {share} of the peak"
        return Bottleneck(COMPUTE, f"{balance}; {rate}{far}", is_far)
    share = _percent(layer.bytes_per_s, layer.peak_bytes_per_s)
    rate = f"{layer.bytes_per_s / 1e9:.3g} GB/s are {share} of the bandwidth"
    return Bottleneck(MEMORY, f"{balance}; {rate}{far}", is_far)


def _percent(part: float, whole: float) -> str:
    share = 100.0 * part / whole
    return f"{share:.0f}%" if share >= 9.95 else f"{share:.2g}%"
