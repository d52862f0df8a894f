"""Reads the declarations of tapegrad's public headers: functions, structs and enums, each with the comment that describes it.

It knows the plain C++ that those headers are written in, not all of C++. What it does not know is an error."""

import re
from dataclasses import dataclass, field


class Unreadable(Exception):
    """A declaration that this parser does not know, or that Python cannot have."""


@dataclass
class Parameter:
    type: str
    name: str
    default: str | None


@dataclass
class Function:
    name: str
    result: str
    parameters: list[Parameter]
    comment: str
    header: str


@dataclass
class Struct:
    name: str
    comment: str
    fields: list[Parameter]
    problem: str | None = None  # why its fields are unreadable


@dataclass
class Declarations:
    functions: list[Function] = field(default_factory=list)
    structs: dict[str, Struct] = field(default_factory=dict)
    enums: dict[str, list[str]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)  # names of classes and of other types


def split_outside(text, separator):
    """Parts of the text between separators that stand in no bracket."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        if c in "<({[":
            depth += 1
        elif c in ">)}]":
            depth -= 1
        elif c == separator and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    parts.append(text[begin:])
    return [part.strip() for part in parts if part.strip()]


def statements(text):
    """(comment, statement, glued) for each statement at the level of the namespace: `comment` is what stands directly above or
    behind, `glued` says that no empty line and no comment separates it from the statement before."""
    comment, code, behind, glued = [], "", "", False
    for line in text.splitlines():
        stripped = line.strip()
        if not code:
            if not stripped:
                comment, glued = [], False
                continue
            if stripped.startswith("//"):
                comment.append(stripped[2:].strip())
                continue
            if stripped.startswith(("#", "namespace ", "}  // namespace")):
                continue
        own, _, remark = line.partition("//")
        behind = behind or (remark.strip() if not code else "")
        code += own.rstrip() + "\n"
        if code.count("{") == code.count("}") and code.count("(") == code.count(")") and re.search(r"[;}]\s*$", code):
            yield " ".join(comment) or behind, code, glued and not comment
            comment, code, behind, glued = [], "", "", True


def read_parameter(text):
    declaration, _, default = text.partition("=")
    match = re.fullmatch(r"(.*[\s&*>])(\w+)", declaration.strip(), re.S)
    if match is None:
        raise Unreadable(f"the parameter '{text}'")
    return Parameter(" ".join(match[1].split()), match[2], " ".join(default.split()) or None)


def read_fields(body):
    """Fields of a struct of plain data. Constructors make it unreadable."""
    fields = []
    for statement in split_outside(body, ";"):
        if statement.startswith(("enum ", "static ", "constexpr ")) or "operator" in statement:
            if not statement.startswith("enum "):
                raise Unreadable(f"'{statement.splitlines()[0]}'")
            continue
        first, *more = split_outside(" ".join(statement.split()), ",")
        fields.append(read_parameter(first))
        fields += [read_parameter(f"{fields[-1].type} {other}") for other in more]
    return fields


def read_enums(code, prefix, found):
    code = re.sub(r"//.*", "", code)
    for name, values in re.findall(r"enum class (\w+)[^{;]*\{([^}]*)\}", code):
        found.enums[prefix + name] = [value.strip() for value in values.split(",") if value.strip()]


def read_struct(name, code, comment, found):
    body = code[code.index("{") + 1 : code.rindex("}")]
    read_enums(body, f"{name}::", found)
    struct = Struct(name, comment, [])
    try:
        struct.fields = read_fields(body)
    except Unreadable as problem:
        struct.problem = str(problem)
    found.structs[name] = struct


def read_function(code, comment, header):
    declaration = re.sub(r"\{.*\}\s*$", "", code, flags=re.S) if code.startswith("inline ") else code
    match = re.fullmatch(r"(?:inline )?([\w:<>&\s]+?)\s*(operator\S+?|\w+)\((.*)\);?\s*", declaration, re.S)
    if match is None:
        raise Unreadable(f"{header}: '{code.strip()}'")
    parameters = [read_parameter(text) for text in split_outside(" ".join(match[3].split()), ",")]
    return Function(match[2], " ".join(match[1].split()), parameters, comment, header)


def described(function, before, struct_comment):
    """The function's comment: that of the declaration above serves it, too, if it is an overload, if the comment names the
    function, or if it describes the options of the function."""
    if function.comment:
        return function.comment
    if before and (before.name == function.name or re.search(rf"\b{function.name}\b", before.comment)):
        return before.comment
    return struct_comment


def read_header(path, name, found):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, struct_comment = None, ""
    for comment, code, glued in statements(text):
        if not glued:
            before, struct_comment = None, ""
        if match := re.match(r"(?:struct|class) (\w+)\s*\{", code):
            if code.startswith("class"):
                found.others.append(match[1])
            else:
                read_struct(match[1], code, comment, found)
                struct_comment = comment
        elif code.startswith("enum class"):
            read_enums(code, "", found)
        elif match := re.match(r"using (\w+) =", code):
            found.others.append(match[1])
        elif not re.match(r"(struct|class) \w+;|inline constexpr |template ", code):
            function = read_function(code, comment, name)
            function.comment = described(function, before, struct_comment)
            found.functions.append(function)
            before = function
