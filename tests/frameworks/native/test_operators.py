"""The native adapter: registry rows as implementations, spec fields as C parameters."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from profkit import _core
from profkit.errors import KernelError
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions, Implementation
from profkit.frameworks.headers import include_path
from profkit.ops import SPECS, odd_specs
from profkit.ops.conv2d import Conv2d
from profkit.ops.spec import Spec, max_error, tolerance
from tests.kernels.kernel_calls import OPERATORS
from tests.support.processes import succeed

ADAPTER = load_adapter("native")


@pytest.mark.parametrize("op", OPERATORS)
def test_every_registry_row_is_an_implementation(op: str) -> None:
    implementations = ADAPTER.implementations(op)

    assert [row.key for row in implementations if not row.forms] == _core.kernels(op)
    assert {row.options["kernel"] for row in implementations if row.forms} <= set(_core.kernels(op))
    assert {implementation.adapter for implementation in implementations} == {"native"}


def test_an_operator_without_kernels_has_no_implementations() -> None:
    assert ADAPTER.implementations("fold") == []


@pytest.mark.parametrize("op", OPERATORS)
def test_params_of_every_odd_shape_are_complete_and_consistent(op: str) -> None:
    key = f"{op}/native/cpu/reference"

    reasons = {ADAPTER.supports(Implementation(key, "native"), spec) for spec in odd_specs(op)}

    assert reasons == {"", "profkit's CPU kernels are written for float32 and float64 only"}


def test_params_hold_same_padding_as_numbers_with_the_odd_one_after() -> None:
    spec = Conv2d(height=10, width=7, kernel_size=(4, 3), stride=(1, 2), padding="same")

    params = spec.params()

    assert [params[name] for name in ("pad_top", "pad_bottom", "pad_left", "pad_right")] == [1, 2, 1, 1]
    assert (params["out_h"], params["out_w"]) == (10, 4)


@pytest.mark.parametrize("op", OPERATORS)
def test_specs_fill_the_fields_of_the_c_struct_in_their_order(op: str) -> None:
    kinds = {float: "double", int: "int64_t"}

    filled = [(name, kinds[type(number)]) for name, number in SPECS[op]().params().items()]

    assert filled == _core.params_fields(op)


def test_an_operator_that_c_does_not_know_is_refused_by_name() -> None:
    with pytest.raises(KernelError, match=r"unknown operator fold; known: activation, add, attention, .*softmax"):
        _core.params_fields("fold")


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("output", ["fresh", "reused"])
def test_a_prepared_call_gives_the_right_result_each_time(op: str, output: str) -> None:
    for implementation in ADAPTER.implementations(op):
        # Some kernels make gradients only.
        specs = [odd_specs(op)[3], *odd_specs(op)]
        spec = next((each for each in specs if not ADAPTER.supports(implementation, each)), specs[0])
        inputs = spec.make_inputs()
        reason = ADAPTER.supports(implementation, spec)
        if reason:
            is_expected = any(words in reason for words in ("NHWC only", "winograd", "no portable code"))
            assert implementation.forms or is_expected, reason
            continue
        prepared = ADAPTER.prepare(implementation, spec, inputs, Conditions(threads=2, output=output))
        results = [prepared.call() for _ in range(2)]

        assert prepared.output == output
        assert np.shares_memory(results[0], results[1]) == (output == "reused")
        errors = [max_error(prepared.to_numpy(result), spec.reference(inputs)) for result in results]
        assert max(errors) <= tolerance(spec.numpy_dtype, spec.reduction_length())


@pytest.mark.parametrize("output", ["fresh", "reused"])
def test_the_checked_output_is_full_of_nan_before_the_call(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that writes only a part, or adds to what is there, must not pass on zeros."""

    class LazyCore:
        def __getattr__(self, name: str) -> object:
            return getattr(_core, name)

        def bind(self, *arguments: object) -> object:
            return lambda *outputs: None

    monkeypatch.setattr("profkit.frameworks.native.operators._core", LazyCore)
    spec = odd_specs("conv2d")[0]
    implementation = ADAPTER.implementations("conv2d")[0]

    prepared = ADAPTER.prepare(implementation, spec, spec.make_inputs(), Conditions(output=output))

    assert np.isnan(prepared.to_numpy(prepared.call())).all()


def test_outputs_are_fresh_unless_asked_otherwise() -> None:
    spec = odd_specs("softmax")[0]
    implementation = ADAPTER.implementations("softmax")[0]

    prepared = ADAPTER.prepare(implementation, spec, spec.make_inputs(), Conditions())

    assert prepared.output == "fresh"


def test_the_workspace_is_held_and_counted() -> None:
    spec = Conv2d(batch=2)
    implementation = ADAPTER.implementations("conv2d")[0]

    prepared = ADAPTER.prepare(implementation, spec, spec.make_inputs(), Conditions(threads=2))

    assert prepared.held_bytes == _core.workspace_bytes(implementation.key, spec.params(), 2)


def test_start_tells_version_compiler_and_simd() -> None:
    facts = ADAPTER.start(ADAPTER.implementations("softmax")[0], Conditions())

    assert facts["profkit"] == "0.1.0"
    assert facts["simd"] == _core.cpu_features()["simd_active"]
    assert all(isinstance(value, str) and value for value in facts.values())


def facts_of_struct(spec: Spec) -> Iterator[str]:
    """What must hold in C: sizes and places of the fields, and the numbers of words."""
    struct, params = f"profkit_{spec.op}_params", spec.params()
    yield f"sizeof({struct}) == {8 * len(params)}"
    for place, name in enumerate(params):
        yield f"offsetof({struct}, {name}) == {8 * place}"
    for item in dataclasses.fields(spec):
        kind = item.metadata["kind"]
        is_word = isinstance(getattr(spec, item.name), str) and item.name in params
        for word in kind.metavar.split("|") if is_word else ():
            enumerator = f"PROFKIT_{word.upper().replace('-', '_')}"
            yield f"{enumerator} == {kind.numbers(item.name, word)[item.name]}"


def test_the_installed_header_is_plain_c_that_candidates_can_include(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    source = tmp_path / "candidate.c"
    source.write_text(
        "#include <stddef.h>\n#include <profkit/params.h>\n#include <profkit/params.h>\n"
        "int f(const profkit_lrn_params* p, const void* const* in, void* out, int threads) {\n"
        "  (void)in; (void)out; return p->alpha > 0 ? threads : PROFKIT_NHWC;\n}\n"
        + "".join(f'_Static_assert({fact}, "");\n' for op in OPERATORS for fact in facts_of_struct(SPECS[op]()))
    )

    succeed([compiler, "-std=c11", "-Wall", "-Werror", "-fsyntax-only", f"-I{include_path()}", str(source)])


@pytest.mark.parametrize("direction", ["forward", "input-gradient", "weight-gradient"])
def test_forms_of_a_kernel_give_what_the_spec_asks_for(direction: str) -> None:
    # As many filters as images, channels as columns: a weight taken for an image would have the right shape.
    spec = Conv2d(batch=3, in_channels=5, height=5, width=5, out_channels=3, kernel_size=5, direction=direction)
    inputs = spec.make_inputs()
    forms = [row for row in ADAPTER.implementations("conv2d") if row.forms and not ADAPTER.supports(row, spec)]

    for row in forms:
        prepared = ADAPTER.prepare(row, spec, inputs, Conditions(threads=2))
        error = max_error(prepared.to_numpy(prepared.call()), spec.reference(inputs))

        assert error <= tolerance(spec.numpy_dtype, spec.reduction_length()), row.key
        assert prepared.layout == ("NHWC" if "nhwc" in row.forms else "")
        assert ("packed ahead" in prepared.note) == ("packed" in row.forms)
    assert {row.forms for row in forms} == (
        {("nhwc",), ("packed",), ("nhwc", "packed")} if direction == "forward" else {("nhwc",)}
    )


def test_forms_say_why_they_do_not_take_part() -> None:
    rows = {row.key: row for row in ADAPTER.implementations("conv2d")}
    key = "conv2d/native/cpu/implicit_gemm"

    assert "NHWC already" in ADAPTER.supports(rows[f"{key}/nhwc"], Conv2d(layout="NHWC"))
    assert "packs nothing ahead" in ADAPTER.supports(rows[f"{key}/packed"], Conv2d(direction="weight-gradient"))
