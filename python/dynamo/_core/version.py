"""The version of the distribution. Asking the installed metadata for it would take longer than a small run."""

VERSION = "0.1.0"
