"""A hook of hatchling: the README as package indexes show it, where no link can be relative."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/cornerstep/cornerstep"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)]+)\)")


def with_absolute_links(text: str) -> str:
    """Markdown whose links into the checkout lead to the repository instead."""

    def absolute(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        return f"{mark}[{words}]({REPOSITORY}/{'raw' if mark else 'blob'}/main/{target})"

    return _LINK.sub(absolute, text)


class Readme(MetadataHookInterface):
    """Sets ``readme`` of the project's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling with the table ``project`` of pyproject.toml."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(text)}
