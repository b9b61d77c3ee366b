"""NumPy's allocations are seen one by one, exactly, and arrays that outlive the watch are freed as usual."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from profkit.frameworks.events.numpy_allocations import numpy_allocations


def test_every_array_and_temporary_is_seen_with_its_bytes() -> None:
    x = np.ones(1000, np.float32)

    with numpy_allocations() as events:
        y = (x + x) * x
        del y
        z = np.zeros((10, 20))

    assert [size for _, _, size in events] == [4000, 4000, -4000, -4000, 1600]
    times = [time_ns for time_ns, _, _ in events]
    assert times == sorted(times)
    assert events[-1][1] == z.ctypes.data


def test_arrays_from_before_are_freed_without_a_note_and_later_ones_are_not_seen() -> None:
    old = np.ones(1000)

    with numpy_allocations() as events:
        del old
        inside = np.empty(500)
    later = np.empty(700)
    del inside

    assert [size for _, _, size in events] == [4000]
    assert later.size == 700


def test_arrays_that_grow_are_given_back_and_taken_again() -> None:
    with numpy_allocations() as events:
        grown = np.fromiter((number for number in range(1000)), float)

    taken = {}
    for _, address, size in events:
        if size > 0:
            taken[address] = size
        else:
            assert taken.pop(address) == -size
    assert list(taken.values()) == [grown.nbytes]


def test_watches_can_lie_inside_each_other() -> None:
    with numpy_allocations() as outer:
        with numpy_allocations() as inner:
            first = np.empty(100)
        second = np.empty(200)

    assert [size for _, _, size in inner] == [first.nbytes]
    assert [size for _, _, size in outer] == [first.nbytes, second.nbytes]


def test_a_program_that_ends_while_watched_arrays_live_ends_in_order() -> None:
    """Modules are torn down one after another: arrays in these are freed when the watch's own functions are gone."""
    code = (
        "import time, numpy as np; from profkit.frameworks.events.numpy_allocations import numpy_allocations\n"
        "with numpy_allocations():\n"
        "    time.kept, np.kept = ([np.zeros(10 * n) for n in range(100)] for _ in range(2))\n"
        "print('end')"
    )

    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
