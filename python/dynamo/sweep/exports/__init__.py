"""Files that start a point of a sweep: scripts, manifests of Dynamo and of plain Kubernetes, docker compose.

docs/export.md says what is in them, and what becomes of every argument.
"""
