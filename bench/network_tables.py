"""The tables of the CIFAR-10 network in every framework that is there, as pages: docs/networks/<framework>.md.

Run: python bench/network_tables.py [framework ...]. Each page has the commands and what they printed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

FRAMEWORKS = ("tensorflow", "torch", "keras", "jax", "onnxruntime", "native", "numpy", "theano", "caffe")
INFERENCE_ONLY = ("onnxruntime", "caffe")
PAGES = Path(__file__).parents[1] / "docs" / "networks"
NETWORK = ("network", "cifar10", "--crop", "24", "--batch", "128")


def main(words: Sequence[str]) -> int:
    """Write a page per framework; exit 1 when one could not be run."""
    PAGES.mkdir(exist_ok=True)
    failed = [framework for framework in words or FRAMEWORKS if not write_page(framework)]
    for framework in failed:
        print(f"{framework}: no page; see the messages above", file=sys.stderr)
    return int(bool(failed))


def write_page(framework: str) -> bool:
    """Inference and training in one framework, by kind, by layer and in tfprof's layout."""
    parts = [f"# cifar10 in {framework}\n\nWritten by `python bench/network_tables.py {framework}`."]
    for flags in ((), ("--training",)):
        if flags and framework in INFERENCE_ONLY:
            continue
        with tempfile.TemporaryDirectory() as folder:
            capture = str(Path(folder) / "run.profkit")
            command = (*NETWORK, "--framework", framework, *flags)
            printed = profkit(*command, "--quiet", "--output", capture)
            if printed is None:
                return False
            parts.append(f"## {'Training' if flags else 'Inference'}\n")
            parts.append(block((*command, "--output", "run.profkit"), printed.replace(capture, "run.profkit")))
            for view in (("--by", "layer"), ("--format", "tfprof", "--top", "20")):
                words = ("report", capture, *view)
                printed = profkit(*words)
                if printed is None:
                    return False
                parts.append(block(("report", "run.profkit", *view), printed.replace(capture, "run.profkit")))
    (PAGES / f"{framework}.md").write_text("\n".join(parts))
    print(PAGES.name, framework, file=sys.stderr)
    return True


def profkit(*words: str) -> str | None:
    """What a command printed; None, with its words on standard error, when it failed."""
    done = subprocess.run([sys.executable, "-m", "profkit", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"profkit {' '.join(words)}: exit {done.returncode}\n{done.stderr}{done.stdout}", file=sys.stderr)
        return None
    return done.stdout


def block(words: Sequence[str], printed: str) -> str:
    """A command and its output as Markdown."""
    return f"```\n$ profkit {' '.join(words)}\n{printed.rstrip()}\n```\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
