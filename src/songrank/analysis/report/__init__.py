"""Reports: an HTML page about one run, or a comparison of several runs."""

from songrank.analysis.report.page import write_report

__all__ = ["write_report"]
