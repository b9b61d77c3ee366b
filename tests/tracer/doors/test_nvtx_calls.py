"""The NVTX door, call by call: what a C program says arrives, and the answers are those of the standard."""

from __future__ import annotations

from profkit.capture.schema import PayloadType, RangeKind
from tests.tracer.doors.nvtx_programs import nvtx_rows
from tests.tracer.programs import Row, Traced


def test_ranges_nest_and_marks_lie_inside_in_narrow_and_wide_text(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxRangePushA("outer");
      nvtxRangePushW(L"\\u00E4u\\u00DFere \\u2192 \\U0001F600");
      nvtxMarkA("mark");
      nvtxMarkW(L"wide mark");
      nvtxRangePop();
      nvtxRangePop();
      nvtxRangeId_t a = nvtxRangeStartA("started");
      nvtxRangeId_t w = nvtxRangeStartW(L"wide started");
      nvtxRangeEnd(a);
      nvtxRangeEnd(w);
    """)

    inner = "äußere → 😀"
    assert nvtx_rows(run) == [
        Row(RangeKind.RANGE, "outer"),
        Row(RangeKind.RANGE, inner, "outer"),
        Row(RangeKind.MARK, "mark", inner),
        Row(RangeKind.MARK, "wide mark", inner),
        Row(RangeKind.SPAN, "started"),
        Row(RangeKind.SPAN, "wide started"),
    ]
    assert not run.capture.ranges.is_open.any()


def test_wide_characters_that_are_none_become_replacement_characters(nvtx: Traced) -> None:
    run = nvtx("""
      const wchar_t broken[] = {L'a', (wchar_t)0xD800, (wchar_t)0x110000, L'b', 0};
      nvtxMarkW(broken);
    """)

    assert nvtx_rows(run) == [Row(RangeKind.MARK, "a\ufffd\ufffdb")]


def test_attributes_arrive_colour_category_and_payload_of_every_type(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxNameCategoryA(7, "copies");
      nvtxNameCategoryW(8, L"wide category");
      nvtxEventAttributes_t e = event("event");
      e.colorType = NVTX_COLOR_ARGB;
      e.color = 0xFF102030;
      e.category = 7;
      e.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64; e.payload.ullValue = 0xFFFFFFFFFFFFFFFFull; nvtxMarkEx(&e);
      e.category = 8;
      e.payloadType = NVTX_PAYLOAD_TYPE_INT64; e.payload.llValue = -5; nvtxMarkEx(&e);
      e.category = 9;
      e.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE; e.payload.dValue = 0.125; nvtxMarkEx(&e);
      e.category = 0;
      e.colorType = NVTX_COLOR_UNKNOWN;
      memset(&e.payload, 0xFF, sizeof(e.payload));
      e.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32; e.payload.uiValue = 4000000000u; nvtxMarkEx(&e);
      e.payloadType = NVTX_PAYLOAD_TYPE_INT32; e.payload.iValue = -6; nvtxMarkEx(&e);
      e.payloadType = NVTX_PAYLOAD_TYPE_FLOAT; e.payload.fValue = 0.5f; nvtxMarkEx(&e);
      nvtxPayloadData_t parts[2] = {{1, 24, "x"}, {2, 100, "y"}};
      e.payloadType = NVTX_PAYLOAD_TYPE_EXT; e.payload.ullValue = (uint64_t)parts; e.reserved0 = 2;
      nvtxMarkEx(&e);
    """)

    mark, colour = RangeKind.MARK, 0xFF102030
    assert nvtx_rows(run) == [
        Row(mark, "event", None, "copies", colour, PayloadType.UINT64, 2**64 - 1),
        Row(mark, "event", None, "wide category", colour, PayloadType.INT64, -5),
        Row(mark, "event", None, "9", colour, PayloadType.FLOAT64, 0.125),
        Row(mark, "event", None, None, 0, PayloadType.UINT32, 4000000000),
        Row(mark, "event", None, None, 0, PayloadType.INT32, -6),
        Row(mark, "event", None, None, 0, PayloadType.FLOAT32, 0.5),
        Row(mark, "event", None, None, 0, PayloadType.OPAQUE, None),
    ]
    # The upper half of the union is not part of a number of 32 bits; the opaque one tells its size.
    assert run.capture.ranges.payload[3:].tolist() == [4000000000, 2**32 - 6, 0x3F000000, 124]


def test_ranges_and_spans_carry_payloads_too(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxEventAttributes_t e = event("event");
      e.payloadType = NVTX_PAYLOAD_TYPE_INT64;
      e.payload.llValue = 1; nvtxRangePushEx(&e);
      e.payload.llValue = 2; nvtxRangePushEx(&e);
      e.payload.llValue = 3; nvtxRangeId_t id = nvtxRangeStartEx(&e);
      nvtxRangeEnd(id);
      nvtxRangePop();
      nvtxRangePop();
    """)

    assert nvtx_rows(run) == [
        Row(RangeKind.RANGE, "event", None, payload_type=PayloadType.INT64, payload=1),
        Row(RangeKind.RANGE, "event", "event", payload_type=PayloadType.INT64, payload=2),
        Row(RangeKind.SPAN, "event", "event", payload_type=PayloadType.INT64, payload=3),
    ]


def test_a_category_that_gets_its_name_late_has_it_from_then_on(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxEventAttributes_t e = event("event");
      e.category = 3;
      nvtxMarkEx(&e);
      nvtxNameCategoryA(3, "first name");
      nvtxMarkEx(&e);
      nvtxNameCategoryA(3, "second name");
      nvtxMarkEx(&e);
    """)

    assert [row.category for row in nvtx_rows(run)] == ["3", "first name", "second name"]


def test_domains_registered_strings_and_categories_of_a_domain(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxInitialize(NULL);
      nvtxDomainHandle_t first = nvtxDomainCreateA("first");
      nvtxDomainHandle_t wide = nvtxDomainCreateW(L"wide \\u2192");
      nvtxDomainNameCategoryA(first, 1, "of first");
      nvtxDomainNameCategoryW(wide, 1, L"of wide");
      nvtxEventAttributes_t e = event(NULL);
      e.category = 1;
      e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
      e.message.registered = nvtxDomainRegisterStringA(first, "registered");
      nvtxDomainRangePushEx(first, &e);
      nvtxDomainMarkEx(first, &e);
      e.message.registered = nvtxDomainRegisterStringW(wide, L"wide registered");
      nvtxRangeId_t id = nvtxDomainRangeStartEx(wide, &e);
      nvtxDomainRangeEnd(wide, id);
      nvtxDomainRangePop(first);
      e.category = 0;
      nvtxDomainMarkEx(NULL, &e);
      nvtxDomainDestroy(first);
      nvtxDomainDestroy(wide);
    """)

    outer = "first:registered"
    assert nvtx_rows(run) == [
        Row(RangeKind.RANGE, outer, None, "of first"),
        Row(RangeKind.MARK, outer, outer, "of first"),
        Row(RangeKind.SPAN, "wide →:wide registered", outer, "of wide"),
        Row(RangeKind.MARK, "wide registered"),
    ]


def test_a_domain_created_twice_is_one_domain_and_unknown_handles_do_no_harm(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxDomainHandle_t a = nvtxDomainCreateA("same");
      nvtxDomainHandle_t b = nvtxDomainCreateA("same");
      nvtxEventAttributes_t e = event("range");
      printf("%d ", a != NULL);
      printf("%d ", nvtxDomainRangePushEx(a, &e));
      printf("%d", nvtxDomainRangePop(b));
      nvtxResourceAttributes_t resource = {0};
      nvtxDomainResourceDestroy(nvtxDomainResourceCreate(a, &resource));
      nvtxDomainMarkEx((nvtxDomainHandle_t)0x1234, &e);
      e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
      e.message.registered = (nvtxStringHandle_t)0x5678;
      nvtxDomainMarkEx(a, &e);
      nvtxMarkA(NULL);
      nvtxMarkEx(NULL);
    """)

    assert run.output == "1 0 0"
    assert [row.title for row in nvtx_rows(run)] == [
        "same:range",
        "range",
        "same:(unnamed)",
        "(unnamed)",
        "(unnamed)",
    ]


def test_push_and_pop_answer_the_level_of_their_own_domain(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxDomainHandle_t d = nvtxDomainCreateA("d");
      nvtxEventAttributes_t e = event("x");
      printf("%d ", nvtxRangePushA("a"));
      printf("%d ", nvtxDomainRangePushEx(d, &e));
      printf("%d ", nvtxRangePushA("b"));
      printf("%d ", nvtxDomainRangePushEx(d, &e));
      printf("%d ", nvtxRangePop());
      printf("%d ", nvtxDomainRangePop(d));
      printf("%d ", nvtxDomainRangePop(d));
      printf("%d ", nvtxRangePop());
      printf("%d ", nvtxRangePop() < 0);
      printf("%d ", nvtxDomainRangePop(d) < 0);
      printf("%d", nvtxRangePushA("c"));
      nvtxRangePop();
    """)

    assert run.output == "0 0 1 1 1 1 0 0 1 1 0"
    assert run.capture.threads.unbalanced_pops.sum() == 2
    # b ended while d:x, opened after it, was still open: it is not part of the tree.
    kinds = {row.title: row.kind for row in nvtx_rows(run) if row.title in ("a", "b", "c")}
    assert kinds == {"a": RangeKind.RANGE, "b": RangeKind.SPAN, "c": RangeKind.RANGE}


def test_levels_stay_right_with_more_domains_than_the_fast_path_keeps(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxEventAttributes_t e = event("x");
      char name[16];
      nvtxDomainHandle_t domains[100];
      for (int i = 0; i < 100; ++i) {
        snprintf(name, sizeof(name), "d%d", i);
        domains[i] = nvtxDomainCreateA(name);
      }
      int wrong = 0;
      for (int i = 0; i < 100; ++i) {
        wrong += nvtxDomainRangePushEx(domains[i], &e) != 0;
        wrong += nvtxDomainRangePushEx(domains[i], &e) != 1;
        wrong += nvtxDomainRangePop(domains[i]) != 1;
        wrong += nvtxDomainRangePop(domains[i]) != 0;
      }
      int odd = 0;
      for (int i = 0; i < 100; ++i) {
        int level = nvtxDomainRangePushEx(domains[i], &e);
        odd += level != 0 && level != -2;
      }
      for (int i = 99; i >= 0; --i) {
        int level = nvtxDomainRangePop(domains[i]);
        odd += level != 0 && level != -2;
      }
      printf("%d %d %d", wrong, odd, nvtxDomainRangePop(domains[0]) < 0);
    """)

    assert run.output == "0 0 1"
    assert len(nvtx_rows(run)) == 300
    assert not run.capture.ranges.is_open.any()


def test_ranges_too_deep_are_counted_and_their_pops_close_nothing_else(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxRangePushA("outermost");
      for (int i = 0; i < 1500; ++i) nvtxRangePushA("deep");
      for (int i = 0; i < 1500; ++i) nvtxRangePop();
      nvtxMarkA("after");
      printf("%d", nvtxRangePop());
    """)

    assert run.output == "0"
    assert nvtx_rows(run)[-1] == Row(RangeKind.MARK, "after", "outermost")
    assert len(nvtx_rows(run)) + run.capture.losses.too_deep == 1502
    assert run.capture.losses.too_deep > 0
    assert run.capture.threads.unbalanced_pops.sum() == 0


def test_a_buffer_used_again_for_another_name_is_read_again(nvtx: Traced) -> None:
    run = nvtx("""
      char name[300];
      for (int i = 0; i < 300; ++i) {
        snprintf(name, sizeof(name), "step %d", i % 3);
        nvtxMarkA(name);
      }
      memset(name, 'l', sizeof(name));
      name[299] = 0;
      nvtxMarkA(name);
      name[298] = 'x';
      nvtxMarkA(name);
    """)

    titles = [row.title for row in nvtx_rows(run)]
    assert titles == [f"step {i % 3}" for i in range(300)] + ["l" * 299, "l" * 298 + "x"]


def test_domains_say_that_they_are_enabled(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxDomainHandle_t domain = nvtxDomainCreateA("d");
      printf("%d %d", nvtxDomainIsEnabled(domain), nvtxDomainIsEnabled(NULL));
    """)

    assert run.output == "1 1"
