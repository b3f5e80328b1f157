"""The pytest plugin. Every pytest of every user loads it, so it imports nothing but pytest before a test needs it."""
