"""Expressions of several tensors, and how they become the formulas of ``torch.ops.reduce.transform_sum``.

A formula is an expression in postfix notation: ``x * y + x`` is ``x0 x1 mul x0 add``. Only what is listed here is
accepted, and the library makes kernels of a formula's words, so that no text reaches a compiler.
"""

import ast
from functools import lru_cache
from typing import NoReturn

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_COMPARISONS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
# How many arguments each takes.
_FUNCTIONS = {"abs": 1, "isnan": 1, "max": 2, "min": 2, "sqrt": 1, "square": 1, "where": 3}
_ACCEPTED = f"+ - * /, comparisons, and the functions {', '.join(_FUNCTIONS)}"
_MOST_CHARACTERS = 2000


def word_of(number: float) -> str | None:
    """Return how a formula has a number, by which 1, 1.0 and True, and 0.0 and -0.0, differ; None if it cannot."""
    if isinstance(number, int):  # bool, too
        # By way of a range, for which Dynamo makes a constant of an integer that changes; str() it refuses.
        return str(range(int(number)).stop) if abs(number) < 1 << 53 else None
    return number.hex() if number - number == 0 else None


@lru_cache(maxsize=1024)
def parse(expression: str, tensors: tuple[str, ...], numbers: tuple[tuple[str, str], ...]) -> str:
    """Write an expression as a formula, of which ``x0`` is the first of ``tensors``.

    Args:
        expression: The expression.
        tensors: The names of tensors.
        numbers: The names of numbers, and these as `word_of` has them.

    Raises:
        ValueError: The expression has something that is not accepted; the error shows the column.
    """
    if len(expression) > _MOST_CHARACTERS:
        message = f"transform_sum: expression has {len(expression)} characters; accepted are up to {_MOST_CHARACTERS}"
        raise ValueError(message)
    return _Writer(expression, tensors, dict(numbers)).formula()


class _Writer:
    def __init__(self, expression: str, tensors: tuple[str, ...], numbers: dict[str, str]) -> None:
        self._expression = expression
        self._tensors = tensors
        self._numbers = numbers
        self._words: list[str] = []

    def formula(self) -> str:
        text = self._expression.lstrip()
        self._skipped = len(self._expression) - len(text)
        try:
            tree = ast.parse(text, mode="eval")
            self._write(tree.body)
        except SyntaxError as error:
            column = error.offset - 1 if error.offset else len(text)  # 0 where it ends too soon
            self._refuse_at(column, f"{error.msg}; accepted is one expression of {_ACCEPTED}")
        except (RecursionError, MemoryError):
            self._refuse_at(0, "it is nested too deeply; accepted are up to 12 values at a time")
        return " ".join(self._words)

    def _write(self, node: ast.expr) -> None:
        match node:
            case ast.Name(id=name):
                self._name(node, name)
            case ast.Constant(value=bool() | int() | float() as value):
                self._number(node, value)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                self._call(_BINARY[type(op)], left, right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                self._call("neg", operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                self._write(operand)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                self._call(_COMPARISONS[type(op)], left, right)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
                count = _FUNCTIONS[name]
                if len(arguments) != count or any(isinstance(a, ast.Starred) for a in arguments):
                    self._refuse(node, f"{name} has {len(arguments)} arguments; accepted are {count}")
                self._call(name, *arguments)
            case ast.Call(func=ast.Name(id=name)):
                what = "has keyword arguments" if name in _FUNCTIONS else "is no function that is known"
                self._refuse(node, f"{name} {what}; accepted are {_ACCEPTED}")
            case _:
                self._refuse(node, f"{ast.unparse(node)!r} is not accepted; accepted are {_ACCEPTED}")

    def _call(self, word: str, *operands: ast.expr) -> None:
        for operand in operands:
            self._write(operand)
        self._words.append(word)

    def _name(self, node: ast.expr, name: str) -> None:
        if name in self._tensors:
            self._words.append(f"x{self._tensors.index(name)}")
        elif name in self._numbers:
            self._words.append(self._numbers[name])
        else:
            known = ", ".join((*self._tensors, *self._numbers))
            self._refuse(node, f"{name!r} is the name of no tensor or number; accepted are {known}")

    def _number(self, node: ast.expr, value: float) -> None:
        word = word_of(value)
        if word is None:
            self._refuse(node, f"{value} is too large; accepted are integers below 2**53 and finite floats")
        self._words.append(word)

    def _refuse(self, node: ast.expr, why: str) -> NoReturn:
        text = self._expression[self._skipped :]
        lines = text.splitlines(keepends=True)
        line = lines[node.lineno - 1].encode()[: node.col_offset].decode()
        self._refuse_at(sum(len(before) for before in lines[: node.lineno - 1]) + len(line), why)

    def _refuse_at(self, offset: int, why: str) -> NoReturn:
        column = offset + self._skipped
        shown = self._expression.replace("\n", " ")
        raise ValueError(f"transform_sum: column {column + 1}: {why}\n  {shown}\n  {' ' * column}^") from None
