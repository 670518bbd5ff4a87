"""Hooks of MkDocs: documents outside docs/ become pages too, and flags stay in one piece."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

# Page: its file. Guides link to the file, so that links also work where files are browsed.
KEPT = {
    "benchmarks.md": "benchmarks/README.md",
    "latency_growth.png": "benchmarks/latency_growth.png",
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
}

_CODE = re.compile(r"<code>[^<\n]*</code>")  # within a line
_FLAG = re.compile(r"--[a-z][a-z.-]*")


def on_files(files: Files, config: Any) -> Files:
    """Add the documents that are kept outside docs/."""
    root = Path(config.config_file_path).parent
    for page, path in KEPT.items():
        files.append(File.generated(config, page, abs_src_path=str(root / path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to those documents lead to their pages."""
    for page, path in KEPT.items():
        markdown = markdown.replace(f"](../{path}", f"]({page}")
    return markdown.replace("](../docs/", "](")  # guides, from one of those documents


def on_page_content(html: str, **_: Any) -> str:
    """Keep flags on one line: browsers break after the hyphens of --flag."""
    return _CODE.sub(lambda code: _FLAG.sub(r'<span class="flag">\g<0></span>', code[0]), html)
