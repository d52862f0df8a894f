"""The plain C++ of the tutorial's programs as Python: words, types and expressions. cpp_statements.py has what is made of them.

It knows what those programs are written in, not all of C++. What it does not know is an error that names the line."""

import keyword
import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<comment>//[^\n]*)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<char>'(?:[^'\\]|\\.)*')"""
    r"""|(?P<number>\d[\d.']*(?:e[+-]?\d+)?F?|\.\d+)|(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)"""
    r"""|(?P<sign><=|>=|==|!=|&&|\|\||\+\+|--|[-+*/]=|->|\#[^\n]*|.)""",
    re.X | re.S,
)
# Members of C++ that are attributes, functions or subscripts of Python.
MEMBERS = {
    **{name: f"{{0}}.{name}" for name in ("shape", "dtype")},
    **{"grad": "{0}.grad", "rank": "{0}.ndim", "dim": "{0}.shape[{1}]", "size": "len({0})", "str": "str({0})", "what": "str({0})"},
    **{"push_back": "{0}.append({1})", "back": "{0}[-1]", "empty": "len({0}) == 0", "token_bytes": "{0}.decode([{1}])"},
}
CONSTANTS = {"true": "True", "false": "False", "nullptr": "None", "INFINITY": "math.inf"}
DTYPES = {"float": "f32", "double": "f64", "std::int32_t": "i32", "std::int64_t": "i64", "data::Token": "i32"}
BINARY = {  # how tightly C++ binds, and Python's word
    "||": (1, "or"), "&&": (2, "and"), "==": (3, "=="), "!=": (3, "!="), "<": (4, "<"), ">": (4, ">"), "<=": (4, "<="),
    ">=": (4, ">="), "+": (5, "+"), "-": (5, "-"), "*": (6, "*"), "/": (6, "/"), "%": (6, "%"),
}  # fmt: skip


class Untranslatable(Exception):
    """Something that this translator does not know, or that Python cannot have."""


@dataclass
class Token:
    kind: str
    text: str
    line: int
    blank: bool  # an empty line is before it


def tokens_of(source):
    tokens, line, blank = [], 1, False
    for match in TOKEN.finditer(source):
        if match.lastgroup == "space":
            blank = blank or match[0].count("\n") > 1
        elif not match[0].startswith("#"):
            tokens.append(Token(match.lastgroup, match[0], line, blank))
            blank = False
        line += match[0].count("\n")
    return [*tokens, Token("end", "", line, False)]


def python_name(name):
    return name + "_" * keyword.iskeyword(name)


def f_string(pattern, values):
    """print's argument: an f-string where the values can stand in it, otherwise a call of format()."""
    holes = re.findall(r"\{\{|\}\}|\{(?:[^{}]|\{\})*\}", pattern)
    nested = sum(hole.count("{}") - (hole == "{}") for hole in holes if hole[1:] != hole[:1])
    count = nested + sum(hole not in ("{{", "}}") for hole in holes)
    if count != len(values):
        raise Untranslatable(f"{count} places for {len(values)} values in {pattern}")
    if nested or any(c in value for value in values for c in "\"'\\{}!:"):
        return f"{pattern}.format({', '.join(values)})"
    values = iter(values)
    filled = re.sub(r"\{\{|\}\}|\{([^{}]*)\}", lambda m: m[0] if m[1] is None else f"{{{next(values)}{m[1]}}}", pattern)
    return f"f{filled}" if count else filled.replace("{{", "{").replace("}}", "}")


class Reader:
    """Reads tokens; `types` has the C++ types of variables, `functions` the results of the file's own functions."""

    def __init__(self, source):
        self.tokens, self.at = tokens_of(source), 0
        self.types, self.functions, self.classes, self.aliases = {}, {}, set(), {}
        self.comments, self.inside = [], 0

    # Words.

    def skip_comments(self):
        while self.tokens[self.at].kind == "comment":
            self.comments.append(self.tokens[self.at])
            self.at += 1

    def peek(self, ahead=0):
        self.skip_comments()
        at = self.at
        for _ in range(ahead):
            at += 1
            while self.tokens[at].kind == "comment":
                at += 1
        return self.tokens[at]

    def take(self, *texts):
        token = self.peek()
        if texts and token.text not in texts:
            raise Untranslatable(f"line {token.line}: '{token.text}' where '{texts[0]}' is expected")
        self.at += 1
        return token.text

    def taken(self, text):
        if self.peek().text != text:
            return False
        self.at += 1
        return True

    def unknown(self, what):
        raise Untranslatable(f"line {self.peek().line}: {what}")

    # Types.

    def type(self):
        """The type here, without const and references, or None, where nothing is taken."""
        begin = self.at
        while self.peek().text in ("const", "constexpr", "static", "explicit"):
            self.take()
        if self.peek().kind != "name":
            self.at = begin
            return None
        text = self.take()
        text = self.aliases.get(text, text) + (self.template_arguments() or "")
        while self.peek().text in ("const", "&", "*"):
            self.take()
        return text

    def template_arguments(self):
        if self.peek().text != "<":
            return ""
        begin, depth, text = self.at, 0, ""
        while True:
            token = self.peek()
            if token.kind not in ("name", "number") and token.text not in "<>,&*()":
                self.at = begin
                return ""
            self.at += 1
            text += token.text
            depth += {"<": 1, ">": -1}.get(token.text, 0)
            if depth == 0:
                return text

    # Expressions: (Python's text, C++'s type where it matters).

    def expression(self):
        text, kind = self.binary(0)
        if self.taken("?"):
            then, kind = self.expression()
            self.take(":")
            return f"{then} if {text} else {self.expression()[0]}", kind
        return text, kind

    def binary(self, least):
        text, kind = self.unary()
        while self.peek().text in BINARY and BINARY[self.peek().text][0] > least:
            strength, sign = BINARY[self.take()]
            text, kind = f"{text} {sign} {self.binary(strength)[0]}", ""
        return text, kind

    def unary(self):
        for sign, word in (("-", "-"), ("!", "not "), ("&", ""), ("*", "")):
            if self.taken(sign):
                return word + self.unary()[0], ""
        return self.postfix(*self.primary())

    def primary(self):
        token = self.peek()
        if token.text == "(":
            self.take()
            text, kind = self.expression()
            self.take(")")
            return f"({text})", kind
        if token.text == "[":
            return self.function_here(), ""
        if token.text == "{":
            return self.braces(), ""
        self.take()
        if token.kind == "text":
            text = token.text
            while self.peek().kind == "text":
                text = text[:-1] + self.take()[1:]
            return text, "std::string"
        if token.kind in ("number", "char"):
            return token.text.rstrip("F").replace("'", "" if token.kind == "number" else "'"), ""
        if token.kind != "name":
            self.unknown(f"'{token.text}' begins no expression")
        return self.named(token.text)

    def named(self, name):
        if name in ("fmt::print", "fmt::format"):
            return self.formatted(name)
        if name in CONSTANTS:
            return CONSTANTS[name], ""
        if name in self.types:
            return python_name(name), self.types[name]
        if name in self.functions or name in self.classes:
            return python_name(name), self.functions.get(name, "")
        name = re.sub("<.*", "", self.aliases.get(name, name))
        template = self.template_arguments() if name in ("static_cast", "Tensor::from") or name.startswith("std::") else ""
        if name == "static_cast":
            self.take("(")
            text, _ = self.expression()
            self.take(")")
            return f"({text})" if " " in text else text, ""
        if name == "Tensor::from":
            return self.tensor(DTYPES.get(template[1:-1])), "Tensor"
        return self.library_name(name), ""

    def library_name(self, name):
        space, _, last = name.rpartition("::")
        if space == "std":
            return {"pair": "", "abs": "abs"}.get(last, f"math.{last}")
        if space == "data::Tokenizer":
            return f"tg.Tokenizer.{last}"
        if space and space[0].isupper() and space not in ("Tensor", "DType"):
            return f'"{last}"'  # a value of an enum
        return f"nn.{last}" if space == "nn" else f"tg.{last}"

    def tensor(self, dtype):
        self.take("(")
        begin = self.at
        values, kind = self.expression()
        self.take(",")
        shape = self.expression()[0]
        self.take(")")
        dtype = dtype or DTYPES.get((re.search(r"vector<(.*)>", kind) or [""] * 2)[1])
        if dtype is None:
            self.at = begin
            self.unknown("a tensor of unknown dtype")
        made = f"tg.tensor({values}, tg.{dtype})"
        flat = re.fullmatch(r"\[(\w+|[^\[\],]*)\]", shape)
        return made if flat else f"{made}.view({shape})"

    def arguments(self, close):
        """Python's arguments up to the closing bracket; a struct of options becomes keywords."""
        found = []
        while not self.taken(close):
            if self.peek().text == "{" and self.peek(1).text == ".":
                found += self.keywords()
            elif self.peek().text == "{" and self.peek(1).text == "}":
                self.take(), self.take()
                found.append("None")
            else:
                found.append(self.expression()[0])
            if self.peek().text != close:
                self.take(",")
        return found

    def keywords(self):
        self.take("{")
        found = []
        while not self.taken("}"):
            self.take(".")
            name = self.take()
            self.take("=")
            found.append(f"{python_name(name)}={self.expression()[0]}")
            self.taken(",")
        return found

    def braces(self):
        """A list, or a dict of names and tensors."""
        self.take("{")
        found = self.arguments("}")
        pairs = [re.fullmatch(r'\[("[^"]*"), (.*)\]', item) for item in found]
        if pairs and all(pairs):
            return "{" + ", ".join(f"{pair[1]}: {pair[2]}" for pair in pairs) + "}"
        return f"[{', '.join(found)}]"

    def postfix(self, text, kind):
        while True:
            if self.taken("("):
                text, kind = self.call(text, kind)
            elif self.taken("["):
                key = self.braces()[1:-1] if self.peek().text == "{" else self.expression()[0]
                text, kind = f"{text}[{key}]", ""
                self.take("]")
            elif self.peek().text in (".", "->") and self.peek(1).kind == "name":
                self.take()
                text, kind = self.member(text, self.take())
            else:
                return text, kind

    def call(self, text, kind):
        arguments = self.arguments(")")
        if text == "tg.join":
            return f"{arguments[1]}.join(map(str, {arguments[0]}))", "std::string"
        if text == "math.string":
            return arguments[-1], "std::string"
        return f"{text}({', '.join(arguments)})", kind

    def member(self, owner, name):
        template = self.template_arguments() if self.peek().text == "<" and name in ("values", "mutable_data") else ""
        if template:
            self.unknown(f"{name}{template}")
        if not self.taken("("):
            place = {"first": "[0]", "second": "[1]"}
            return f"{owner}{place.get(name, '.' + python_name(name))}", ""
        arguments = self.arguments(")")
        if name == "emplace_back":
            return self.emplace(owner, arguments), ""
        if name == "insert":
            return f"{owner}.extend({self.elements(*arguments)})", ""
        if name == "at" and arguments[0].startswith("["):
            return f"{owner}{arguments[0]}.item()", ""
        if name == "size" and self.types.get(owner) == "std::string":
            return f"len({owner}.encode())", ""
        if name in MEMBERS and self.types.get(owner) != "Tape" and (MEMBERS[name].count("{") > 1) == bool(arguments):
            return MEMBERS[name].format(owner, ", ".join(arguments)), ""
        return f"{owner}.{name}({', '.join(arguments)})", ""

    def elements(self, at, begin, end):
        """What insert() puts at the end: elements between two iterators."""
        first, last = re.fullmatch(r"(\w+)\.begin\(\)(?: \+ (\w+))?", begin), re.fullmatch(r"(\w+)\.end\(\)(?: - (\w+))?", end)
        if not at.endswith(".end()") or first is None or last is None:
            self.unknown("insert() of something else")
        return f"{first[1]}[{first[2] or ''}:{'-' + last[2] if last[2] else ''}]"

    def emplace(self, owner, arguments):
        made_of = re.search(r"vector<(.*)>", self.types.get(owner, ""))
        if made_of is None:
            self.unknown(f"{owner}.emplace_back")
        return f"{owner}.append({self.made(made_of[1], arguments)})"

    # Printing.

    def formatted(self, name):
        """fmt::print or fmt::format, behind its name."""
        self.take("(")
        if self.peek().kind == "text":
            pattern, values = self.arguments_of_format()
            if name == "fmt::format":
                return f_string(pattern, values), "std::string"
            if pattern == r'"\n"':
                return "print()", ""
            if pattern.endswith(r'\n"'):
                return "print(" + f_string(pattern[:-3] + '"', values) + ")", ""
            return "print(" + f_string(pattern, values) + ', end="")', ""
        if not self.taken("fmt::runtime"):
            self.unknown("a format that is no text")
        self.take("(")
        pattern = self.expression()[0]
        self.take(")"), self.take(",")
        return f'print({pattern}.format({", ".join(self.arguments(")"))}), end="")', ""

    def arguments_of_format(self):
        pattern, *values = self.arguments(")")
        return pattern, values
