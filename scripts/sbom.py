#!/usr/bin/env python3
"""Checks an SBOM against the schema of CycloneDX 1.6: `scripts/sbom.py FILE`. Needs cyclonedx-python-lib."""

import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def main():
    text = Path(sys.argv[1]).read_text()
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault is not None:
        print(f"{sys.argv[1]}: {fault}", file=sys.stderr)
    return 0 if fault is None else 1


if __name__ == "__main__":
    sys.exit(main())
