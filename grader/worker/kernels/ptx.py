"""What a compiled kernel shows: instructions and load widths from its PTX, registers and stack from its cubin."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

_OPCODE = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][a-z0-9_]*(?:\.[\w:]+)*)", re.MULTILINE)
_GLOBAL = re.compile(r"^(ld|st)\.(?:[\w:]+\.)*?global(?:\.[\w:]+)*?(?:\.v(\d))?\.[a-z](\d+)$")
_ASYNC_COPY = re.compile(r"cp\.async\.c[ag]\.shared\.global[^;]*?,\s*(0x[0-9a-fA-F]+|\d+)")

# Records of the section .nv.info: what they describe, by number.
_FRAME_SIZE = 0x11
_REGISTERS = 0x2F
_TWO_WORDS = 4
"""The format of records that hold a symbol and a value."""


def instructions(ptx: str) -> list[str]:
    """The distinct instructions of a kernel, modifiers included ("wgmma.mma_async.sync.aligned.m64n128k16....")."""
    body = ptx[ptx.find("{") :]
    return sorted({match.group(1) for match in _OPCODE.finditer(body)} - {"reg", "loc", "ret"})


def access_widths(ptx: str) -> tuple[list[int], list[int]]:
    """Bytes that one thread moves with one load from, and one store to, global memory: the distinct ones, ascending.

    Asynchronous copies to shared memory count as loads; bulk copies (TMA) move tiles and are not in the list.
    """
    widths: dict[str, set[int]] = {"ld": set(), "st": set()}
    for opcode in instructions(ptx):
        match = _GLOBAL.match(opcode)
        if match:
            widths[match.group(1)].add(int(match.group(2) or 1) * int(match.group(3)) // 8)
    widths["ld"] |= {int(size, 0) for size in _ASYNC_COPY.findall(ptx)}
    return sorted(widths["ld"]), sorted(widths["st"])


def resources(cubin: bytes) -> tuple[int, int]:
    """(registers per thread, bytes of stack per thread); a stack above zero means that registers were spilled."""
    registers = stack = 0
    for attribute, value in _info(cubin):
        if attribute == _REGISTERS:
            registers = max(registers, value)
        elif attribute == _FRAME_SIZE:
            stack = max(stack, value)
    return registers, stack


def _info(cubin: bytes) -> Iterator[tuple[int, int]]:
    """(attribute, value) of the records that give one value for a function."""
    section = _section(cubin, ".nv.info")
    at = 0
    while at + 4 <= len(section):
        kind, attribute, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if kind != _TWO_WORDS:
            continue  # short records hold their value in place of the size
        if size == 8:
            yield attribute, struct.unpack_from("<II", section, at)[1]
        at += size


def _section(elf: bytes, wanted: str) -> bytes:
    """The contents of a section of a 64-bit little-endian ELF file; empty if it has none of that name."""
    if elf[:6] != b"\x7fELF\x02\x01":
        return b""
    (offset,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, offset + i * size) for i in range(count)]
    text = headers[names][4]
    for name, _, _, _, start, length in headers:
        label = elf[text + name : elf.index(b"\0", text + name)]
        if label.decode("latin-1") == wanted:
            return elf[start : start + length]
    return b""
