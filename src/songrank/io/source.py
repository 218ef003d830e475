"""Files, compressed files and members of zip archives, prefetched in blocks of whole lines."""

import bz2
import gzip
import hashlib
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from songrank.core.errors import DataError, shown
from songrank.core.limits import BLANK_BYTES, MEMBER_BYTES, RATIO, RATIO_FREE_BYTES
from songrank.io.files import open_regular

BLOCK_BYTES = 16 << 20
MAX_LINE_BYTES = 1 << 28
_COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}  # to read bytes
_DAMAGED: tuple[type[Exception], ...] = (zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError)
_DAMAGED += (zlib.error, struct.error, EOFError, UnicodeDecodeError)

Progress = Callable[[str, int, int | None], None]


@dataclass
class Job:
    """State of a preparation: callbacks, limits, sources read, and counts of dropped rows."""

    progress: Progress | None = None
    notes: Callable[[str], object] | None = None
    memory_limit: int | None = None
    """Peak memory in bytes."""
    max_ratio: float = RATIO
    """Maximum size of a source relative to its compressed size."""
    sources: list[dict[str, str | int]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def report(self, what: str, done: int, total: int | None) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(what, done, total)

    def note(self, text: str) -> None:
        """Report a choice that was made automatically."""
        if self.notes is not None:
            self.notes(text)

    def count(self, what: str, number: int) -> None:
        """Add ``number`` to the count of ``what`` in ``dataset.json``: dropped or changed rows."""
        if number:
            self.counts[what] = self.counts.get(what, 0) + int(number)


@dataclass(frozen=True)
class Block:
    """Whole lines of a file: ``data`` ends with a newline, ``line`` is the number of the first line."""

    data: bytes
    line: int
    file: str

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Number and bytes of each line."""
        return enumerate(self.data.removesuffix(b"\n").split(b"\n"), self.line)

    def texts(self) -> Iterator[tuple[int, str]]:
        """Number and text of each line; raises unless the block is UTF-8."""
        check_utf8(self)
        return enumerate(self.data.decode("utf-8").removesuffix("\n").split("\n"), self.line)

    def fail(self, what: str, fix: str, line: int) -> NoReturn:
        """Raise a ``DataError`` with the file and the line."""
        raise DataError(what, fix, file=self.file, line=line) from None


@dataclass(frozen=True)
class Source:
    """One file, plain, compressed or in a zip archive."""

    path: Path
    member: str | None = None
    encoding: str = "utf-8"

    @property
    def name(self) -> str:
        """Name in messages."""
        return str(self.path) if self.member is None else f"{self.path}/{self.member}"

    @property
    def short_name(self) -> str:
        """Name in ``dataset.json``, without parent directories."""
        return self.path.name if self.member is None else f"{self.path.name}/{self.member}"

    @property
    def file_name(self) -> str:
        """Name without archive, directory and compression suffix."""
        name = Path(self.member or self.path.name).name
        return name[: len(name) - len(self._compression)]

    @property
    def _compression(self) -> str:
        suffix = Path(self.member or self.path.name).suffix.lower()
        return suffix if suffix in _COMPRESSED else ""

    def size(self) -> int | None:
        """Uncompressed size in bytes; None if unknown."""
        with reading(self.name):
            if self._compression:
                return None
            if self.member is not None:
                return _archive(self.path).getinfo(self.member).file_size
            return self.path.stat().st_size

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The uncompressed bytes as a stream; read errors are raised as ``DataError``."""
        with reading(self.name):
            unpack = _COMPRESSED.get(self._compression, nullcontext)
            packed = open_regular(self.path) if self.member is None else _archive(self.path).open(self.member)
            with packed, unpack(packed) as stream:
                yield stream

    def whole(self, job: Job) -> Path | io.BytesIO:
        """The file, or its uncompressed bytes, for formats with random access."""
        job.report(f"reading {self.file_name}", 0, None)
        with self.open() as stream:
            if self.member is None and not self._compression:
                data: Path | io.BytesIO = self.path
                digest = hashlib.file_digest(cast(io.BufferedReader, stream), "sha256")
                size = self.path.stat().st_size
            else:
                content = io.BytesIO()
                for piece in self._pieces(stream, job, BLOCK_BYTES):
                    content.write(piece)
                    if content.tell() > MEMBER_BYTES:
                        what = f"is larger than {MEMBER_BYTES >> 30} GiB when it is decompressed"
                        raise DataError(what, "extract it and pass the extracted file", file=self.name)
                data, digest, size = content, hashlib.sha256(content.getbuffer()), content.tell()
                content.seek(0)
        job.sources.append({"name": self.short_name, "bytes": size, "sha256": digest.hexdigest()})
        return data

    def blocks(self, job: Job, *, block_bytes: int = BLOCK_BYTES, quotes: bool = False) -> Iterator[Block]:
        """Blocks of whole lines, prefetched; with ``quotes``, newlines in double quotes do not end a line.

        Handles line endings, byte order marks, encodings, damaged archives, permissions, progress and checksums.
        """
        raw = self._raw_blocks(job, block_bytes, quotes)
        ahead = ThreadPoolExecutor(1)
        try:
            upcoming = ahead.submit(next, raw, None)
            while (block := upcoming.result()) is not None:
                upcoming = ahead.submit(next, raw, None)
                yield block
        finally:
            # Do not wait: the garbage collector may close this generator in a thread that holds the required lock.
            ahead.shutdown(wait=False, cancel_futures=True)

    def _raw_blocks(self, job: Job, block_bytes: int, quotes: bool) -> Iterator[Block]:
        digest, done, total, rest, line = hashlib.sha256(), 0, self.size(), b"", 1
        blank = 0
        with self.open() as stream:
            for piece in self._pieces(stream, job, block_bytes):
                digest.update(piece)
                blank = blank + len(piece) if piece.isspace() else 0
                if blank > BLANK_BYTES:
                    what = f"has more than {BLANK_BYTES >> 20} MiB of blank lines in succession"
                    raise DataError(what, "expected a text file with one record per line", file=self.name, line=line)
                if not done and piece.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise DataError("is encoded in UTF-16", "convert it to UTF-8", file=self.name, line=1)
                text = piece if done else piece.removeprefix(b"\xef\xbb\xbf")
                done += len(piece)
                data, rest = _cut(rest + text, quotes and len(rest) < block_bytes)
                if data:
                    block = self._clean(data, line)
                    yield block
                    line += block.data.count(b"\n")
                elif len(rest) > MAX_LINE_BYTES:
                    what = f"has a line of more than {MAX_LINE_BYTES >> 20} MiB"
                    fix = "expected a text file with one record per line" + (" and balanced quotes" if quotes else "")
                    raise DataError(what, fix, file=self.name, line=line)
                job.report(f"reading {self.file_name}", done, total)
        if rest:
            yield self._clean(rest.removesuffix(b"\n") + b"\n", line)
        elif line == 1:
            raise DataError("is empty", "expected at least one line", file=self.name)
        job.sources.append({"name": self.short_name, "bytes": done, "sha256": digest.hexdigest()})

    def _pieces(self, stream: IO[bytes], job: Job, size: int) -> Iterator[bytes]:
        """The stream in pieces; raises where it has become too large for its compressed size."""
        done, packed = 0, None
        if self.member is not None:
            packed = _archive(self.path).getinfo(self.member).compress_size
        elif self._compression:
            packed = self.path.stat().st_size
        most = None if packed is None else max(RATIO_FREE_BYTES, int(packed * job.max_ratio))
        while piece := stream.read(size):
            done += len(piece)
            if most is not None and done > most:
                what = f"is more than {job.max_ratio:g} times larger when it is decompressed"
                raise DataError(what, "raise --max-ratio if that is right, or extract it", file=self.name)
            yield piece

    def _clean(self, data: bytes, line: int) -> Block:
        if self.encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
            data = self._recode(data, line)
        if b"\0" in data:
            what, at = "contains a NUL byte; is it a binary or UTF-16 file?", data.index(b"\0")
            Block(data, line, self.name).fail(what, "expected UTF-8 text", line + data.count(b"\n", 0, at))
        return Block(data.replace(b"\r\n", b"\n"), line, self.name)

    def _recode(self, data: bytes, line: int) -> bytes:
        try:
            return data.decode(self.encoding).encode("utf-8")
        except UnicodeDecodeError as error:
            what, at = f"is not valid {self.encoding}", line + data.count(b"\n", 0, error.start)
            raise DataError(what, "pass the correct encoding", file=self.name, line=at) from None
        except (LookupError, ValueError):  # unknown encoding, or not a text encoding
            raise DataError(f"encoding is {self.encoding!r}", "expected a Python encoding such as latin-1") from None


def check_utf8(block: Block) -> None:
    """Raise unless the block is UTF-8."""
    try:
        block.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = block.line + block.data.count(b"\n", 0, error.start)
        found = f"byte 0x{block.data[error.start]:02x} is not UTF-8"
        block.fail(found, "convert the file to UTF-8 or pass --encoding, e.g. latin-1", line)


def _cut(data: bytes, quotes: bool) -> tuple[bytes, bytes]:
    """Split after the last newline that ends a line."""
    end = data.rfind(b"\n") + 1
    if quotes and end:
        odd = data.count(b'"', 0, end) % 2
        while odd and end:
            before = data.rfind(b"\n", 0, end - 1) + 1
            odd ^= data.count(b'"', before, end) % 2
            end = before
    return data[:end], data[end:]


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Convert errors of opening and decompressing a file to a ``DataError`` with a remedy."""
    try:
        yield
    except FileNotFoundError:
        raise DataError("does not exist", "check the path", file=file) from None
    except IsADirectoryError:
        raise DataError("is a directory", "expected a file", file=file) from None
    except PermissionError:
        raise DataError("is not readable", "change its permissions", file=file) from None
    except _DAMAGED as error:
        raise DataError(f"is truncated or damaged ({_reason(error)})", "download or copy it again", file=file) from None
    except (RuntimeError, NotImplementedError) as error:  # zipfile, for encrypted members and unknown methods
        what, fix = f"cannot be decompressed ({_reason(error)})", "extract it and pass the extracted file"
        raise DataError(what, fix, file=file) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror or error})", "check file and disk", file=file) from None


def _reason(error: BaseException) -> str:
    return shown(str(error) or type(error).__name__, limit=100)[1:-1]


def _archive(path: Path) -> zipfile.ZipFile:
    """An open archive, cached because opening it reads its directory."""
    open_regular(path).close()
    status = path.stat()
    return _open_archive(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _open_archive(path: Path, *version: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


def find_sources(path: Path, patterns: Sequence[str], expected: str) -> list[Source]:
    """Find the file ``path``, or the files in a directory or zip archive that match one of ``patterns``.

    ``path`` may also be ``archive.zip/member``. Patterns are matched case-insensitively with the end of the path within
    the directory or archive; ``expected`` describes the files in messages.
    """
    archive = next((parent for parent in path.parents if parent.suffix.lower() == ".zip" and parent.is_file()), None)
    if archive is not None:
        return [_find_member(archive, path.relative_to(archive).as_posix())]
    with reading(str(path)):
        path.stat()
        if path.is_dir():
            names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
            found = [Source(path / name) for name in names if _matches(name, patterns)]
            archives = [name for name in names if name.lower().endswith(".zip")]
            if not found and len(archives) == 1:
                return find_sources(path / archives[0], patterns, expected)
        elif path.suffix.lower() == ".zip":
            names = _members(path)
            found = [Source(path, name) for name in names if _matches(name, patterns)]
        else:
            with open_regular(path):
                return [Source(path)]
    if not found:
        raise DataError(f"contains no {expected}", _contents(names), file=str(path))
    return found


def _find_member(archive: Path, wanted: str) -> Source:
    """The member of this name, or the only one whose path ends with it."""
    with reading(str(archive)):
        names = _members(archive)
    found = [wanted] if wanted in names else [name for name in names if name.endswith("/" + wanted)]
    if not found:
        raise DataError(f"contains no {wanted}", _contents(names), file=str(archive))
    return only_source([Source(archive, name) for name in found], archive, f"files {wanted}")


def _members(archive: Path) -> list[str]:
    return sorted(info.filename for info in _archive(archive).infolist() if not info.is_dir())


def only_source(found: Sequence[Source], path: Path, files: str) -> Source:
    """Return the only source; ``files`` describes the sources in the error."""
    if len(found) > 1:
        raise DataError(f"contains {len(found)} {files}", f"pass one of them, e.g. {found[0].name}", file=str(path))
    return found[0]


def check_one_kind(found: Sequence[Source], path: Path) -> None:
    """Raise unless all sources have the same file suffix."""
    kinds = sorted({Path(source.file_name).suffix.lower() for source in found})
    if len(kinds) > 1:
        raise DataError(f"contains {', '.join(kinds)} files", f"pass one of them, e.g. {found[0].name}", file=str(path))


def _matches(name: str, patterns: Sequence[str]) -> bool:
    if any(part.startswith(".") or part == "__MACOSX" for part in Path(name).parts):
        return False
    name = name.lower()
    bare = name.removesuffix(Path(name).suffix) if Path(name).suffix in _COMPRESSED else name
    return any(fnmatch(bare, pattern) or fnmatch(bare, "*/" + pattern) for pattern in map(str.lower, patterns))


def _contents(names: Sequence[str]) -> str:
    if not names:
        return "it is empty; pass the directory, archive or file with the data"
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return "found " + ", ".join(names[:3]) + more + "; pass the correct directory, archive or file"
