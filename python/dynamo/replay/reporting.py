"""Presenting a report: the public functions for its table and its JSON file."""

from dynamo.replay.reportfile import default_report_path, write_report_json
from dynamo.replay.summary import STAT_COLUMNS, TITLE, closing_lines, format_report_table, table_cells

__all__ = [
    "STAT_COLUMNS",
    "TITLE",
    "closing_lines",
    "default_report_path",
    "format_report_table",
    "table_cells",
    "write_report_json",
]
