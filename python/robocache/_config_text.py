"""Configurations as callers give them."""

import json
import os


def config_text(config):
    """Returns (text, file name) of a configuration: a path, the YAML text, or a dict.

    A str with a line break is a text; any other str is a path.

    Raises TypeError if it is none of these, ValueError if a dict holds what YAML cannot, OSError if
    the file cannot be read.
    """
    if isinstance(config, dict):
        try:
            return json.dumps(config, ensure_ascii=False, allow_nan=False), "<dict>"
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"config: expected numbers, strings, lists and dicts: {error}"
            ) from None
    if isinstance(config, str) and "\n" in config:
        return config, "<text>"
    if not isinstance(config, (str, os.PathLike)):
        raise TypeError(f"config: expected a path, a text or a dict, found {type(config).__name__}")
    with open(config, encoding="utf-8") as file:
        try:
            return file.read(), os.fspath(config)
        except UnicodeDecodeError as error:
            raise ValueError(f"{os.fspath(config)}: expected UTF-8 text: {error}") from None
