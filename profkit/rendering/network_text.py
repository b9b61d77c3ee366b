"""Reports of networks for the terminal, for files and in TensorFlow's classic layout: captures in, text out."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from profkit.attribution.network_usage import network_usage
from profkit.attribution.usage import Usage
from profkit.capture.network_capture import NetworkCapture
from profkit.rendering.network_content import network_surroundings
from profkit.rendering.table import encodable
from profkit.rendering.terminal import PLAIN_WIDTH
from profkit.rendering.usage_content import View
from profkit.rendering.usage_files import render_report_markdown
from profkit.rendering.usage_text import print_report, render_report
from profkit.rendering.usage_tfprof import render_tfprof
from profkit.rendering.whole_file import write_whole


def render_network(
    capture: NetworkCapture, by: str = "kind", view: View | None = None, width: int = PLAIN_WIDTH
) -> str:
    """The report as plain text."""
    usage = network_usage(capture, by)
    return render_report(network_surroundings(capture, usage), usage.mean_of_steps(), view or View(), width)


def print_network(capture: NetworkCapture, usage: Usage, view: View, stream: TextIO) -> None:
    """The report to a stream."""
    print_report(network_surroundings(capture, usage), usage.mean_of_steps(), view, stream)


def print_network_tfprof(usage: Usage, view: View, stream: TextIO) -> None:
    """TensorFlow's classic op profile, of one step, and nothing else."""
    stream.write(encodable(render_tfprof(usage.mean_of_steps(), view), stream))


def render_network_markdown(capture: NetworkCapture, usage: Usage, view: View) -> str:
    """The report as Markdown."""
    return render_report_markdown(network_surroundings(capture, usage), usage.mean_of_steps(), view)


def write_network_markdown(capture: NetworkCapture, usage: Usage, view: View, path: str | Path) -> None:
    """Write the Markdown file whole or not at all."""
    write_whole(path, render_network_markdown(capture, usage, view))
