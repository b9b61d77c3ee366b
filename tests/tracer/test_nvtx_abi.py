"""Our declarations of NVTX's binary interface against the real headers, by the compiler."""

from __future__ import annotations

from pathlib import Path

from tests.tracer.abi import ASSERTIONS, compare, same_members, same_numbers
from tests.tracer.programs import nvtx_headers

HEAD = rf"""
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include "tracer/doors/nvtx_abi.h"
{ASSERTIONS}
namespace own = profkit::tracer::nvtx;

SAME(own::Module::core, NVTX_CB_MODULE_CORE);
SAME(own::Module::core2, NVTX_CB_MODULE_CORE2);
SAME_SIZE(own::Module, NvtxCallbackModule);
SAME_SIZE(own::ExportedCallbacks, NvtxExportTableCallbacks);
SAME_SIZE(own::EventAttributes, nvtxEventAttributes_t);
SAME_SIZE(own::ExtendedPayload, nvtxPayloadData_t);
"""
NUMBERS = {
    "CBID_CORE_": """
        MarkEx MarkA MarkW RangeStartEx RangeStartA RangeStartW RangeEnd RangePushEx RangePushA RangePushW RangePop
        NameCategoryA NameCategoryW NameOsThreadA NameOsThreadW
    """,
    "CBID_CORE2_": """
        DomainMarkEx DomainRangeStartEx DomainRangeEnd DomainRangePushEx DomainRangePop DomainResourceCreate
        DomainResourceDestroy DomainNameCategoryA DomainNameCategoryW DomainRegisterStringA DomainRegisterStringW
        DomainCreateA DomainCreateW DomainDestroy Initialize
    """,
    "": """
        ExportCallbacks=ETID_CALLBACKS ColourArgb=COLOR_ARGB MessageNone=MESSAGE_UNKNOWN
        MessageAscii=MESSAGE_TYPE_ASCII MessageWide=MESSAGE_TYPE_UNICODE MessageRegistered=MESSAGE_TYPE_REGISTERED
        PayloadNone=PAYLOAD_UNKNOWN NoTracking=NO_PUSH_POP_TRACKING
    """,
    "PAYLOAD_TYPE_": """
        PayloadUint64=UNSIGNED_INT64 PayloadInt64=INT64 PayloadDouble=DOUBLE PayloadUint32=UNSIGNED_INT32
        PayloadInt32=INT32 PayloadFloat=FLOAT PayloadExtended=EXT
    """,
}
MEMBERS = [
    (
        "own::EventAttributes",
        "nvtxEventAttributes_t",
        """
        version bytes=size category colour_type=colorType colour=color payload_type=payloadType
        extended_count=reserved0 payload message_type=messageType message
        """,
    ),
    (
        "own::ExportedCallbacks",
        "NvtxExportTableCallbacks",
        "struct_bytes=struct_size module_table=GetModuleFunctionTable",
    ),
    ("own::ExtendedPayload", "nvtxPayloadData_t", "schema=schemaId bytes=size data=payload"),
]


def test_our_nvtx_layouts_and_numbers_are_those_of_the_real_headers(tmp_path: Path) -> None:
    numbers = "".join(same_numbers("own::k", f"NVTX_{prefix}", words) for prefix, words in NUMBERS.items())
    members = "".join(same_members(*row) for row in MEMBERS)

    compare(tmp_path, nvtx_headers(), HEAD + numbers + members)
