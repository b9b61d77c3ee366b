"""Our declarations of ITT's binary interface against the real headers, by the compiler."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.tracer.door_programs import compile_c

# What programs include: torch ships it.
PUBLIC = r"""
#include <cstddef>
#include <ittnotify.h>
#include "tracer/doors/itt_abi.h"
namespace own = profkit::tracer::itt;

#define SAME(ours, theirs) static_assert((ours) == (theirs), #ours)
#define SAME_MEMBER(Ours, ours, Theirs, theirs)                                         \
  SAME(offsetof(Ours, ours), offsetof(Theirs, theirs));                                 \
  SAME(sizeof(static_cast<Ours*>(nullptr)->ours), sizeof(static_cast<Theirs*>(nullptr)->theirs))

SAME(sizeof(own::Domain), sizeof(__itt_domain));
SAME_MEMBER(own::Domain, flags, __itt_domain, flags);
SAME_MEMBER(own::Domain, name, __itt_domain, nameA);
SAME_MEMBER(own::Domain, wide_name, __itt_domain, nameW);
SAME_MEMBER(own::Domain, id, __itt_domain, extra1);
SAME_MEMBER(own::Domain, next, __itt_domain, next);
SAME(sizeof(own::StringHandle), sizeof(__itt_string_handle));
SAME_MEMBER(own::StringHandle, text, __itt_string_handle, strA);
SAME_MEMBER(own::StringHandle, wide_text, __itt_string_handle, strW);
SAME_MEMBER(own::StringHandle, id, __itt_string_handle, extra1);
SAME_MEMBER(own::StringHandle, next, __itt_string_handle, next);
SAME(sizeof(own::Id), sizeof(__itt_id));
SAME(sizeof(own::Event), sizeof(__itt_event));
SAME(sizeof(int), sizeof(__itt_scope));
"""

# What is compiled into programs, and calls a collector: in the sources of ITT, which oneDNN's copies carry.
INTERNAL = (
    PUBLIC
    + r"""
#include <ittnotify_config.h>
#define SAME_GLOBAL(ours, theirs) SAME_MEMBER(own::Global, ours, __itt_global, theirs)

constexpr unsigned char their_magic[8] = ITT_MAGIC;
constexpr bool is_same_magic(int i) { return i == 8 || (own::kMagic[i] == their_magic[i] && is_same_magic(i + 1)); }
static_assert(is_same_magic(0), "magic");
SAME(own::kVersion, ITT_MAJOR);
SAME(sizeof(own::ApiEntry), sizeof(__itt_api_info));
SAME_MEMBER(own::ApiEntry, name, __itt_api_info, name);
SAME_MEMBER(own::ApiEntry, function, __itt_api_info, func_ptr);
SAME_MEMBER(own::ApiEntry, initial, __itt_api_info, init_func);
SAME_MEMBER(own::ApiEntry, none, __itt_api_info, null_func);
SAME_MEMBER(own::ApiEntry, group, __itt_api_info, group);
SAME_GLOBAL(magic, magic);
SAME_GLOBAL(version_major, version_major);
SAME_GLOBAL(mutex, mutex);
SAME_GLOBAL(library, lib);
SAME_GLOBAL(library_path, dll_path_ptr);
SAME_GLOBAL(api, api_list_ptr);
SAME_GLOBAL(next, next);
"""
)


def folder_of(package: str, *parts: str) -> Path:
    """A folder of an installed package; the test is skipped where it is missing."""
    spec = importlib.util.find_spec(package)
    folder = Path(spec.origin).parent.joinpath(*parts) if spec and spec.origin else None
    if folder is None or not (folder / "ittnotify.h").exists():
        pytest.skip(f"no ITT headers: {package} with {'/'.join(parts)}/ittnotify.h is not installed")
    return folder


def test_our_itt_handles_are_laid_out_as_in_the_public_header(tmp_path: Path) -> None:
    flags = ("-std=c++17", "-c", "-isystem", str(folder_of("torch", "include")))

    compiled = compile_c(tmp_path, PUBLIC, *flags, name="itt_abi", suffix=".cpp")

    assert compiled.stat().st_size > 0


def test_our_itt_global_is_laid_out_as_in_the_sources_compiled_into_programs(tmp_path: Path) -> None:
    folder = folder_of("tensorflow", "include", "external", "onednn", "src", "common", "ittnotify")
    flags = ("-std=c++17", "-c", "-isystem", str(folder))

    compiled = compile_c(tmp_path, INTERNAL, *flags, name="itt_internal_abi", suffix=".cpp")

    assert compiled.stat().st_size > 0
