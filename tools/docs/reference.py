"""MkDocs hook: the parts of the reference that follow from the code are generated at build time, so they cannot drift.

Hand-written pages hold markers such as ``<!-- generated: cli -->``; pages of the Python API are generated whole.
"""

import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import api
import sections


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each public module."""
    for module, text in api.pages().items():
        name = module.removeprefix("songrank.")
        files.append(File.generated(config, f"reference/api/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the generated text where its marker stands."""
    for name, write in sections.SECTIONS.items():
        marker = f"<!-- generated: {name} -->"
        if marker in markdown:
            markdown = markdown.replace(marker, write())
    return markdown
