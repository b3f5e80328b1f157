"""Which release of the package is installed."""

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """The version of the distribution, ``(not installed)`` in a checkout without one."""
    try:
        return version("dynosim")
    except PackageNotFoundError:
        return "(not installed)"
