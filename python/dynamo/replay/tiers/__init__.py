"""How much host memory a trace is worth: ``python -m dynamo.replay tiers``.

``curve`` asks the core for the prompt tokens that caches of all sizes find, ``simulate`` replays the trace with some of
them, ``text`` and ``page`` show both.
"""
