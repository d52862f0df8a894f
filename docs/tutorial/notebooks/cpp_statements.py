"""Statements, functions and classes of the tutorial's C++ programs as Python: program() is all of one."""

import re
from dataclasses import dataclass, field

from cpp_reader import Reader, python_name

INDENT = "    "
SCOPES = {"Tape": "tg.Tape()", "TapePause": "tg.TapePause()"}  # objects that end with their block
LAYER = re.compile(r"nn::(?!Params)\w+")


@dataclass
class Part:
    """What stands between two empty lines of lesson(), or a declaration outside of it."""

    lines: list[str] = field(default_factory=list)


class Program(Reader):
    def __init__(self, source):
        super().__init__(source)
        self.source = source
        self.params = {}  # C++'s nn::Params: the generator that Python has in its place, and the dtype

    # What is outside of functions.

    def program(self):
        """(the comment at the head, the declarations, the parts of lesson())."""
        self.skip_comments()
        head, declarations, lesson = " ".join(self.take_comments()).replace("# ", ""), [], []
        while self.peek().kind != "end":
            if self.taken("using"):
                self.alias()
            elif self.taken("namespace"):
                self.take("{")
            elif self.taken("}"):
                self.comments.clear()
            elif self.peek().text == "int" and self.peek(1).text == "main":
                break
            elif self.peek().text == "int" and self.peek(1).text == "lesson":
                for word in ("int", "lesson", "(", ")", "{"):
                    self.take(word)
                lesson = self.lesson()
            else:
                declarations.append(self.declared_outside())
        return head, declarations, lesson

    def declared_outside(self):
        glued, comments = not self.next_is_behind_blank(), self.take_comments()
        if self.peek().text == "struct":
            return Part([*comments, *self.struct()]), False
        is_function = self.is_function()
        lines = self.function("") if is_function else self.declaration("")
        return Part([*comments, *self.with_remark(lines)]), glued and not is_function

    def alias(self):
        name = self.take()
        if self.taken("="):
            self.aliases[name] = self.type()
        elif name == "namespace":
            self.take()
        self.take(";")
        self.with_remark([""])

    def is_function(self):
        """At a declaration: true if it is one of a function."""
        begin = self.at
        self.type(), self.take()
        found = self.taken("(") and (self.peek().text == ")" or (self.type() is not None and self.peek().kind == "name"))
        self.at = begin
        return found

    def lesson(self):
        parts, indent = [], ""
        while self.peek().text != "}":
            if not parts or (self.next_is_behind_blank() and not indent):
                parts.append(Part())
            lines, indent = self.statement(indent)
            parts[-1].lines += [line for line in lines if line.strip() != "return 0"]
        self.take()
        return [part for part in parts if part.lines]

    # Comments and empty lines.

    def next_is_behind_blank(self):
        self.skip_comments()
        return (self.comments[0] if self.comments else self.tokens[self.at]).blank

    def take_comments(self):
        self.skip_comments()
        found, self.comments = ["# " + c.text[2:].strip() for c in self.comments], []
        return found

    def with_remark(self, lines):
        """Lines of a statement that has been read, with the comment behind it."""
        self.comments.clear()
        behind = self.tokens[self.at]
        if behind.kind == "comment" and behind.line == self.tokens[self.at - 1].line:
            self.at += 1
            lines[-1] += "  # " + behind.text[2:].strip()
        return lines

    # Functions and classes.

    def parameters(self):
        self.take("(")
        found = []
        while not self.taken(")"):
            kind, name = self.type(), self.take()
            self.types[name] = kind
            if kind == "nn::Params":
                self.params[name] = (name, "")
            found.append(python_name(name) + (f"={self.expression()[0]}" if self.taken("=") else ""))
            self.taken(",")
        return ", ".join(found)

    def function(self, indent):
        result, name = self.type(), self.take()
        self.functions[name] = result
        return self.defined(indent, name)

    def defined(self, indent, name):
        known = dict(self.types)
        head = f"{indent}def {python_name(name)}({self.parameters()}):"
        lines = [head, *self.block(indent + INDENT)]
        self.types = known
        return lines

    def function_here(self):
        """A function without a name, which returns at once."""
        self.captures()
        known = dict(self.types)
        parameters = self.parameters()
        self.take("{"), self.take("return")
        text = self.expression()[0]
        self.take(";"), self.take("}")
        self.types = known
        return f"lambda {parameters}: {text}"

    def captures(self):
        while self.take() != "]":
            pass

    def struct(self):
        """Of members that the constructor's list makes."""
        self.take("struct")
        name, members = self.take(), {}
        self.take("{")
        self.classes.add(name)
        while not (self.peek().text == name or self.peek().text == "explicit"):
            kind = self.type()
            while not self.taken(";"):
                members[self.take()] = kind
                self.taken(",")
        self.taken("explicit"), self.take(name)
        known = dict(self.types)
        lines = [f"class {name}:", f"{INDENT}def __init__(self, {self.parameters()}):"]
        self.take(":")
        while True:
            member = self.take()
            self.take("(")
            lines.append(f"{INDENT * 2}self.{member} = {self.made(members[member], self.arguments(')'))}")
            if not self.taken(","):
                break
        for word in ("{", "}", "}", ";"):
            self.take(word)
        self.types = known
        self.comments.clear()
        return lines

    # Statements: (lines, the indent of those that follow in the block).

    def block(self, indent):
        if not self.taken("{"):
            return self.statement(indent)[0]
        lines, first = [], indent
        remark = self.with_remark([""])[0]
        while self.peek().text != "}":
            blank = self.next_is_behind_blank() and lines
            found, indent = self.statement(indent)
            lines += [""] * bool(blank) + found
        self.take()
        return [first + remark.strip()] * bool(remark) + lines

    def statement(self, indent):
        comments = [indent + comment for comment in self.take_comments()]
        word = self.peek().text
        if word in ("for", "if", "try"):
            return comments + {"for": self.loop, "if": self.condition, "try": self.attempt}[word](indent), indent
        if word in ("return", "continue"):
            self.take()
            value = "" if self.peek().text == ";" else " " + self.expression()[0]
            self.take(";")
            return comments + self.with_remark([f"{indent}{word}{value}"]), indent
        if self.is_declaration():
            if word in SCOPES or self.peek(1).text in SCOPES:
                return self.scope(indent, comments)
            lines = self.declaration(indent)
            return comments + (self.with_remark(lines) if lines else []), indent
        text = self.assignment()
        self.take(";")
        return comments + self.with_remark([indent + text]), indent

    def is_declaration(self):
        begin = self.at
        found = self.type() is not None and (self.peek().kind == "name" or self.peek().text == "[")
        found = found and (self.peek().text != "[" or self.tokens[self.at - 1].text in ("auto", "&"))
        self.at = begin
        return found

    def scope(self, indent, comments):
        kind, name = self.type(), self.take()
        self.types[name] = kind
        self.take(";")
        known_as = f" as {name}" if kind == "Tape" else ""
        return comments + self.with_remark([f"{indent}with {SCOPES[kind]}{known_as}:"]), indent + INDENT

    def assignment(self):
        if self.taken("++"):
            return f"{self.expression()[0]} += 1"
        text = self.expression()[0]
        if self.peek().text not in ("=", "+=", "-=", "*=", "/="):
            return text
        return f"{text} {self.take()} {self.expression()[0]}"

    def loop(self, indent):
        self.take("for"), self.take("(")
        names = self.names(self.type())
        values = self.counted(names[0]) if self.taken("=") else self.each(len(names))
        self.take(")")
        lines = [f"{indent}for {', '.join(map(python_name, names))} in {values}:"]
        return lines + self.block(indent + INDENT)

    def names(self, kind):
        """One name, or [several], as variables."""
        if not self.taken("["):
            self.types[self.peek().text] = kind
            return [self.take()]
        names = []
        while not self.taken("]"):
            names.append(self.take())
            self.types[names[-1]] = ""
            self.taken(",")
        return names

    def each(self, count):
        self.take(":")
        values, kind = self.expression()
        if kind.startswith("std::map"):
            return f"sorted({values}.items())"
        return f"{values}.items()" if count == 2 and values.endswith(".parameters()") else values

    def counted(self, name):
        """begin; name < end; ++name) as a range."""
        begin = self.expression()[0]
        self.take(";"), self.take(name)
        less = int(self.take()) if self.taken("+") else 0
        more = int(self.take("<", "<=") == "<=") - less
        end = self.expression()[0]
        self.take(";"), self.take("++"), self.take(name)
        if more:
            end = str(int(end) + more) if end.isdigit() else f"{end} {'-' if more < 0 else '+'} {abs(more)}"
        return f"range({end})" if begin == "0" else f"range({begin}, {end})"

    def condition(self, indent):
        self.take("if"), self.take("(")
        lines = [f"{indent}if {self.expression()[0]}:"]
        self.take(")")
        lines += self.block(indent + INDENT)
        if self.taken("else"):
            lines += [f"{indent}else:", *self.block(indent + INDENT)]
        return lines

    def attempt(self, indent):
        self.take("try")
        lines = [f"{indent}try:", *self.block(indent + INDENT)]
        self.take("catch"), self.take("(")
        self.type()
        name = self.take()
        self.types[name] = "Error"
        self.take(")")
        return [*lines, f"{indent}except tg.Error as {name}:", *self.block(indent + INDENT)]

    # Declarations of variables.

    def declaration(self, indent):
        kind, lines = self.type(), []
        while True:
            if self.peek().text == "[":
                names = self.names(kind)
                self.take("=")
                lines.append(f"{indent}{', '.join(map(python_name, names))} = {self.expression()[0]}")
            else:
                lines += self.variable(kind, indent)
            if not self.taken(","):
                break
        self.take(";")
        return lines

    def variable(self, kind, indent):
        name = self.take()
        if self.taken("["):
            self.take("]")
        if self.peek().text == "=" and self.peek(1).text == "[":
            self.take(), self.captures()
            self.functions[name] = ""
            return self.defined(indent, name)
        self.types[name] = kind
        if kind == "nn::Params":
            return self.generator(name, indent)
        if self.taken("="):
            value, found = self.expression()
            if kind == "auto":
                self.types[name] = found
            return [f"{indent}{python_name(name)} = {value}"]
        arguments = self.arguments(")") if self.taken("(") else []
        inside = LAYER.fullmatch(kind) and re.fullmatch(r'(\w+) / "(\w+)"', arguments[0]) if arguments else None
        member = f"{inside[1]}.{inside[2]} = " if inside and self.has_module(inside[1]) else ""
        return [f"{indent}{python_name(name)} = {member}{self.made(kind, arguments)}"]

    def has_module(self, params):
        return f"{params}.parameters()" in self.source

    def generator(self, name, indent):
        self.take("(")
        rng, *dtype = self.arguments(")")
        self.params[name] = (rng, "".join(f", dtype={d}" for d in dtype))
        return [f"{indent}{name} = nn.Module()"] if self.has_module(name) else []

    def made(self, kind, arguments):
        """An object of a C++ type: the generator stands in the place of nn::Params."""
        kind, dtype = self.aliases.get(kind, kind), ""
        for i, argument in enumerate(arguments):
            if anew := re.fullmatch(r"\(?nn\.Params\((\w+)\)\)?", argument):
                arguments[i] = anew[1]
            elif (path := re.fullmatch(r"(\w+)( / .*)?", argument)) and path[1] in self.params:
                arguments[i], dtype = self.params[path[1]]
        given = ", ".join(arguments)
        if kind.startswith("std::vector"):
            return f"[0.0] * {given}" if given else "[]"
        if kind.startswith(("std::map", "std::pair")):
            return "collections.defaultdict(int)" if kind.startswith("std::map") else "(0, 0)"
        if kind == "nn::GPT":
            return f"tg.Decoder({given}, gpt2_weights=False)"  # as PyTorch draws them
        if kind in ("double", "int", "std::string"):
            return '""' if kind == "std::string" else given or "0"
        if LAYER.fullmatch(kind):
            return f"nn.{kind[4:]}({given}{dtype})"
        if kind in self.classes:
            return f"{kind}({given})"
        return f"tg.{kind.rpartition('::')[2]}({given})"
