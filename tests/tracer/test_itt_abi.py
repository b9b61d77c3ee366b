"""Our declarations of ITT's binary interface against the real headers, by the compiler."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.tracer.abi import ASSERTIONS, compare, same_members

# What programs include: torch ships it.
PUBLIC = rf"""
#include <ittnotify.h>
#include "tracer/doors/itt_abi.h"
{ASSERTIONS}
namespace own = profkit::tracer::itt;

SAME_SIZE(own::Domain, __itt_domain);
SAME_SIZE(own::StringHandle, __itt_string_handle);
SAME_SIZE(own::Id, __itt_id);
SAME_SIZE(own::Event, __itt_event);
SAME_SIZE(int, __itt_scope);
"""
PUBLIC += same_members("own::Domain", "__itt_domain", "flags name=nameA wide_name=nameW id=extra1 next")
PUBLIC += same_members("own::StringHandle", "__itt_string_handle", "text=strA wide_text=strW id=extra1 next")

# What is compiled into programs, and calls a collector: in the sources of ITT, which oneDNN's copies carry.
INTERNAL = r"""
#include <ittnotify_config.h>
constexpr unsigned char their_magic[8] = ITT_MAGIC;
constexpr bool is_same_magic(int i) { return i == 8 || (own::kMagic[i] == their_magic[i] && is_same_magic(i + 1)); }
static_assert(is_same_magic(0), "magic");
SAME(own::kVersion, ITT_MAJOR);
SAME_SIZE(own::ApiEntry, __itt_api_info);
"""
INTERNAL += same_members(
    "own::ApiEntry", "__itt_api_info", "name function=func_ptr initial=init_func none=null_func group"
)
INTERNAL += same_members(
    "own::Global",
    "__itt_global",
    "magic version_major mutex library=lib library_path=dll_path_ptr api=api_list_ptr next",
)


@pytest.mark.parametrize(
    ("text", "package", "folder"),
    [
        pytest.param(PUBLIC, "torch", "include", id="handles in the public header"),
        pytest.param(
            PUBLIC + INTERNAL,
            "tensorflow",
            "include/external/onednn/src/common/ittnotify",
            id="the global in the sources compiled into programs",
        ),
    ],
)
def test_our_itt_layouts_are_the_real_ones(text: str, package: str, folder: str, tmp_path: Path) -> None:
    spec = importlib.util.find_spec(package)
    headers = Path(spec.origin).parent / folder if spec and spec.origin else None
    if headers is None or not (headers / "ittnotify.h").exists():
        pytest.skip(f"no ITT headers: {package} with {folder}/ittnotify.h is not installed")

    compare(tmp_path, headers, text)
