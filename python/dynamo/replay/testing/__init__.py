"""Expectations of simulated deployments, for tests: what the fixture ``dynosim`` of the pytest plugin is made of."""

from dynamo.replay.testing.baselines import Baselines
from dynamo.replay.testing.dynosim import Dynosim, Run
from dynamo.replay.testing.findings import Finding

__all__ = ["Baselines", "Dynosim", "Finding", "Run"]
