"""Runs kernels from images, without importing Numba.

Importing Numba takes 0.2 s of CPU time or more. A call through an image takes some microseconds longer than
one through Numba. So a process starts with images, and changes to Numba after many calls
(`LOADED_CALLS`). The stamp of an image is a hash of all kernel sources, the version and the settings of
Numba, and the CPU. A kernel without an image, or with an old one, runs as without this module. `machine.py`
writes images whenever Numba compiles or loads a kernel. Why:
docs/decisions/0049-machine-code-without-numba.md.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stratalog.forks import loading
from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.records.kernels.images import Image, from_file, into_memory, nested

if TYPE_CHECKING:
    import hashlib

LOADED_CALLS = 100_000
"""How many calls of a process may go through images: so many cost about as much as importing Numba."""
PACKAGE = __name__.rpartition(".")[0]
SUFFIX = ".image"
PLAIN_PROCESSES = 8
"""How many processes may run plain Python for longer, instead of compiling what all later ones need."""

_FOLDER = Path(__file__).parent
_TYPES: dict[str, type[ctypes._SimpleCData[Any]]] = {
    "P": ctypes.c_size_t,
    "q": ctypes.c_int64,
    "?": ctypes.c_bool,
}
# NumPy's flags of arrays. C's layout and aligned: other arrays are left to Numba.
_PLAIN_ARRAY, _WRITABLE = 0x101, 0x400
_CPU_FACTS = (b"vendor_id", b"cpu family", b"model", b"flags")
_Kinds = tuple[Any, ...]  # Any: dtypes, types, numbers


class _Unknown:
    """The class of UNKNOWN."""


UNKNOWN: Final = _Unknown()
"""Returned instead of a result if calls with these arguments cannot go through an image."""


class _Missing:
    """The class of MISSING."""


MISSING: Final = _Missing()
"""Returned if there is no image yet: Numba has not compiled the kernel for such arguments."""


class LoadedKernel:
    """The images of one kernel, each loaded when it is needed first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._codes: dict[_Kinds, _Code | _Missing | None] = {}

    def __call__(self, arguments: tuple[Any, ...]) -> Any:
        """The result of the kernel; MISSING or UNKNOWN if there is no image for such arguments."""
        kinds: list[Any] = []
        parts: list[int] = []
        if not _flatten(arguments, kinds, parts):
            return UNKNOWN
        key = tuple(kinds)
        try:
            code = self._codes[key]
        except KeyError:
            with loading:  # imports modules
                code = self._codes[key] = self._load(key)
        if isinstance(code, _Code):
            return code(parts)
        return UNKNOWN if code is None else code

    def _load(self, kinds: _Kinds) -> _Code | _Missing | None:
        try:
            return self._find(kinds)
        except ImportError:
            # A process that has changed its user may not be allowed to read Python's library any more.
            return None

    def _find(self, kinds: _Kinds) -> _Code | _Missing | None:
        stamp = current_stamp()
        if stamp is None:
            return None
        name = file_name(self._name, [each if isinstance(each, str) else _words(*each) for each in kinds])
        for folder in cache_folders():
            try:
                image = from_file((folder / name).read_bytes(), stamp)
                if image is not None:
                    return _Code(self._name, image) if image.code else None
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:  # not allowed to read, or to run
                return None
        return MISSING


class _Code:
    """One image in memory, and how it is called."""

    def __init__(self, name: str, image: Image) -> None:
        self._name = name
        kinds = [_TYPES[part] for part in f"PP{image.parameters}"]
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(into_memory(image))  # without the GIL
        self._unpack = image.layout.unpack_from
        self._room = ctypes.c_char * max(image.layout.size, 8)
        self._shape = image.result if "(" in image.result else None
        self._is_tuple, self._is_none = image.is_tuple, not image.result

    def __call__(self, parts: list[int]) -> Any:
        room, error = self._room(), ctypes.c_void_p()
        status = self._function(ctypes.addressof(room), ctypes.addressof(error), *parts)
        if status > 0 or status == -1:  # -2 stands for None
            raise RuntimeError(f"the kernel {self._name} ended with status {status}")
        if self._is_none:
            return None
        values = self._unpack(room)
        if not self._is_tuple:
            return values[0]
        return values if self._shape is None else nested(self._shape, values)


@cache
def may_stay_plain() -> bool:
    """Whether few processes have run plain Python for longer than loading takes; counts this process as one.

    The count is the size of a file beside the images. Where no file can be written there is no limit, because
    compiled kernels cannot be kept either.
    """
    for folder in cache_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / f"plain-{current_stamp()}").open("ab") as file:
                file.write(b".")
                return file.tell() <= PLAIN_PROCESSES
        except OSError:
            continue
    return True


def array_words(dtype: np.dtype[Any], ndim: int, *, is_writable: bool) -> str:
    """An array as an argument, in words that do not depend on the process."""
    if dtype.fields is None:
        text = dtype.str
    else:
        fields = [(name, *map(str, dtype.fields[name][:2])) for name in dtype.names or ()]
        text = f"{fields} {dtype.itemsize}"
    return f"array {text} {ndim} {is_writable}"


def parts_of(words: Iterable[str]) -> str:
    """The parts of arguments in these words, as `_flatten` makes them and as `Image` names them."""
    numbers = {"int": "q", "bool": "?"}  # a tuple is nothing but its parts
    return "".join(
        "PPqqP" + "qq" * int(each.split()[-2]) if each.startswith("array ") else numbers.get(each, "")
        for each in words
    )


def tuple_words(kind: type, length: int) -> str:
    """A tuple as an argument; the words of its parts follow."""
    return f"{kind.__name__} {length}"


def file_name(kernel: str, words: Iterable[str]) -> str:
    """The name of the file with the image of a kernel for these arguments."""
    return f"{kernel}-{_sha256(';'.join(words).encode()).hexdigest()[:16]}{SUFFIX}"


def _source_paths() -> list[Path]:
    """The sources of all machine code: kernels inline each other, and use `limits.py`."""
    if not _FOLDER.is_dir():  # a zip file
        return [path for path in _FOLDER.parents if path.is_file()]
    return [_FOLDER.parents[1] / "limits.py", *sorted(_FOLDER.glob("*.py"))]


def _source_states() -> list[tuple[int, int, int]]:
    try:
        found = [path.stat() for path in _source_paths()]
    except OSError:
        return []
    return [(each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in found]


_STATES_AT_IMPORT = _source_states()


def are_sources_unchanged() -> bool:
    """Whether the files of all kernels are still those that this process has imported.

    The package may be upgraded while a process runs. Then the process must not cache its old kernels as those
    of the new sources, nor new kernels, which it imports later, as those of the old.
    """
    return bool(_STATES_AT_IMPORT) and _source_states() == _STATES_AT_IMPORT


def sources_hash() -> str | None:
    """A hash of all kernel sources; None if they have changed since this process imported them."""
    try:
        digest = _sha256(b"".join(path.read_bytes() for path in _source_paths()))
    except OSError:
        return None
    return digest.hexdigest() if are_sources_unchanged() else None


@cache
def current_stamp() -> str | None:
    """What an image must have been made with and for; None if that cannot be told."""
    from importlib.util import find_spec

    found, sources = find_spec("numba"), sources_hash()
    # Numba also takes settings from a file. They are not read here: with such a file, there is no stamp.
    # `exists` would raise in a folder that may not be read.
    if found is None or found.origin is None or sources is None or os.path.lexists(".numba_config.yaml"):
        return None
    digest = _sha256(f"{os.uname().machine} {sys.implementation.cache_tag} {sources}".encode())
    try:
        with Path("/proc/cpuinfo").open("rb") as file:
            first_cpu = file.read(16 << 10).partition(b"\n\n")[0]
        digest.update(Path(found.origin).with_name("_version.py").read_bytes())
    except OSError:
        return None
    for line in first_cpu.splitlines():
        if line.startswith(_CPU_FACTS):
            digest.update(line)
    for name, value in sorted(os.environ.items()):
        if name.startswith("NUMBA_") and name != "NUMBA_CACHE_DIR":
            digest.update(os.fsencode(f"{name}={value}"))
    return digest.hexdigest()


@cache
def cache_folders() -> tuple[Path, ...]:
    """Where Numba may have cached the kernels of this package: only folders that it would read itself."""
    from hashlib import sha1

    folder = str(_FOLDER.absolute())
    own = f"{_FOLDER.name}_{sha1(folder.encode(), usedforsecurity=False).hexdigest()}"
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return (Path(named, own),)
    beside = _FOLDER / "__pycache__"
    if os.access(beside if beside.is_dir() else _FOLDER, os.W_OK, effective_ids=True):
        # Numba then writes here. The home directory may be another user's, as it is for root after `sudo -E`.
        return (beside,)
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:  # a user without a home directory
        return (beside,)
    return beside, home / "numba" / own


def _sha256(data: bytes) -> hashlib._Hash:
    import hashlib  # not with this module: it takes 3 ms, and most commands call no image

    return hashlib.sha256(data)


def _words(kind: Any, *facts: int) -> str:
    if isinstance(kind, np.dtype):
        ndim, writable = facts
        return array_words(kind, ndim, is_writable=bool(writable))
    return tuple_words(kind, *facts)


_address = ctypes.c_void_p.from_address
_DATA_AT = object.__basicsize__
"""Where an array object has the address of its data: part of NumPy's binary interface, after the header of
the object. `array.ctypes.data` takes ten times as long."""


def _flatten(arguments: tuple[Any, ...], kinds: list[Any], parts: list[int]) -> bool:
    """Append the kinds and the parts of arguments; False if one of them has a kind that no image has."""
    for each in arguments:
        kind = type(each)
        if kind is np.ndarray:
            flags = each.flags.num
            if flags & _PLAIN_ARRAY != _PLAIN_ARRAY:
                return False
            kinds.append((each.dtype, each.ndim, flags & _WRITABLE))
            data = _address(id(each) + _DATA_AT).value or 0
            parts += (0, 0, each.size, each.itemsize, data, *each.shape, *each.strides)
        elif kind is int or kind is np.int64:
            number = int(each)
            if not INT64_MIN <= number <= INT64_MAX:  # Numba would take a uint64
                return False
            kinds.append("int")
            parts.append(number)
        elif kind is bool or kind is np.bool_:
            kinds.append("bool")
            parts.append(bool(each))
        elif isinstance(each, tuple):
            kinds.append((kind, len(each)))
            if not _flatten(each, kinds, parts):
                return False
        else:
            return False
    return True
