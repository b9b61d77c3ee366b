"""How many threads a native call is worth: a spec and the threads it may have in, a thread count out.

Starting a thread and waiting for it costs about a microsecond, and tens of them when it sleeps (docs/kernels.md);
little work is done by fewer threads than there are. The same spec always gets the same count.
"""

from __future__ import annotations

from profkit.ops.spec import Spec

PRODUCTS_PER_NS, BYTES_PER_NS = 64.0, 16.0
"""What a fast core multiplies and moves; a slower one only makes the guess more careful."""
LEAST_NS_PER_THREAD = 3000.0


def worthwhile_threads(spec: Spec, threads: int) -> int:
    """A divisor of `threads`: kernels split their work into grids, and a prime number of threads has a poor one."""
    guess_ns = spec.flops() / 2 / PRODUCTS_PER_NS + spec.min_bytes() / BYTES_PER_NS
    most = max(1, min(threads, int(guess_ns / LEAST_NS_PER_THREAD)))
    return next(count for count in range(most, 0, -1) if threads % count == 0)
