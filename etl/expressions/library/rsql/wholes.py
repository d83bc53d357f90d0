"""Script functions of whole numbers: bits, bases, remainders, and arithmetic by the name of an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.rsql.arguments import as_double, as_whole, by_text, constant_text, of_wholes
from etl.expressions.widening import DOUBLE, INT64, INTEGERS, STRING

_NULL = "null if an argument is null or no whole number"


def _null_for_zero(value: Any) -> Any:
    return pc.if_else(pc.equal(value, 0), pa.scalar(None, value.type), value)


def quotient(value: Any, by: Any) -> Any:
    """Whole quotient, cut towards zero; null by zero."""
    return pc.divide(value, _null_for_zero(by))


def remainder(value: Any, by: Any) -> Any:
    """What the quotient leaves, with the sign of the first; null by zero."""
    return pc.subtract(value, pc.multiply(quotient(value, by), by))


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": quotient,
    "%": remainder,
}


def _double_remainder(value: Any, by: Any) -> Any:
    whole = pc.trunc(pc.divide(value, _null_for_zero(by)))
    return pc.subtract(value, pc.multiply(whole, by))


def _math(type_: pa.DataType | None) -> Callable[..., BoundNode]:
    """``math('+', a, b)``: of whole numbers a whole one, else a double; or always one type."""

    def build(operator: BoundNode, left: BoundNode, right: BoundNode) -> BoundNode:
        operator_text = constant_text(operator, "the operator")
        if operator_text not in _OPERATORS:
            raise MisuseError(f"there is no operator {operator_text!r}", hint="one of + - * / %")
        is_whole = type_ == INT64 or (type_ is None and left.type in INTEGERS and right.type in INTEGERS)
        convert = as_whole if is_whole else as_double
        kernel = _double_remainder if operator_text == "%" and not is_whole else _OPERATORS[operator_text]
        return b.apply(INT64 if is_whole else DOUBLE, kernel, convert(left), convert(right))

    return build


def _shift_right(value: Any, bits: Any) -> Any:
    return pc.shift_right(value, pc.bit_wise_and(bits, 31))


def _shift_left(value: Any, bits: Any) -> Any:
    shifted = pc.shift_left(value, pc.bit_wise_and(bits, 31))
    return pc.subtract(pc.bit_wise_and(pc.add(shifted, 1 << 31), (1 << 32) - 1), 1 << 31)


def _shift_unsigned(value: Any, bits: Any) -> Any:
    return pc.shift_right(pc.bit_wise_and(value, (1 << 32) - 1), pc.bit_wise_and(bits, 31))


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_MAX_FACTORIAL_ARGUMENT = 20
"""The factorial of a larger number does not fit 64 bits."""


def _in_base(number: int, base: int) -> str:
    digits = ""
    rest = abs(number)
    while rest or not digits:
        rest, digit = divmod(rest, base)
        digits = _DIGITS[digit] + digits
    return "-" * (number < 0) + digits


def _conv(text: str, source: str, target: str) -> str | None:
    try:
        bases = int(float(source)), int(float(target))
        return (
            _in_base(int(text.strip().removesuffix(".0"), bases[0]), bases[1]) if min(bases) >= 2 and max(bases) <= 36 else None
        )
    except ValueError:
        return None


def _bin(text: str) -> str | None:
    try:
        return format(int(text) & (1 << 64) - 1, "b")
    except ValueError:
        return None


def _hex(text: str) -> str:
    try:
        return format(int(text) & (1 << 64) - 1, "x")
    except ValueError:
        return text.encode().hex()


def _unhex(text: str) -> str | None:
    try:
        return bytes.fromhex(text).decode("utf-8", "replace")
    except ValueError:
        return None


def _factorial(text: str) -> int | None:
    import math

    try:
        number = int(text)
    except ValueError:
        return None
    return math.factorial(number) if 0 <= number <= _MAX_FACTORIAL_ARGUMENT else None


def _whole(name: str, kernel: Callable[..., Any], about: str, example: str, gives: int, count: int = 2) -> LibraryFunction:
    arguments = ", ".join(("number", "other")[at] + ": any" for at in range(count))
    return LibraryFunction(f"rsql_{name}", arguments, "bigint", of_wholes(kernel), about, f"rsql_{example}", gives, null=_NULL)


def _text(name: str, arguments: str, function: Callable[..., Any], about: str, example: str, gives: str) -> LibraryFunction:
    build = by_text(STRING, function)
    return LibraryFunction(f"rsql_{name}", arguments, "string", build, about, f"rsql_{example}", gives, null=_NULL, loops=True)


FUNCTIONS = (
    _whole("add", pc.add, "Sum of two whole numbers.", "add('7', 5)", 12),
    _whole("minus", pc.subtract, "Difference of two whole numbers.", "minus(7, '5')", 2),
    _whole("multiply", pc.multiply, "Product of two whole numbers.", "multiply(6, 7)", 42),
    _whole("divide", quotient, "Whole quotient of two whole numbers; null by zero.", "divide(8, 3)", 2),
    _whole("mod", remainder, "Remainder of a division, with the sign of the first number.", "mod('-7', '3')", -1),
    _whole("bitand", pc.bit_wise_and, "Bitwise AND of two whole numbers.", "bitand(12, 10)", 8),
    _whole("bitor", pc.bit_wise_or, "Bitwise OR of two whole numbers.", "bitor('12', '10')", 14),
    _whole("bitxor", pc.bit_wise_xor, "Bitwise exclusive OR of two whole numbers.", "bitxor(7, 3)", 4),
    _whole("bitnot", pc.bit_wise_not, "Bitwise complement of a whole number.", "bitnot(7)", -8, 1),
    _whole("shiftleft", _shift_left, "A 32-bit number shifted left by a number of bits.", "shiftleft(1, 4)", 16),
    _whole("shiftright", _shift_right, "A number shifted right by a number of bits, with its sign.", "shiftright(-16, 2)", -4),
    _whole(
        "shiftrightunsigned",
        _shift_unsigned,
        "A 32-bit number shifted right, filled with zeros.",
        "shiftrightunsigned(-16, 2)",
        1073741820,
    ),
    LibraryFunction(
        "rsql_factorial",
        "number: any",
        "bigint",
        by_text(INT64, _factorial),
        "Factorial of a whole number up to 20.",
        "rsql_factorial('5')",
        120,
        null=_NULL,
        loops=True,
    ),
    *(
        LibraryFunction(
            f"rsql_{name}",
            "operator: string, number: any, other: any",
            result,
            _math(type_),
            about,
            f"rsql_{example}",
            gives,
            null="null if a number is null or not a number, or divides by zero",
        )
        for name, type_, result, about, example, gives in (
            ("math", None, "bigint of whole numbers, else double", "Arithmetic by an operator: + - * / %.", "math('/', 7, 3)", 2),
            ("mathl", INT64, "bigint", "Arithmetic of whole numbers by an operator.", "mathl('+', 1, '2')", 3),
            ("mathi", INT64, "bigint", "Arithmetic of whole numbers by an operator.", "mathi('%', 7, 3)", 1),
            ("mathd", DOUBLE, "double", "Arithmetic of doubles by an operator.", "mathd('+', 1.5, '2.5')", 4.0),
        )
    ),
    _text("bin", "number: any", _bin, "Binary digits of a whole number.", "bin('10')", "1010"),
    _text("hex", "value: any", _hex, "Hexadecimal digits of a whole number, or of a text's bytes.", "hex(255)", "ff"),
    _text("unhex", "digits: any", _unhex, "The text whose bytes are given as hexadecimal digits.", "unhex('41')", "A"),
    _text("decode16", "digits: any", _unhex, "The text whose bytes are given as hexadecimal digits.", "decode16('61 62')", "ab"),
    _text(
        "conv",
        "digits: any, base: any, other: any",
        _conv,
        "The digits of a number in one base written in another, 2 to 36.",
        "conv('ff', 16, '10')",
        "255",
    ),
)
