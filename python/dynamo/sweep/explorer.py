"""The page of a sweep in a notebook, with the pages of runs that a reader picks.

With a kernel and anywidget the page asks for the run of a point, which is simulated then. Without either, the page
alone is shown: it filters, sorts and selects by itself, also in a notebook that is exported as HTML.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from dynamo._core import values
from dynamo.replay import notebook
from dynamo.sweep import runpages
from dynamo.sweep.page import as_html

_TITLE = "The page of a sweep"


class SweepExplorer:
    """The page of a sweep, which notebooks show."""

    def __init__(self, content: Mapping[str, Any], height: int) -> None:
        self.html = as_html(content)
        """The page by itself."""
        self.height = height
        self._points = {point["id"]: point for point in content["points"]}
        self._widget: Any = None

    @property
    def widget(self) -> Any:
        """The widget behind it; None without anywidget."""
        if self._widget is None and (made := _widget_class()) is not None:
            self._widget = made(page=self.html, height=self.height)
            self._widget.observe(lambda change: self._show(change["new"]), names="picked")
        return self._widget

    def run_page(self, point: int) -> str:
        """The page of the run of a point, which is simulated for it. Raises ValueError for one that cannot be run."""
        found = self._points.get(point)
        if found is None:
            raise ValueError(f"point: got {values.show(point)}, want the id of a point")
        if found["arguments"] is None:
            raise ValueError(f"point: {point} cannot be run: {found['reason']}")
        with tempfile.TemporaryDirectory(prefix="dynosim-run-") as folder:
            path = Path(folder, "run.html")
            runpages.write(found, path)
            return path.read_text(encoding="utf-8")

    def _show(self, point: int) -> None:
        if point < 0:
            return
        widget = self._widget
        widget.status, widget.run_page = f"simulating point {point} …", ""
        try:
            widget.run_page = self.run_page(point)
            widget.status = f"The run of point {point}"
        except (ValueError, RuntimeError, OSError) as error:
            widget.status = str(error)

    def _repr_mimebundle_(self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None) -> Any:
        still = {"text/plain": repr(self), "text/html": notebook.frame(self.html, self.height, _TITLE)}
        if self.widget is None:
            return still
        made = self.widget._repr_mimebundle_(include=include, exclude=exclude)
        bundle, metadata = made if isinstance(made, tuple) else (made, {})
        return {**still, **(bundle or {}), "text/html": still["text/html"]}, metadata

    def __repr__(self) -> str:
        return f"a page of {len(self._points)} points, which notebooks show"


@cache
def _widget_class() -> Any:
    """The class of the widget; None without anywidget."""
    try:
        anywidget: Any = import_module("anywidget")
        traitlets: Any = import_module("traitlets")
    except ImportError:
        return None
    synced = {"sync": True}
    members = {
        "_esm": resources.files(__package__).joinpath("page").joinpath("widget.mjs").read_text(encoding="utf-8"),
        "page": traitlets.Unicode().tag(**synced),
        "height": traitlets.Int().tag(**synced),
        "picked": traitlets.Int(-1).tag(**synced),
        "run_page": traitlets.Unicode().tag(**synced),
        "status": traitlets.Unicode().tag(**synced),
    }
    return type("SweepWidget", (anywidget.AnyWidget,), members)
