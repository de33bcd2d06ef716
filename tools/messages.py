"""Writes every error message of the packages to tests/messages.txt: `python -m tools.messages`.

A row has {} for values that a message fills in; the diff of the file shows what users will read.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("lambda_keras", "zoo")
ROWS = ROOT / "tests" / "messages.txt"


def _received(call: ast.Call) -> str:
    return "Received: " + ", ".join(f"{keyword.arg or '{}'}={{}}" for keyword in call.keywords)


# Message templates of functions that make errors: {0} is the first argument.
FORMS = {
    "refusal": "{0}. Received: {1}",
    "_fault": "expected {0}, received {1}",
    "require": "{1}. Received: {2}",
    "check_known": "{2}. {{}}",
    "errors_of": "{0}: {{}}",
    "needs": "{2} needs {0}. Received: {1}",
    "Needs": "{2}. Received: {3}",
    "check": "expected {1}. {received}",
    "check_number": "expected {1}. {received}",
    "self.require": "expected {1}",
    "Constraint": "expected {0}",
    "number": "expected {0}",
}


class _Messages(ast.NodeVisitor):
    """The messages of a module: of errors, of `FORMS`, and other texts that say "expected"."""

    def __init__(self, tree: ast.Module):
        self.rows: set[str] = set()
        self._others: set[str] = set()
        self._local: dict[str, str] = {}  # texts by the variables of a function
        self.visit(tree)
        whole = "\n".join(self.rows)
        self.rows |= {text for text in self._others if text not in whole}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before, self._local = self._local, dict(self._local)
        self.generic_visit(node)
        self._local = before

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        self._local[ast.unparse(node.targets[0])] = self._template(node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.generic_visit(node)
        self._local[node.target.id] = self._template(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        if name in FORMS and len(node.args) > (name != "errors_of"):
            texts = [*map(self._template, node.args), "{}"]
            self._add(FORMS[name].format(*texts, received=_received(node)))
        elif name.endswith(("Error", "Refused", "_LeftOut")):
            for argument in node.args:
                self._add(self._template(argument))
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        if isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) not in FORMS:
            for argument in node.exc.args:
                self._add(self._template(argument))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # docstrings are no messages
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        self._other(self._template(node))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._other(self._template(node))
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                self.visit(value)

    def _add(self, text: str) -> None:
        if any(char.isalpha() for char in text):
            self.rows.add(text)

    def _other(self, text: str) -> None:
        if "expected " in text or "Received: " in text:
            self._others.add(text)

    def _template(self, node: ast.AST) -> str:
        """Returns the text of an expression, with {} for parts known at run time only."""
        match node:
            case ast.Constant(str(text)):
                return re.sub(r"\{\w+(:\w)?\}", "{}", " ".join(text.split("\n")))
            case ast.JoinedStr(values):
                return "".join(map(self._template, values))
            case ast.FormattedValue(value):
                return self._template(value)
            case ast.BinOp(left, ast.Add(), right):
                return self._template(left) + self._template(right)
            case ast.BinOp(_, ast.Mult(), ast.JoinedStr() as text):
                return f"{{|{self._template(text)}}}"
            case ast.IfExp(_, first, second) | ast.BoolOp(ast.Or(), [first, second]):
                texts = dict.fromkeys(map(self._template, (first, second)))
                return f"{{{'|'.join(texts)}}}" if len(texts) > 1 else next(iter(texts))
            case ast.Name(name) if name in self._local:
                return self._local[name]
            case ast.Call(ast.Name("received")):
                return _received(node)
        return "{}"


def messages() -> set[str]:
    """Returns all messages, each after its room, a part of `zoo` or a package."""
    texts = set()
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        package, *parts = path.relative_to(ROOT).parts
        room = parts[0] if package == "zoo" and len(parts) > 1 else package
        rows = _Messages(ast.parse(path.read_text("utf-8"))).rows
        texts |= {f"{room}: {row}" for row in rows}
    return texts


if __name__ == "__main__":
    ROWS.write_text("".join(f"{row}\n" for row in sorted(messages())), "utf-8")
