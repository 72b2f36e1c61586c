"""What all tests in Python share: how their verdicts come about."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from verdicts import (  # noqa: E402, F401 (the path comes first; pytest finds these hooks here)
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_timeout_set_timer,
)
