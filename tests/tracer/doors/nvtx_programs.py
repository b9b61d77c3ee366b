"""C programs against the real NVTX headers for the tests of the NVTX door."""

from __future__ import annotations

from pathlib import Path

from profkit.capture.schema import RangeKind, Source
from tests.tracer.programs import Row, Run, compile_c, nvtx_headers, rows, trace

PRELUDE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static nvtxEventAttributes_t event(const char* text) {
  nvtxEventAttributes_t result;
  memset(&result, 0, sizeof(result));
  result.version = NVTX_VERSION;
  result.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  if (text != NULL) {
    result.messageType = NVTX_MESSAGE_TYPE_ASCII;
    result.message.ascii = text;
  }
  return result;
}
"""


def compile_nvtx(folder: Path, body: str, declarations: str = "", name: str = "program", *flags: str) -> Path:
    text = f"{PRELUDE}\n{declarations}\nint main(void) {{\n{body}\nreturn 0;\n}}\n"
    return compile_c(folder, text, "-isystem", str(nvtx_headers()), *flags, name=name)


def trace_nvtx(folder: Path, body: str, declarations: str = "") -> Run:
    """Compile `body` as main against the real NVTX headers and run it with our library as the tool."""
    return trace(folder, [compile_nvtx(folder, body, declarations)])


def nvtx_rows(run: Run) -> list[Row]:
    return rows(run.capture, Source.NVTX)


def ranges(*titles: str) -> list[Row]:
    return [Row(RangeKind.RANGE, title) for title in titles]
