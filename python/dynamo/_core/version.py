"""The version of the distribution. Asking the installed metadata for it would take longer than a small run.

The build writes the version of the tag into the installed copy of this file; these sources have none.
"""

VERSION = "0.0.0+unknown"
