"""Write native/entities.inc: the named characters of HTML 4, and the apostrophe, sorted by name."""

from html.entities import name2codepoint
from pathlib import Path


def main() -> None:
    """Write the table, as many entries to a line as fit."""
    codes = {**name2codepoint, "apos": ord("'")}
    entries = [f'{{"{name}", 0x{codes[name]:04X}}},' for name in sorted(codes)]
    lines = ["// Written by tools/make_entities.py."]
    for entry in entries:
        if len(lines) > 1 and len(lines[-1]) + 1 + len(entry) <= 116:
            lines[-1] += f" {entry}"
        else:
            lines.append(entry)
    Path("native/entities.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
