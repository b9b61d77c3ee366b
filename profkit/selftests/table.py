"""A Report as people read it: a table of kernels, a list of checks, and a conclusion."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.rendering.quantities import error_text
from profkit.rendering.tables.table import Item, Line, Table, columns_of
from profkit.selftests.findings import NOT_PROVEN, PROVEN, WRONG, KernelProof, SelftestReport


def kernel_table(report: SelftestReport) -> Table:
    """One line per kernel, over all instruction sets or devices and its forms."""
    lines, idle = [], []
    kernels: dict[str, list[KernelProof]] = {}
    for proof in report.kernels:
        kernels.setdefault(proof.kernel, []).append(proof)
    for key, proofs in kernels.items():
        idle += [proof for proof in proofs if proof.status != PROVEN]
        shown = [proof for proof in proofs if not _offers_nothing(proof)] or proofs
        most = max(shown, key=lambda proof: (proof.key == key, proof.shapes))
        worst = max((proof for proof in shown if proof.error is not None), key=lambda proof: proof.share, default=None)
        status = next((word for word in (WRONG, NOT_PROVEN) if word in [proof.status for proof in shown]), PROVEN)
        texts = (
            _short(key),
            f"{most.shapes:,}",
            f"{most.refused:,}",
            f"{sum(proof.runs for proof in shown):,}",
            error_text(worst.error if worst else None),
            error_text(worst.tolerance if worst else None),
            status,
        )
        lines.append(Line(texts, status))
    names = ("kernel", "shapes", "refused", "runs", "error", "tolerance", "result")
    columns = columns_of(names, ("kernel", "result"), result="")
    notes = (
        "runs: over all sets or devices, thread counts, configurations and forms (nhwc, packed)",
        "error: of the run that came nearest to its tolerance",
    )
    places = ", ".join(dict.fromkeys(proof.place for proof in report.kernels))
    return Table("kernels against float64", [f"on {places}"], columns, lines, _reasons(idle), notes)


def check_lists(report: SelftestReport) -> list[tuple[str, list[Item]]]:
    sections: dict[str, list[Item]] = {}
    for finding in report.findings:
        title = " on ".join(filter(None, (finding.part.partition("/")[0], finding.place)))
        sections.setdefault(title, []).append(Item(f"  {finding.name}", finding.status, finding.detail))
    return list(sections.items())


def conclusion(report: SelftestReport, path: str) -> list[str]:
    """What it comes to, and what to do with the file, where there is one."""
    counts = ", ".join(f"{report.count(status)} {status}" for status in (PROVEN, NOT_PROVEN, WRONG))
    runs = sum(proof.runs for proof in report.kernels)
    said = [f"{len(report.statuses)} checks: {counts}; {runs:,} runs of kernels; {report.seconds:.0f} s"]
    if report.interrupted:
        said.append("interrupted: this is what was found until then")
    if path:
        said.append(f"{path} has all of it, with this machine's fingerprint: please attach it to an issue")
    return said


def _offers_nothing(proof: KernelProof) -> bool:
    """A form, an instruction set or a device for which it has no shape makes a kernel no less proven elsewhere."""
    return proof.status == NOT_PROVEN and proof.refused > 0 and not proof.runs and not proof.left


def _reasons(proofs: Sequence[KernelProof]) -> list[Item]:
    """One line per reason, the wrong first."""
    found: dict[tuple[str, str], list[KernelProof]] = {}
    for proof in sorted(proofs, key=lambda proof: proof.status != WRONG):
        found.setdefault((proof.status, proof.reason), []).append(proof)
    items = []
    for (status, reason), alike in found.items():
        keys, places = (list(dict.fromkeys(words)) for words in zip(*((proof.key, proof.place) for proof in alike)))
        name = _short(keys[0]) if len(keys) == 1 else f"{len(keys)} kernels"
        items.append(Item(name, status, f"on {', '.join(places)}: {reason}"))
    return items


def _short(key: str) -> str:
    """Without what all share."""
    return key.replace("/native/cpu", "").replace("/native", "")
