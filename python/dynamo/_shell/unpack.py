"""typing.Unpack, also for versions of Python that do not have it."""

import sys
from typing import TYPE_CHECKING, Any

__all__ = ["Unpack"]

if TYPE_CHECKING:
    from typing_extensions import Unpack
elif sys.version_info >= (3, 11):
    from typing import Unpack
else:

    class Unpack:
        """Lets typing.get_type_hints() resolve Unpack[X], as X."""

        def __class_getitem__(cls, item: Any) -> Any:
            return item
