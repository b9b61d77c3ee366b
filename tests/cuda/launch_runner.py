"""Runs in a process on the double of the CUDA runtime: every kernel of an operator, in every configuration, through the
binding. Prints one line of JSON: [key, configuration, spec, trouble, kernels that were started] of every run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from profkit import _cuda
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions, Implementation
from profkit.frameworks.native.tuned import tuning_text
from profkit.ops import SPECS, odd_specs
from profkit.ops.dtypes import TF32
from profkit.ops.spec import max_error, tolerance


def main(op: str) -> None:
    adapter = load_adapter("native_cuda")
    runs = []
    Path(os.environ["PROFKIT_CUDA_DOUBLE_LOG"]).touch()
    log = open(os.environ["PROFKIT_CUDA_DOUBLE_LOG"], encoding="utf-8")  # noqa: SIM115 (as long as the process)
    for spec in [*odd_specs(op), *SPECS[op].round_shapes()]:
        inputs = spec.make_inputs()
        reference = spec.reference(inputs)
        for row in adapter.implementations(op):
            if adapter.supports(row, spec):
                continue
            for name in _cuda.configurations(row.key, spec.params()) or [""]:
                chosen = {"tuning": tuning_text({"configuration": name})} if name else {}
                trial = Implementation(row.key, row.adapter, options={**row.options, **chosen})
                prepared = adapter.prepare(trial, spec, inputs, Conditions())
                log.seek(0, os.SEEK_END)
                error = max_error(prepared.to_numpy(prepared.call()), reference)
                kernels = sorted({json.loads(line)["kernel"] for line in log.read().splitlines()})
                limit = tolerance(spec.numpy_dtype, spec.reduction_length(), TF32 if row.rounding else "")
                trouble = "" if error <= limit else f"error {error:.3g} > {limit:.3g}"
                runs.append([row.key, name, str(spec), trouble, kernels])
    print(json.dumps(runs))


if __name__ == "__main__":
    main(sys.argv[1])
