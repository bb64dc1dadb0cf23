"""Links what Numba has compiled into an image that needs neither Numba nor Python.

Numba's object file has three functions for a kernel: the kernel itself, and two that convert Python's
objects. Only the kernel is called, with addresses and numbers, and with memory for its result. An array is
passed as seven or more arguments: memory manager, owner, count, item size, data, shape, strides. The first
two are null, so that the kernel counts no references.

Not every kernel can be linked. It must not allocate memory. It must get only arrays of C's layout, int64,
booleans and tuples of these, and return only integers of 64 bits, booleans, tuples of these, or nothing. Only
object files for x86-64 are read. On other machines, kernels are loaded with Numba.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target
from numba.np.numpy_support import as_dtype

from stratalog.records.kernels.images import Image
from stratalog.records.kernels.loaded import array_words, parts_of, tuple_words

_IDENTITY = b"\x7fELF\x02\x01"  # 64 bits, least significant byte first
_X86_64 = 62
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_ADDRESS = struct.Struct("<Q")
_PROGBITS, _SYMBOLS, _RELOCATIONS, _NOBITS = 1, 2, 4, 8
_WRITABLE, _ALLOCATED = 1, 2
_ABSOLUTE = 1  # R_X86_64_64: Numba's large code model has no other addresses
_OUTER = {"memcpy", "memmove", "memset"}
_RETURNED = {types.int64: "q", types.uint64: "Q", types.boolean: "?"}
# Functions that convert Python's objects, or free memory: in an image they have nothing to do.
_UNUSED = ("_ZN7cpython", "cfunc.", "NRT_decref")


class UnlinkableError(Exception):
    """This kernel cannot become an image; the message says why."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    position: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int
    size: int


def image_of(object_code: bytes, name: str, signature: Any) -> Image:  # Any: Numba's own class
    """The image of the function of this name; UnlinkableError if there can be none."""
    code, places, symbols, sections = _placed(object_code)
    unused = [each for each in symbols if each.name.startswith(_UNUSED)]
    inner, outer = [], []
    for section in sections:
        if section.kind != _RELOCATIONS or section.info not in places:
            continue
        for at, kind, symbol, addend in _relocations(object_code, section, symbols):
            if any(
                each.section == section.info and each.value <= at < each.value + each.size for each in unused
            ):
                continue
            position = places[section.info] + at
            if kind != _ABSOLUTE:
                raise UnlinkableError(f"relocation {kind}")
            if symbol.section in places:
                inner.append(position)
                _ADDRESS.pack_into(code, position, places[symbol.section] + symbol.value + addend)
            elif symbol.name in _OUTER and addend == 0:
                outer.append((position, symbol.name))
            else:
                raise UnlinkableError(symbol.name)
    entries = [places[each.section] + each.value for each in symbols if each.name == name]
    if len(entries) != 1:
        raise UnlinkableError("no such function")
    parameters, result, is_tuple = _interface(signature)
    return Image(bytes(code), entries[0], tuple(inner), tuple(outer), parameters, result, is_tuple)


def words_of(kinds: Any) -> list[str]:  # Any: Numba's types
    """What `loaded.py` calls these types of arguments; UnlinkableError for others."""
    words = []
    for kind in kinds:
        if isinstance(kind, types.Array) and kind.layout == "C" and kind.aligned:
            words.append(array_words(as_dtype(kind.dtype), kind.ndim, is_writable=kind.mutable))
        elif isinstance(kind, types.BaseTuple):
            named = getattr(kind, "instance_class", tuple)
            words += [tuple_words(named, len(kind)), *words_of(kind)]
        elif kind == types.int64:
            words.append("int")
        elif kind == types.boolean:
            words.append("bool")
        else:
            raise UnlinkableError(str(kind))
    return words


def _placed(data: bytes) -> tuple[bytearray, dict[int, int], list[_Symbol], list[_Section]]:
    """(the bytes of all sections that are loaded, where each of them begins, all symbols, all sections)."""
    if data[: len(_IDENTITY)] != _IDENTITY or struct.unpack_from("<H", data, 18) != (_X86_64,):
        raise UnlinkableError("another kind of object file")
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [_Section._make(_SECTION.unpack_from(data, table + size * each)) for each in range(count)]
    code, places = bytearray(), {}
    for number, section in enumerate(sections):
        if not section.flags & _ALLOCATED or section.kind not in (_PROGBITS, _NOBITS) or not section.size:
            continue
        if section.flags & _WRITABLE and ".rel.ro" not in _text(data, sections, section.name):
            raise UnlinkableError("variables")
        code += bytes(-len(code) % max(section.alignment, 1))
        places[number] = len(code)
        is_stored = section.kind == _PROGBITS
        code += data[section.position : section.position + section.size] if is_stored else bytes(section.size)
    symbols = []
    for section in sections:
        if section.kind == _SYMBOLS:
            names = sections[section.link].position
            for at in range(section.position, section.position + section.size, _SYMBOL.size):
                name, _info, _other, home, value, length = _SYMBOL.unpack_from(data, at)
                symbols.append(_Symbol(_text_at(data, names + name), home, value, length))
    return code, places, symbols, sections


def _relocations(data: bytes, section: _Section, symbols: list[_Symbol]) -> Any:
    for at in range(section.position, section.position + section.size, _RELOCATION.size):
        place, what, addend = _RELOCATION.unpack_from(data, at)
        yield place, what & 0xFFFF_FFFF, symbols[what >> 32], addend


def _text(data: bytes, sections: list[_Section], name: int) -> str:
    (names,) = struct.unpack_from("<H", data, 62)
    return _text_at(data, sections[names].position + name)


def _text_at(data: bytes, position: int) -> str:
    return data[position : data.index(0, position)].decode()


def _interface(signature: Any) -> tuple[str, str, bool]:
    """(parameters, result, is_tuple) of an image; UnlinkableError if Numba's calls have another form."""
    conventions = cpu_target.target_context.call_conv
    function = conventions.get_function_type(signature.return_type, signature.args)
    parameters = "".join(map(_part, function.args[2:]))  # the first two are for the result and for errors
    if parameters != parts_of(words_of(signature.args)):
        raise UnlinkableError(f"takes {parameters}")
    if isinstance(signature.return_type, types.NoneType):
        return parameters, "", False
    result = _returned(signature.return_type)
    is_as_expected = result.replace("Q", "q") == _part(function.args[0].pointee)
    if not is_as_expected or "?" in result[1:-1].partition("(")[2]:
        # C would add padding after a boolean of an inner tuple, and the result would be read at wrong places.
        raise UnlinkableError(f"returns {signature.return_type}")
    is_tuple = isinstance(signature.return_type, types.BaseTuple)
    return parameters, result[1:-1] if is_tuple else result, is_tuple


def _returned(kind: Any) -> str:  # Any: Numba's types
    if isinstance(kind, types.UniTuple | types.Tuple):
        return "(" + "".join(_returned(each) for each in kind.types) + ")"
    if kind not in _RETURNED:
        raise UnlinkableError(f"returns {kind}")
    return _RETURNED[kind]


def _part(kind: Any) -> str:  # Any: LLVM's types
    """A part as `Image` names it."""
    if isinstance(kind, ir.PointerType):
        return "P"
    if isinstance(kind, ir.IntType) and kind.width in (1, 8, 64):
        return "q" if kind.width == 64 else "?"
    if isinstance(kind, ir.ArrayType):
        return "(" + "".join(_part(kind.element) for _ in range(kind.count)) + ")"
    if isinstance(kind, ir.LiteralStructType):
        return "(" + "".join(map(_part, kind.elements)) + ")"
    raise UnlinkableError(str(kind))
