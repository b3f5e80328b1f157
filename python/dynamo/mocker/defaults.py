"""The defaults of live workers' options, for ``parse_args`` and for ``--help``.

Most come from the tables that Go generates. Some options have none of their own: their default is decided when the
workers start, and only described here.
"""

from __future__ import annotations

from typing import Any

from dynamo._shell.fields import fields_of
from dynamo._shell.options import Option
from dynamo._shell.tables import table


def default_of(option: str) -> Any:
    """Returns the default of an option, its own or that of the engine argument that it sets; None if it is decided
    later.
    """
    own = fields_of(None, "live_options")[option].arg_default
    argument = table("live_options")["engine_args"].get(option)
    found = fields_of(None)[argument].arg_default if own is None and argument is not None else own
    return None if found == "" or (option == "block_size" and found == 0) else found


def described(option: Option) -> Option:
    """Returns the option with its default in the help text, unless that names it already or the option is a switch."""
    if option.type == "bool" or "default" in option.help:
        return option
    default = default_of(option.name)
    shown = option.stand_in if default is None else f"{default}"
    return option._replace(help=f"{option.help} (default: {shown})") if shown else option
