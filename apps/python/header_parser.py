"""Reads the declarations of tapegrad's public headers: functions, structs and enums, each with the comment that describes it.

It knows the plain C++ that those headers are written in, not all of C++. What it does not know is an error."""

import re
from dataclasses import dataclass, field


class Unreadable(Exception):
    """A declaration that this parser does not know, or that Python cannot have."""


class NoFunction(Unreadable):
    """A declaration that is none of a function."""


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
    header: str  # where it is, for messages
    space: str  # tapegrad::optim
    static: bool = False


@dataclass
class Struct:
    name: str  # with the struct around it: RNN::Result
    comment: str
    space: str  # tapegrad::nn
    fields: list[Parameter] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)  # public members; constructors have the struct's own name
    problem: str | None = None  # why it is no struct of plain data
    base: str | None = None


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
    """(comment, statement, glued) for each statement of a namespace or a class, `public:` and `private:` among them: `comment` is
    what stands directly above or behind, `glued` says that no empty line and no comment separates it from the one before. A struct
    has its comments inside."""
    comment, code, whole, behind, glued = [], "", "", "", False
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
        code, whole = code + own.rstrip() + "\n", whole + line + "\n"
        balanced = code.count("{") == code.count("}") and code.count("(") == code.count(")")
        if code.strip() in ("public:", "private:") or (balanced and re.search(r"[;}]\s*$", code)):
            is_struct = re.match(r"\s*(struct|class) .*\{", code)
            yield " ".join(comment) or behind, (whole if is_struct else code).strip(), glued and not comment
            comment, code, whole, behind, glued = [], "", "", "", True


def read_parameter(text):
    declaration, _, default = text.partition("=")
    match = re.fullmatch(r"(.*[\s&*>])(\w+)", declaration.strip(), re.S)
    if match is None:
        raise Unreadable(f"the parameter '{text}'")
    return Parameter(" ".join(match[1].split()), match[2], " ".join(default.split()) or None)


def read_fields(statement):
    fields = []
    for declaration in split_outside(statement, ";"):
        first, *more = split_outside(" ".join(declaration.split()), ",")
        fields.append(read_parameter(first))
        fields += [read_parameter(f"{fields[-1].type} {other}") for other in more]
    return fields


def read_enums(code, prefix, found):
    code = re.sub(r"//.*", "", code)
    for name, values in re.findall(r"enum class (\w+)[^{;]*\{([^}]*)\}", code):
        found.enums[prefix + name] = [value.strip() for value in values.split(",") if value.strip()]


def read_member(struct, statement, comment, before):
    """Adds a public member; the function that it is, if it is one."""
    try:
        function = read_function(statement, comment, struct.name, struct.space)
    except NoFunction:
        struct.fields += read_fields(statement)
        return None
    if function.name == struct.name:
        struct.problem = f"'{statement.splitlines()[0]}'"
    function.comment = described(function, before, "")
    struct.functions.append(function)
    return function


def read_struct(name, code, comment, space, found):
    body = code[code.index("{") + 1 : code.rindex("}")]
    read_enums(body, f"{name}::", found)
    struct = found.structs[name] = Struct(name, comment, space)
    public, before = code.startswith("struct"), None
    for comment, statement, glued in statements(body):
        if statement in ("public:", "private:"):
            public = statement == "public:"
        elif public and (match := re.match(r"struct (\w+) \{", statement)):
            read_struct(f"{name}::{match[1]}", statement, comment, space, found)
        elif public and (match := re.match(r"using (\w+) = ([\w:]+);", statement)) and match[2] in found.structs:
            found.structs[f"{name}::{match[1]}"] = found.structs[match[2]]
        elif public and not re.match(r"(template|class|struct|enum|using|friend|static constexpr) |~", statement):
            try:
                before = read_member(struct, statement, comment, before if glued else None)
            except Unreadable as problem:
                struct.problem = struct.problem or str(problem)


# What stands before the name, the result, the name.
FUNCTION = re.compile(r"((?:(?:inline|static|explicit|constexpr) )*)([\w:<>&*,\s]*?)\s*(operator *\(\)|operator[^\s(]+|\w+)\(", re.S)


def read_function(code, comment, header, space):
    match = FUNCTION.match(code)
    if match is None or match[2].count("<") != match[2].count(">"):
        raise NoFunction(f"{header}: '{code}'")
    end, depth = match.end(), 1
    while depth > 0:
        depth += {"(": 1, ")": -1}.get(code[end], 0)
        end += 1
    parameters = [read_parameter(text) for text in split_outside(" ".join(code[match.end() : end - 1].split()), ",")]
    return Function(match[3], " ".join(match[2].split()), parameters, comment, header, space, "static" in match[1])


def described(function, before, struct_comment):
    """The function's comment: that of the declaration above serves it, too, if it is an overload, if the comment names the
    function, or if it describes the options of the function."""
    if function.comment:
        return function.comment
    if before and (before.name == function.name or re.search(rf"\b{re.escape(function.name)}\b", before.comment)):
        return before.comment
    return struct_comment


def read_header(path, name, found, with_functions=True):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    space = re.search(r"^namespace ([\w:]+) \{", text, re.M)[1]
    before, struct_comment = None, ""
    for comment, code, glued in statements(text):
        if not glued:
            before, struct_comment = None, ""
        if match := re.match(r"(?:struct|class) (\w+)(?: : public (\w+))? \{", code):
            read_struct(match[1], code, comment, space, found)
            found.structs[match[1]].base = match[2]
            struct_comment = comment
            if code.startswith("class"):
                found.others.append(match[1])
        elif code.startswith("enum class"):
            read_enums(code, "", found)
        elif not with_functions:
            continue
        elif match := re.match(r"using (\w+) =", code):
            found.others.append(match[1])
            struct_comment = comment
        elif not re.match(r"(struct|class) \w+;|inline constexpr |template ", code):
            function = read_function(code, comment, name, space)
            function.comment = described(function, before, struct_comment)
            found.functions.append(function)
            before = function
