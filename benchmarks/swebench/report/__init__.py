"""What a run comes to: a table in the terminal, a picture, and a page that shows and explains all of it."""

from benchmarks.swebench.report.notes import BUSY_MACHINE
from benchmarks.swebench.report.page import write_page
from benchmarks.swebench.report.terminal import public_summary, render, report, write_public

__all__ = ["BUSY_MACHINE", "public_summary", "render", "report", "write_page", "write_public"]
