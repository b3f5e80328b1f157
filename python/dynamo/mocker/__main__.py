"""``python -m dynamo.mocker``."""

import sys

if __name__ == "__main__":
    print("error: live workers are not built yet; python -m dynamo.replay simulates them offline", file=sys.stderr)
    sys.exit(2)
