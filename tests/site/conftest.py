"""The built site. `make docs` builds it and sets RNNC_SITE; the other targets do without it."""

from __future__ import annotations

import os

WANTED = os.environ.get("RNNC_SITE") == "1"
collect_ignore_glob = [] if WANTED else ["test_*.py"]
