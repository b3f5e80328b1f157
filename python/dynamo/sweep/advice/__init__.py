"""Recommendations: what to start for this traffic, this service level and this many GPUs.

``candidates`` lists what is valid, ``bounds`` proves what cannot be the answer, ``search`` runs the rest with the parts
of sweeps, ``checks`` asks what breaks the winner, and ``wording`` and ``basis`` say all that.
docs/recommend.md describes it.
"""
