"""The report: one HTML page about one run, or about several that are compared."""

from songrank.analysis.report.page import write_report

__all__ = ["write_report"]
