"""Routers in Python: objects that choose the worker of each request. docs/routers.md describes them."""

from dynamo._shell.plugins import Array
from dynamo._shell.routers import GROUP, REJECT, Request, Router, Workers

__all__ = ["GROUP", "REJECT", "Array", "Request", "Router", "Workers"]
