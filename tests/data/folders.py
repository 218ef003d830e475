"""What tests of prepared data sets share."""

import zipfile
from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by name."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def write_zip(path: Path, members: dict[str, str | bytes]) -> Path:
    """An archive with these members."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path
