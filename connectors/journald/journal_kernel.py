"""Kernels over the bytes of a journal file: heads of entries, their data objects, and which value is in which field.

Addresses are ``uint64``; ``base`` is that of the file's first byte, ``size`` the file's length. Nothing in a file is trusted: a
position is checked before it is read, and an entry that refers to anything else than data objects gets a status above 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.byte_runs import hash_bytes, same_bytes
from etl.columns.intrinsics import load_byte, load_long, load_word
from etl.columns.kernels import kernel, kernel_function

GOOD, BAD_ENTRY, BAD_DATA, TOO_LONG, TOO_LARGE = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3), np.uint8(4)
"""Status of an entry."""

SEQNUM, REALTIME, MONOTONIC, ITEMS, BOOT_HIGH, BOOT_LOW, XOR = range(7)
"""Columns of the heads (int64[7, n]); the boot identifier is two numbers of eight bytes in the file's order."""

AT, BEGIN, LENGTH, NAME, FIELD, FLAGS, ROW, NAME_HASH = range(8)
"""Columns of the objects (int64[8, n]): position in the file, address and length of ``NAME=value``, length of the name, field,
flags of the object, first row that has it, hash of the name."""

OTHER, COMPRESSED, BROKEN = -1, -2, -3
"""Values of `FIELD` below 0: no requested field, not yet known, no data object."""

MAX_ITEMS = 4096
"""Maximum number of fields of an entry; journald takes 1,024."""

_MAX_NAME = 64
"""Longest name of a field, in bytes (systemd's ``journal-file.c``)."""

_DATA, _ENTRY = np.uint8(1), np.uint8(3)
_ENTRY_HEAD = 64
_TIME_LIMIT = np.uint64(1 << 55)
"""The first time that is not valid (systemd's ``time-util.h``): in the year 3111, microseconds since 1970."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@kernel_function
def _object_end(base: Any, size: Any, at: Any, type_: Any, min_size: Any) -> Any:
    """The position after the object at ``at``, 0 if there is no object of this type and of at least ``min_size`` bytes."""
    if at < 208 or at & 7 or at > size - min_size:
        return np.int64(0)
    start = base + np.uint64(at)
    length = load_long(start + np.uint64(8))
    if load_byte(start) != type_ or length < np.uint64(min_size) or length > np.uint64(size - at):
        return np.int64(0)
    return at + np.int64(length)


@kernel
def read_heads(base: Any, size: Any, positions: Any, item_bytes: Any, heads: Any, status: Any) -> None:
    """Read the heads of the entries at ``positions`` (int64[n])."""
    for row in range(len(positions)):
        end = _object_end(base, size, positions[row], _ENTRY, np.int64(_ENTRY_HEAD))
        items = (end - positions[row] - _ENTRY_HEAD) // item_bytes
        start = base + np.uint64(positions[row])
        if end == 0 or items > MAX_ITEMS or load_long(start + np.uint64(24)) >= _TIME_LIMIT:
            status[row] = BAD_ENTRY
            heads[:, row] = 0
            continue
        status[row] = GOOD
        heads[SEQNUM, row] = np.int64(load_long(start + np.uint64(16)))
        heads[REALTIME, row] = np.int64(load_long(start + np.uint64(24)))
        heads[MONOTONIC, row] = np.int64(load_long(start + np.uint64(32)))
        heads[BOOT_HIGH, row] = np.int64(load_long(start + np.uint64(40)))
        heads[BOOT_LOW, row] = np.int64(load_long(start + np.uint64(48)))
        heads[XOR, row] = np.int64(load_long(start + np.uint64(56)))
        heads[ITEMS, row] = items


@kernel_function
def _is_name(begin: Any, length: Any) -> Any:
    """Whether all bytes are letters of ASCII, digits and underscores."""
    for at in range(length):
        byte = load_byte(begin + np.uint64(at))
        small = byte | np.uint8(32)
        is_letter = small >= np.uint8(97) and small <= np.uint8(122)
        if not (is_letter or (byte >= np.uint8(48) and byte <= np.uint8(57)) or byte == np.uint8(95)):
            return False
    return True


@kernel_function
def name_field(begin: Any, length: Any, names: Any, name_ends: Any, objects: Any, row: Any) -> None:
    """Find the name of the object ``row``, whose ``NAME=value`` is at ``begin``, and the field that it is the name of."""
    at = np.int64(0)
    max_length = min(length, np.int64(_MAX_NAME + 1))
    while at < max_length and load_byte(begin + np.uint64(at)) != np.uint8(0x3D):
        at += 1
    objects[BEGIN, row], objects[LENGTH, row], objects[NAME, row] = np.int64(begin), length, at
    if at == max_length or at == 0 or not _is_name(begin, at):
        objects[FIELD, row] = BROKEN
        return
    objects[FIELD, row] = OTHER
    objects[NAME_HASH, row] = np.int64(hash_bytes(begin, at, np.uint64(0)))
    name_at = np.int64(0)
    for field in range(len(name_ends)):
        if name_ends[field] - name_at == at and same_bytes(begin, names + np.uint64(name_at), at):
            objects[FIELD, row] = field
            return
        name_at = name_ends[field]


@kernel
def name_fields(begins: Any, lengths: Any, rows: Any, names: Any, name_ends: Any, objects: Any) -> None:
    """Find the fields of objects that were decompressed to ``begins``."""
    for n in range(len(rows)):
        name_field(begins[n], lengths[n], names, name_ends, objects, rows[n])


@kernel_function
def _read_object(
    base: Any, size: Any, at: Any, head_bytes: Any, names: Any, name_ends: Any, objects: Any, row: Any, first: Any
) -> None:
    objects[AT, row], objects[ROW, row], objects[FLAGS, row] = at, first, 0
    objects[LENGTH, row], objects[NAME, row], objects[NAME_HASH, row], objects[BEGIN, row] = 0, 0, 0, 0
    end = _object_end(base, size, at, _DATA, head_bytes)
    if end == 0:
        objects[FIELD, row] = BROKEN
        return
    begin, length = base + np.uint64(at + head_bytes), end - at - head_bytes
    flags = np.int64(load_byte(base + np.uint64(at + 1)))
    objects[FLAGS, row] = flags
    if flags & 7:
        objects[BEGIN, row], objects[LENGTH, row], objects[FIELD, row] = np.int64(begin), length, COMPRESSED
    else:
        name_field(begin, length, names, name_ends, objects, row)


@kernel
def read_objects(
    base: Any,
    size: Any,
    positions: Any,
    heads: Any,
    status: Any,
    item_bytes: Any,
    head_bytes: Any,
    names: Any,
    name_ends: Any,
    max_bytes: Any,
    slots: Any,
    objects: Any,
    items: Any,
    item_ends: Any,
) -> Any:
    """Read the data objects of entries, each once, until ``items`` is full or the values that are copied reach ``max_bytes``.

    The objects of an entry's items → ``items`` (int32[m], rows of ``objects``), up to ``item_ends`` (int64[n]). ``slots``
    (int32[2**k], all 0, more than twice as many as ``items``) is a hash table of positions. Returns the numbers of entries and
    objects.
    """
    mask = np.uint64(len(slots) - 1)
    used, known, total = np.int64(0), np.int64(0), np.int64(0)
    for row in range(len(positions)):
        count = heads[ITEMS, row]
        if used + count > len(items) or (total >= max_bytes and row > 0):
            return row, known
        start = base + np.uint64(positions[row] + _ENTRY_HEAD)
        for n in range(count):
            item = start + np.uint64(n * item_bytes)
            at = np.int64(load_word(item)) if item_bytes == 4 else np.int64(load_long(item))
            slot = ((np.uint64(at) >> np.uint64(3)) * _MULTIPLIER) >> np.uint64(20) & mask
            while slots[slot] and objects[AT, slots[slot] - 1] != at:
                slot = (slot + np.uint64(1)) & mask
            if not slots[slot]:
                _read_object(base, size, at, head_bytes, names, name_ends, objects, known, row)
                known += 1
                slots[slot] = known
            found = slots[slot] - 1
            if objects[FIELD, found] == BROKEN:
                status[row] = BAD_DATA
            total += objects[LENGTH, found]
            items[used] = found
            used += 1
        item_ends[row] = used
    return len(positions), known


@kernel
def limit_entries(items: Any, item_ends: Any, objects: Any, max_value: Any, max_entry: Any, max_bytes: Any, status: Any) -> Any:
    """The number of entries, 1 or more, until their values have ``max_bytes``, of each up to ``max_value``.

    Many entries may have one value, and one entry may have it many times. An entry of more than ``max_entry`` is `TOO_LARGE`.
    """
    total, at = np.int64(0), np.int64(0)
    for row in range(len(item_ends)):
        if total >= max_bytes and row > 0:
            return row
        own = np.int64(0)
        while at < item_ends[row]:
            own += min(objects[LENGTH, items[at]], max_value)
            at += 1
        if own > max_entry:
            status[row] = TOO_LARGE
        else:
            total += own
    return len(item_ends)


@kernel
def arrange(
    items: Any, item_ends: Any, objects: Any, bits: Any, several: Any, status: Any, first: Any, row_bits: Any, pairs: Any
) -> Any:
    """Find the object of each field of each entry that is not `TOO_LARGE`, the first one if it has several.

    ``bits`` (uint64[k]) are the conditions that an object meets; those that one of an entry's objects meets → ``row_bits``.
    ``first`` (int32[f, n], all -1). Objects of fields in ``several`` (bool[f + 1]), and those of no requested field if its last
    element is true, → ``pairs`` (int32[3, m]): row, field or -1, object. Returns their number.
    """
    count, at = np.int64(0), np.int64(0)
    rest = several[len(several) - 1]
    for row in range(len(item_ends)):
        met = np.uint64(0)
        if status[row] == TOO_LARGE:
            at = np.int64(item_ends[row])
        while at < item_ends[row]:
            found = items[at]
            at += 1
            met |= bits[found]
            field = objects[FIELD, found]
            if field == BROKEN:
                status[row] = BAD_DATA
                continue
            if field >= 0 and first[field, row] < 0:
                first[field, row] = found
            if (field >= 0 and several[field]) or (field < 0 and rest):
                pairs[0, count], pairs[1, count], pairs[2, count] = row, max(field, -1), found
                count += 1
        row_bits[row] = met
    return count


@kernel
def have_repeats(rows: Any, hashes: Any, repeats: Any) -> None:
    """Mark the entries (``repeats``, uint8[n], all 0) that have two values with one hash; ``rows`` grow."""
    for n in range(len(rows)):
        before = n - 1
        while before >= 0 and rows[before] == rows[n]:
            if hashes[before] == hashes[n]:
                repeats[rows[n]] = 1
                break
            before -= 1


@kernel
def find_invalid(address: Any, length: Any, invalid: Any) -> Any:
    """Mark texts that are not UTF-8 (RFC 3629) in ``invalid`` (uint8[n]); returns their number."""
    total = 0
    for row in range(len(address)):
        invalid[row] = not _is_utf8(address[row], length[row])
        total += invalid[row]
    return total


@kernel_function
def _is_utf8(start: Any, length: Any) -> Any:
    at = np.int64(0)
    while at < length:
        if at + 8 <= length and load_long(start + np.uint64(at)) & np.uint64(0x8080808080808080) == 0:
            at += 8
            continue
        lead = np.int64(load_byte(start + np.uint64(at)))
        at += 1
        if lead < 0x80:
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        if at + more > length:
            return False
        second = np.int64(load_byte(start + np.uint64(at)))
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if second < low or second > high:
            return False
        for n in range(1, more):
            if load_byte(start + np.uint64(at + n)) & np.uint8(0xC0) != np.uint8(0x80):
                return False
        at += more
    return True


@kernel
def lz4_size(block: Any) -> Any:
    """The bytes that a block of LZ4 (uint8[]) says that it decompresses to."""
    total, at, end = np.int64(0), np.int64(0), np.int64(len(block))
    while at < end:
        token = np.int64(block[at])
        literals, at = _lz4_length(block, at + 1, token >> 4)
        total += literals
        at += literals
        if at >= end:
            break
        copied, at = _lz4_length(block, at + 2, token & 15)
        total += copied + 4
    return total


@kernel_function
def _lz4_length(block: Any, at: Any, length: Any) -> Any:
    """A length that has further bytes if it is 15; also the position after it."""
    if length == 15:
        while at < len(block):
            byte = np.int64(block[at])
            length, at = length + byte, at + 1
            if byte != 255:
                break
    return length, at


@kernel_function
def _put_hex(number: Any, target: Any, at: Any, digits: Any) -> Any:
    """Write a number with ``digits`` hexadecimal digits, if that is 0 with as many as it needs; returns the position after."""
    count = np.int64(digits)
    if digits == 0:
        count = np.int64(1)
        while count < 16 and number >> np.uint64(4 * count):
            count += np.int64(1)
    for n in range(count):
        digit = (number >> np.uint64(4 * (count - 1 - n))) & np.uint64(15)
        target[at + n] = np.uint8(digit) + (np.uint8(48) if digit < 10 else np.uint8(87))
    return at + count


@kernel
def put_cursors(heads: Any, prefix: Any, target: Any, ends: Any) -> None:
    """Write the cursors of entries: ``s=…;i=…;b=…;m=…;t=…;x=…``; ``prefix`` (uint8[]) has the first part and ``;i=``."""
    at = np.int64(0)
    for row in range(heads.shape[1]):
        for n in range(len(prefix)):
            target[at + n] = prefix[n]
        at = _put_hex(np.uint64(heads[SEQNUM, row]), target, at + len(prefix), 0)
        at = _put_part(target, at, np.uint8(98))
        for word in (heads[BOOT_HIGH, row], heads[BOOT_LOW, row]):
            for n in range(8):
                at = _put_hex(np.uint64(word) >> np.uint64(8 * n) & np.uint64(255), target, at, 2)
        at = _put_hex(np.uint64(heads[MONOTONIC, row]), target, _put_part(target, at, np.uint8(109)), 0)
        at = _put_hex(np.uint64(heads[REALTIME, row]), target, _put_part(target, at, np.uint8(116)), 0)
        at = _put_hex(np.uint64(heads[XOR, row]), target, _put_part(target, at, np.uint8(120)), 0)
        ends[row + 1] = at


@kernel_function
def _put_part(target: Any, at: Any, letter: Any) -> Any:
    target[at], target[at + 1], target[at + 2] = np.uint8(59), letter, np.uint8(61)
    return at + 3
