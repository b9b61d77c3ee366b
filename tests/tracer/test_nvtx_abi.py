"""Our declarations of NVTX's binary interface against the real headers, by the compiler."""

from __future__ import annotations

from pathlib import Path

from tests.tracer.door_programs import compile_c, nvtx_headers

COMPARISON = r"""
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include "tracer/doors/nvtx_abi.h"
namespace own = profkit::tracer::nvtx;

#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #ours)
#define SAME_MEMBER(Ours, ours, Theirs, theirs)                                         \
  SAME(offsetof(Ours, ours), offsetof(Theirs, theirs));                                 \
  SAME(sizeof(static_cast<Ours*>(nullptr)->ours), sizeof(static_cast<Theirs*>(nullptr)->theirs))
#define SAME_EVENT_MEMBER(ours, theirs) SAME_MEMBER(own::EventAttributes, ours, nvtxEventAttributes_t, theirs)
#define SAME_CORE(name) SAME(own::k##name, NVTX_CBID_CORE_##name)
#define SAME_CORE2(name) SAME(own::k##name, NVTX_CBID_CORE2_##name)

SAME(own::kExportCallbacks, NVTX_ETID_CALLBACKS);
SAME(own::Module::core, NVTX_CB_MODULE_CORE);
SAME(own::Module::core2, NVTX_CB_MODULE_CORE2);
SAME(sizeof(own::Module), sizeof(NvtxCallbackModule));
SAME(sizeof(own::ExportedCallbacks), sizeof(NvtxExportTableCallbacks));
SAME_MEMBER(own::ExportedCallbacks, struct_bytes, NvtxExportTableCallbacks, struct_size);
SAME_MEMBER(own::ExportedCallbacks, module_table, NvtxExportTableCallbacks, GetModuleFunctionTable);

SAME_CORE(MarkEx);
SAME_CORE(MarkA);
SAME_CORE(MarkW);
SAME_CORE(RangeStartEx);
SAME_CORE(RangeStartA);
SAME_CORE(RangeStartW);
SAME_CORE(RangeEnd);
SAME_CORE(RangePushEx);
SAME_CORE(RangePushA);
SAME_CORE(RangePushW);
SAME_CORE(RangePop);
SAME_CORE(NameCategoryA);
SAME_CORE(NameCategoryW);
SAME_CORE(NameOsThreadA);
SAME_CORE(NameOsThreadW);
SAME_CORE2(DomainMarkEx);
SAME_CORE2(DomainRangeStartEx);
SAME_CORE2(DomainRangeEnd);
SAME_CORE2(DomainRangePushEx);
SAME_CORE2(DomainRangePop);
SAME_CORE2(DomainResourceCreate);
SAME_CORE2(DomainResourceDestroy);
SAME_CORE2(DomainNameCategoryA);
SAME_CORE2(DomainNameCategoryW);
SAME_CORE2(DomainRegisterStringA);
SAME_CORE2(DomainRegisterStringW);
SAME_CORE2(DomainCreateA);
SAME_CORE2(DomainCreateW);
SAME_CORE2(DomainDestroy);
SAME_CORE2(Initialize);

SAME(sizeof(own::EventAttributes), sizeof(nvtxEventAttributes_t));
SAME_EVENT_MEMBER(version, version);
SAME_EVENT_MEMBER(bytes, size);
SAME_EVENT_MEMBER(category, category);
SAME_EVENT_MEMBER(colour_type, colorType);
SAME_EVENT_MEMBER(colour, color);
SAME_EVENT_MEMBER(payload_type, payloadType);
SAME_EVENT_MEMBER(extended_count, reserved0);
SAME_EVENT_MEMBER(payload, payload);
SAME_EVENT_MEMBER(message_type, messageType);
SAME_EVENT_MEMBER(message, message);
SAME(own::kColourArgb, NVTX_COLOR_ARGB);
SAME(own::kMessageNone, NVTX_MESSAGE_UNKNOWN);
SAME(own::kMessageAscii, NVTX_MESSAGE_TYPE_ASCII);
SAME(own::kMessageWide, NVTX_MESSAGE_TYPE_UNICODE);
SAME(own::kMessageRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(own::kPayloadNone, NVTX_PAYLOAD_UNKNOWN);
SAME(own::kPayloadUint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME(own::kPayloadInt64, NVTX_PAYLOAD_TYPE_INT64);
SAME(own::kPayloadDouble, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME(own::kPayloadUint32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME(own::kPayloadInt32, NVTX_PAYLOAD_TYPE_INT32);
SAME(own::kPayloadFloat, NVTX_PAYLOAD_TYPE_FLOAT);
SAME(own::kPayloadExtended, NVTX_PAYLOAD_TYPE_EXT);
SAME(sizeof(own::ExtendedPayload), sizeof(nvtxPayloadData_t));
SAME_MEMBER(own::ExtendedPayload, schema, nvtxPayloadData_t, schemaId);
SAME_MEMBER(own::ExtendedPayload, bytes, nvtxPayloadData_t, size);
SAME_MEMBER(own::ExtendedPayload, data, nvtxPayloadData_t, payload);
SAME(own::kNoTracking, NVTX_NO_PUSH_POP_TRACKING);
"""


def test_our_nvtx_layouts_and_numbers_are_those_of_the_real_headers(tmp_path: Path) -> None:
    flags = ("-std=c++17", "-c", "-isystem", str(nvtx_headers()))

    compiled = compile_c(tmp_path, COMPARISON, *flags, name="nvtx_abi", suffix=".cpp")

    assert compiled.stat().st_size > 0
