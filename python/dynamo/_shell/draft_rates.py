"""The acceptance rates of speculative decoding as a text with one rate for each draft token."""

from __future__ import annotations

from decimal import Decimal

from dynamo._shell.tables import table


def accept_rates(text: str | None, drafts: int) -> str:
    """Returns one rate for each draft token: those in the text, without the last ones if they are too many, 0 for
    missing ones.

    Without a text they are the defaults. A text that is no list of numbers is left as it is: a run refuses it.
    """
    if text is None or not text.strip():
        rates = list(table()["accept_rates_default"])
    else:
        try:
            rates = [float(entry) for entry in text.split(",")]
        except ValueError:
            return text
    rates += [0.0] * (drafts - len(rates))
    return ",".join(_plain(rate) for rate in rates[:drafts])


def _plain(rate: float) -> str:
    """Returns the shortest decimal that means the same float, without an exponent."""
    return f"{Decimal(repr(rate)):f}".removesuffix(".0")
