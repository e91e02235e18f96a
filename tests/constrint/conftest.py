"""Lets tests of this folder import `problems` and `cp_sat`, which are no tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
