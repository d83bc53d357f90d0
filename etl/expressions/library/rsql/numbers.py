"""Script functions of numbers: doubles, of texts too, and null for what is not a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.rsql.arguments import as_double, by_text, of_doubles, text_of
from etl.expressions.widening import DOUBLE

_NULL = "null if an argument is null or not a number, or the result is not defined"


def _function(name: str, kernel: Callable[..., Any], about: str, example: str, gives: float, count: int = 1) -> LibraryFunction:
    arguments = ", ".join(("number", "other")[at] + ": any" for at in range(count))
    return LibraryFunction(f"rsql_{name}", arguments, "double", of_doubles(kernel), about, f"rsql_{example}", gives, null=_NULL)


def _cbrt(value: Any) -> Any:
    return pc.multiply(pc.sign(value), pc.power(pc.abs(value), 1 / 3))


def _of_numpy(function: Callable[[Any], Any], value: Any) -> Any:
    """A function of numpy on a column or a constant of doubles."""
    import numpy as np

    with np.errstate(all="ignore"):  # infinity is a result
        if isinstance(value, pa.Scalar):
            return pa.scalar(float(function(value.as_py())) if value.is_valid else None, DOUBLE)
        missing = value.is_null().to_numpy(zero_copy_only=False)
        return pa.array(function(pc.fill_null(value, 0.0).to_numpy(zero_copy_only=False)), DOUBLE, mask=missing)


def _hyperbolic(name: str) -> Callable[[Any], Any]:
    def kernel(value: Any) -> Any:
        import numpy as np

        return _of_numpy(getattr(np, name), value)

    return kernel


def _division(value: Any, by: Any) -> Any:
    """The quotient, to three decimals, as RocketMQ Streams gives it; null for a division by zero."""
    by = pc.if_else(pc.equal(by, 0.0), pa.scalar(None, DOUBLE), by)
    return pc.round(pc.divide(value, by), 3)


def _round_with(mode: str) -> Callable[..., float | None]:
    """Rounds a text's number to digits, in one of the modes of `decimal`."""

    def call(text: str, digits: str = "0") -> float | None:
        import decimal

        try:
            return float(decimal.Decimal(text).quantize(decimal.Decimal(1).scaleb(-int(digits)), getattr(decimal, mode)))
        except (ArithmeticError, ValueError):
            return None

    return call


_NO_NUMBER = "null if an argument is null or not a number"


def _rounding_function(name: str, mode: str, about: str, example: str, gives: float) -> LibraryFunction:
    build = by_text(DOUBLE, _round_with(mode))
    return LibraryFunction(
        f"rsql_{name}",
        "number: any, digits: any?",
        "double",
        build,
        about,
        f"rsql_{example}",
        gives,
        null=_NO_NUMBER,
        loops=True,
    )


def _radians(value: BoundNode) -> BoundNode:
    import math

    return text_of(b.apply(DOUBLE, lambda x: pc.multiply(pc.divide(x, 180.0), math.pi), as_double(value)))


def _log_of(base: Any, value: Any) -> Any:
    return pc.logb(value, base)


def _in_degrees(value: Any) -> Any:
    import math

    return pc.divide(pc.multiply(value, 180.0), math.pi)


FUNCTIONS = (
    _function("abs", pc.abs, "Absolute value of a number.", "abs('-3.7')", 3.7),
    _function("acos", pc.acos, "Arc cosine in radians.", "acos(1)", 0.0),
    _function("asin", pc.asin, "Arc sine in radians.", "asin(0)", 0.0),
    _function("atan", pc.atan, "Arc tangent in radians.", "atan(0)", 0.0),
    _function("ceil", pc.ceil, "Smallest whole number not below the argument.", "ceil('2.1')", 3.0),
    _function("floor", pc.floor, "Largest whole number not above the argument.", "floor('-3.7')", -4.0),
    _function("cbrt", _cbrt, "Cube root.", "cbrt(1)", 1.0),
    _function("cos", pc.cos, "Cosine of radians.", "cos('0')", 1.0),
    _function("cosh", _hyperbolic("cosh"), "Hyperbolic cosine.", "cosh(0)", 1.0),
    _function("cot", lambda x: pc.divide(1.0, pc.tan(x)), "Cotangent of radians.", "cot('0.5')", 1.830487721712452),
    _function("degrees", _in_degrees, "Radians to degrees.", "degrees('3.141592653589793')", 180.0),
    _function("exp", pc.exp, "Euler's number raised to the argument.", "exp(0)", 1.0),
    _function("ln", pc.ln, "Natural logarithm.", "ln(1)", 0.0),
    _function("log10", pc.log10, "Logarithm to base 10.", "log10('1000')", 3.0),
    _function("log2", pc.log2, "Logarithm to base 2.", "log2(8)", 3.0),
    _function("log", _log_of, "Logarithm of the second argument to the base that the first is.", "log(2, 8)", 3.0, 2),
    _function("power", pc.power, "First argument raised to the second.", "power('2', '10')", 1024.0, 2),
    _function("sign", pc.sign, "Sign of a number: -1, 0 or 1.", "sign('-3.7')", -1.0),
    _function("sin", pc.sin, "Sine of radians.", "sin(0)", 0.0),
    _function("sinh", _hyperbolic("sinh"), "Hyperbolic sine.", "sinh(0)", 0.0),
    _function("sqrt", pc.sqrt, "Square root.", "sqrt('16')", 4.0),
    _function("tan", pc.tan, "Tangent of radians.", "tan(0)", 0.0),
    _function("tanh", _hyperbolic("tanh"), "Hyperbolic tangent.", "tanh(0)", 0.0),
    _function("addition", pc.add, "Sum of two numbers.", "addition('7', 2.5)", 9.5, 2),
    _function("subtraction", pc.subtract, "Difference of two numbers.", "subtraction(2.5, '7')", -4.5, 2),
    _function("multiplication", pc.multiply, "Product of two numbers.", "multiplication(7, '3')", 21.0, 2),
    _function("division", _division, "Quotient of two numbers to three decimals; null by zero.", "division(7, 3)", 2.333, 2),
    _rounding_function("round", "ROUND_HALF_UP", "Round half up to a number of decimals.", "round('2.345', '2')", 2.35),
    _rounding_function("bround", "ROUND_HALF_EVEN", "Round half to even, to a number of decimals.", "bround('2.5')", 2.0),
    _rounding_function("trunc", "ROUND_DOWN", "Cut a number after a number of decimals.", "trunc('-3.79', 1)", -3.7),
    LibraryFunction(
        "rsql_radians",
        "number: any",
        "string",
        _radians,
        "Degrees to radians, as a text.",
        "rsql_radians(180)",
        "3.141592653589793",
        null=_NULL,
    ),
)
