"""What a comparison shows if not said otherwise."""

MOVERS = 5
"""How many requests are listed in either direction."""

BY = "ttft_ms"
"""The latency whose changes order them."""
