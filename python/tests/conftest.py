"""The demo's and the benchmark's modules are scripts: their folders go on the path."""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
for folder in ("scripts", "benches", "benches/peers"):
    sys.path.insert(0, str(REPOSITORY / folder))
