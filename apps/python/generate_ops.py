"""usage: generate_ops.py FOLDER PARTS ROOT HEADER… [-- HEADER…]

Writes to FOLDER the bindings of all functions that the first headers declare (paths below ROOT), and of the classes in the headers
behind --: op_types.h and op_types.cpp, classes.cpp, members.cpp, PARTS sources ops_0.cpp, ops_1.cpp, … and ops.cpp, which calls them.
A parameter `options` becomes keyword arguments, one per field; other structs become classes made of keyword arguments; enums are
strings; a Weight is a tensor; structs of results are named tuples. A layer's Params become a generator of random numbers, its first
argument. A function or class that cannot be translated is an error, unless LEFT_OUT says why Python does without; of classes, members
that cannot be are left out."""

import keyword
import sys
from dataclasses import replace
from pathlib import Path

from header_parser import Declarations, Unreadable, read_enums, read_header

ENUMS = "autograd/gemm/precision.h"  # has one that ops take

LEFT_OUT = {
    "BatchInvariant": "texts of several rows are made in C++",
    "CheckpointFunction": "checkpoint() needs functions written in Python",
    "checkpoint": "it needs functions written in Python",
    "linear_distillation": "a Teacher is a function, which would be written in Python",
    "attention_reference": "KeepMask is made by C++ alone; attention() has the same results",
    "FeedForward": "its linears have names of their own in files: two Linear and an op are one",
    "LSTM": "its state is a pair of tensors: lstm() takes them one by one",
    "LSTMCell": "its state is a pair of tensors",
    "Block": "it is a part of a Decoder, which makes it",
    "TokenRows": "ids alone are rows",
    "Decoder.adapters": "adapters are opened in C++",
    "Rng.take_blocks": "dropout draws so",
    "Tensor.newest_id": "it is for what is computed again",
    "Tensor.with_id": "it is for what is computed again",
}
# Members that tensor_class.cpp has in a form for Python.
BY_HAND = {"Tensor": {"dim", "item", "grad", "set_grad", "requires_grad", "defined"}}
PROPERTIES = {"dtype", "seed", "shape"}
AT_ONCE = {"at", "base_id", "bytes", "detach", "dtype", "id", "numel", "rank", "rows", "shape", "sole_owner", "view", "zero_grad"}
# How a binding refers to an object, and to the C++ object in it.
SELVES = {"Tensor": ("Tensor", "self"), "Decoder": ("DecoderLayer", "self.layer")}

OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
FUNCTION_OPERATORS = ("abs", "eq", "matmul", "ne", "neg", "pow")

# C++ parameter → (parameter of the binding, the op's argument by its name).
PLAIN = {
    "const Tensor&": ("const Tensor&", "{}"),
    "Tensor&": ("Tensor&", "{}"),
    "const Weight&": ("const Tensor&", "{}"),
    "const TokenRows&": ("const Tensor&", "{}"),
    "const NamedTensors&": ("const Parameters&", "{}"),
    "NamedTensors": ("const Parameters&", "{}"),
    "std::array<double, 3>": ("const std::array<double, 3>&", "{}"),
    "const Shape&": ("const Shape&", "{}"),
    "const std::vector<Tensor>&": ("const std::vector<Tensor>&", "{}"),
    "const std::vector<int>&": ("const Dims&", "{}"),
    "const std::vector<std::int64_t>&": ("const std::vector<std::int64_t>&", "{}"),
    "std::vector<std::int64_t>": ("const std::vector<std::int64_t>&", "{}"),
    "std::optional<std::int64_t>": ("std::optional<std::int64_t>", "{}"),
    "std::string_view": ("const std::string&", "{}"),
    "double": ("Number", "{}"),
    "Size2d": ("Pair<std::int64_t>", "Size2d({0}.h, {0}.w)"),
    "Scale2d": ("Pair<Number>", "Scale2d({0}.h, {0}.w)"),
    **{name: (name, "{}") for name in ("bool", "int", "int64_t", "uint64_t", "std::int32_t", "std::int64_t", "DType", "Rng&", "Rng*")},
}
ABSENT_TENSOR = ("const Tensor*", "or_undefined({})")
TENSORS = ("const Tensor&", "const Tensor*", "const std::vector<Tensor>&", "Tensor&", "const Parameters&", "DecoderLayer&")
RESULTS = {
    *("void", "Tensor", "bool", "float", "double", "int", "int64_t", "uint32_t", "uint64_t", "std::int64_t", "std::uint64_t", "std::size_t"),
    *("std::string", "Shape", "DType", "std::vector<Tensor>", "std::vector<double>", "std::vector<int64_t>"),
}
KEEP_RNG = "py::keep_alive<1, 2>()"  # a layer's Params refer to it
RNG, LR, DTYPE = 'py::arg("rng")', 'py::arg("lr") = 1e-3', 'py::arg_v("dtype", DType::f32, "f32")'
FIELDS = {"bool": "bool", "double": "Number", "std::int64_t": "std::int64_t", "Tensor": None, "Weight": None}


def literal(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def bare_type(text):
    return text.removeprefix("const ").removesuffix("&").strip()


def definition(target, name, function, call, parameters, extra, how="def"):
    """The statement that binds a C++ expression."""
    sized = [p.rsplit(" ", 1) for p in parameters]
    counted = [name for type_name, name in sized if type_name in TENSORS and (name != "self" or function.name not in AT_ONCE)]
    size = f"elements({', '.join(counted)})"
    # Two threads that draw from one generator would spoil it: its ops hold the GIL.
    for type_name, argument in sized:
        size = {"Rng&": "0", "Rng*": f"{argument} != nullptr ? 0 : {size}"}.get(type_name, size)
    result = ""
    if function.result == "Tensor&":
        result, extra = " -> Tensor&", [*extra, "py::return_value_policy::reference"]
    body = f"run_op({size}, [&]{'()' + result if result else ''} {{ return {call}; }})"
    if not result and function.result != "void":
        body = f"to_python({body})"
    return f'  {target}.{how}("{name}", []({", ".join(parameters)}){result} {{ return {body}; }}, {", ".join(extra)});'


class Translator:
    def __init__(self, found):
        self.found = found
        self.classes = {}  # names of structs that are classes in Python, in an order in which each can be declared
        self.results = {}  # names of structs that are named tuples
        self.left_out = dict(LEFT_OUT)

    def enum_of(self, type_name, owner):
        return next((e for e in (type_name, f"{owner}::{type_name}") if e in self.found.enums), None)

    def need_class(self, name):
        struct = self.found.structs.get(name)
        if struct is None or struct.problem or any(f.default is None for f in struct.fields):
            raise Unreadable(f"the type '{name}'" + (f": {struct.problem}" if struct and struct.problem else ""))
        for field in struct.fields:
            self.argument(field, name)
        self.classes[name] = struct

    def argument(self, parameter, owner=""):
        """(parameter of the binding, the op's argument, pybind11's py::arg) of one parameter or field."""
        name, default = parameter.name + "_" * keyword.iskeyword(parameter.name), parameter.default
        bare = bare_type(parameter.type)
        shown = f'py::arg("{name}")'
        if bare in ("Tensor", "Weight") and default == "{}":
            return f"const Tensor* {name}", ABSENT_TENSOR[1].format(name), f"{shown} = py::none()"
        if enum := self.enum_of(bare, owner):
            if default is not None:
                shown += f' = "{default.rsplit("::", 1)[-1]}"'
            return f"const std::string& {name}", f'value_of<{enum}>({name}, "{name}")', shown
        if bare.startswith("std::optional<") and bare != "std::optional<std::int64_t>":
            self.need_class(bare[len("std::optional<") : -1])
            return f"const {bare}& {name}", name, f"{shown} = py::none()"
        if parameter.type not in PLAIN:
            self.need_class(bare)
            if default is not None:
                shown = f'py::arg_v("{name}", {bare}{{}}, "{bare}()")'
            return f"const {bare}& {name}", name, shown
        type_name, argument = PLAIN[parameter.type]
        if default is not None:
            shown = self.with_default(shown, name, type_name, default)
        return f"{type_name} {name}", argument.format(name), shown

    @staticmethod
    def with_default(shown, name, type_name, default):
        value_type = bare_type(type_name)
        if default == "nullptr" or value_type.startswith("std::optional<"):
            return f"{shown} = py::none()"
        if value_type == "DType":
            return f'py::arg_v("{name}", {default}, "{default.split("::")[1]}")'
        if value_type == "Pair<std::int64_t>":
            return f"{shown} = {value_type}{{{default}, {default}}}"
        if "array" in value_type:
            return f"{shown} = {value_type}{default}"
        if value_type == "Dims" or "vector" in value_type:
            return f"{shown} = {value_type}({default.strip('{}')})"
        if value_type == "Number":
            return f"{shown} = static_cast<double>({default})"
        return f"{shown} = {default}"

    def made(self, struct_name, parameters):
        """The C++ expression that makes a struct of the binding's parameters."""
        fields = [f".{p.name} = {self.argument(p, struct_name)[1]}" for p in parameters]
        return f"{struct_name}{{{', '.join(fields)}}}"

    def call(self, function, owner=""):
        """Of a function or a member: (parameters of the binding, arguments of the call, pybind11's py::args)."""
        translated, arguments = [], []
        for parameter in function.parameters:
            bare = bare_type(parameter.type)
            struct = self.found.structs.get(bare)
            if parameter.name == "options" and struct:
                if struct.problem or any(f.default is None for f in struct.fields):
                    raise Unreadable(f"{bare} is no struct of fields with defaults")
                translated += [self.argument(f, bare) for f in struct.fields]
                arguments.append(self.made(bare, struct.fields))
                continue
            try:
                translated.append(self.argument(parameter, owner))
            except Unreadable:
                if not owner or parameter.default is None:
                    raise
                break  # it and those behind it keep their defaults
            arguments.append(translated[-1][1])
        return [t[0] for t in translated], ", ".join(arguments), [t[2] for t in translated]

    def need_result(self, function, owner=""):
        result = bare_type(function.result)
        if result in RESULTS:
            return
        struct = self.found.structs.get(f"{owner}::{result}") or self.found.structs.get(result)
        if struct is None or struct.problem or any(f.type not in ("Tensor", "double") or f.default for f in struct.fields):
            raise Unreadable(f"the result '{function.result}'")
        self.results[struct.name] = struct

    def function(self, function):
        parameters, arguments, shown = self.call(function)
        self.need_result(function)
        call = f"{function.space}::{function.name}({arguments})"
        return definition("m", function.name, function, call, parameters, [*shown, literal(function.comment)])

    def operator(self, function):
        """What Python calls for an operator of C++, or for a function that stands for one; none for other functions."""
        symbol = function.name.removeprefix("operator")
        name = OPERATORS.get(symbol) or (symbol in FUNCTION_OPERATORS and symbol)
        if symbol.endswith("=") and symbol[:-1] in ("+", "-", "*", "/"):
            name = "i" + OPERATORS[symbol[:-1]]
        if not name or len(function.parameters) < (1 if name in ("abs", "neg") else 2):
            return []
        parameters, arguments, shown = self.call(function)
        if function.parameters[0].type == "double":
            parameters, name = parameters[::-1], "r" + name
        call = f"{function.space}::{function.name}({arguments})"
        return [definition("c", f"__{name}__", function, call, parameters, [*shown[1:], "py::is_operator()"])]

    def members(self, struct, self_type, at):
        """Bindings of public members. `at` is the C++ object."""
        lines, bound = [], set()
        for function in struct.functions:
            label, name = f"{struct.name}.{function.name}", function.name.replace("operator()", "__call__")
            if name in (struct.name, *BY_HAND.get(struct.name, ())) or label in LEFT_OUT or name.startswith("operator"):
                continue
            try:
                parameters, arguments, shown = self.call(function, struct.name)
                self.need_result(function, struct.name)
            except Unreadable as problem:
                self.left_out[label] = str(problem)
                continue
            bound.add(label)
            shown.append(literal(function.comment))
            if function.static:
                lines.append(definition("m", name, function, f"{struct.name}::{name}({arguments})", parameters, shown))
                continue
            call = f"checked({at})({arguments})" if name == "__call__" else f"{at}.{name}({arguments})"
            how = "def_property_readonly" if name in PROPERTIES and not parameters else "def"
            lines.append(definition("c", name, function, call, [f"{self_type}& self", *parameters], shown, how))
        self.left_out = {label: reason for label, reason in self.left_out.items() if label not in bound}  # overloads
        for field in struct.fields:
            if field.type in FIELDS and f"{struct.name}.{field.name}" not in LEFT_OUT:
                get, taken = f"[](const {self_type}& self) {{ return or_none({at}.{field.name}); }}", FIELDS[field.type]
                change = f", []({self_type}& self, {taken} value) {{ {at}.{field.name} = value; }}" if taken else ""
                lines.append(f'  c.def_property{"" if taken else "_readonly"}("{field.name}", {get}{change});')
        return lines

    def layer(self, struct, constructor):
        lines = [f'  py::class_<Layer<{struct.name}>, AnyLayer> c(nn, "{struct.name}", {literal(struct.comment)});']
        parameters, arguments, shown = self.call(replace(constructor, parameters=constructor.parameters[1:]), struct.name)
        made = f"[&](const Params& p) {{ return {struct.name}({', '.join(filter(None, ['p', arguments]))}); }}"
        taken = ", ".join(["Rng& rng", *parameters, "DType dtype"])
        make = f"py::init([]({taken}) {{ return make_layer<{struct.name}>(rng, dtype, {made}); }})"
        lines.append(f"  c.def({', '.join([make, RNG, *shown, DTYPE, KEEP_RNG])});")
        return lines + self.members(struct, f"Layer<{struct.name}>", "self.layer")

    def optimizer(self, struct, constructor):
        name, (parameters, arguments, shown) = struct.name, self.call(constructor, struct.name)
        taken = ", ".join([parameters[0], "Number lr", *parameters[1:]])
        make = f"py::init([]({taken}) {{ return OptimizerOf<{name}>{{{{std::make_shared<{name}>({arguments}), lr}}}}; }})"
        return [f'  py::class_<OptimizerOf<{name}>, AnyOptimizer> c(m, "{name}", {literal(struct.comment)});',
                f"  c.def({', '.join([make, shown[0], LR, *shown[1:]])});"]

    def value(self, struct):
        lines = [f'  py::class_<{struct.name}> c(m, "{struct.name}", {literal(struct.comment)});']
        constructors = [f for f in struct.functions if f.name == struct.name]
        for constructor in constructors:
            parameters, arguments, shown = self.call(constructor, struct.name)
            made = f"[]({', '.join(parameters)}) {{ return {struct.name}({arguments}); }}"
            lines.append(f"  c.def(py::init({made}), {', '.join(shown)});")
        if not constructors:
            lines.append(f"  c.def({self.from_fields(struct)});")
        return lines + self.members(struct, struct.name, "self")

    def from_fields(self, struct):
        """The constructor of keyword arguments."""
        translated = [self.argument(f, struct.name) for f in struct.fields]
        made = f"[]({', '.join(t[0] for t in translated)}) {{ return checked({self.made(struct.name, struct.fields)}); }}"
        return f"py::init({made}), py::kw_only(), {', '.join(t[2] for t in translated)}"

    def bound_class(self, struct):
        """The block that binds a class: a layer, an optimiser, or a value. Nothing for a struct of options or results."""
        members = [f for f in struct.functions if not f.static]
        if struct.name in LEFT_OUT or struct.name in SELVES or not members:
            return []
        made_of = {f.parameters[0].type: f for f in members if f.name == struct.name and f.parameters}
        if "NamedTensors" in made_of:
            lines = self.optimizer(struct, made_of["NamedTensors"])
        elif "const Params&" in made_of:
            lines = self.layer(struct, made_of["const Params&"])
            if not any("__call__" in line for line in lines):
                raise Unreadable(f"the call of {struct.name}: {self.left_out.get(struct.name + '.operator()')}")
        else:
            lines = self.value(struct)
        return ["  {", *lines, "  }"]


def types_header(translator, headers):
    lines = ["// Made by generate_ops.py.", "#pragma once", ""]
    lines += [f'#include "tapegrad/{header}"' for header in headers]
    lines += ['#include "tapegrad/apps/python/internal/op_support.h"', ""]
    lines += ["namespace tapegrad::python {", "", "using namespace nn;", "using namespace optim;"]
    for name, values in translator.found.enums.items():
        pairs = ", ".join(f'NameOf<{name}>{{"{value}", {name}::{value}}}' for value in values)
        lines.append(f"template <>\ninline constexpr std::array kNames<{name}>{{{pairs}}};")
    for name, struct in translator.results.items():
        fields = ", ".join(f"result.{f.name}" for f in struct.fields)
        lines.append(f"inline py::object to_python(const {name}& result) {{\n"
                     f"  return make_result<{name}>({fields});\n}}")
    return "\n".join(lines + ["", "}  // namespace tapegrad::python", ""])


def source(function, body):
    return "\n".join(["// Made by generate_ops.py.", '#include "op_types.h"', "", "namespace tapegrad::python {", "",
                      f"void {function} {{", *body, "}", "", "}  // namespace tapegrad::python", ""])


def types_source(translator):
    body = []
    for name, struct in translator.classes.items():
        body.append(f'  py::class_<{name}>(m, "{name}", {literal(struct.comment)}).def({translator.from_fields(struct)});')
    for name, struct in translator.results.items():
        body.append(f'  declare_result<{name}>(m, "{name.replace("::", "")}", "{" ".join(f.name for f in struct.fields)}");')
    body.append("  py::dict left_out;")
    body += [f'  left_out["{name}"] = {literal(reason)};' for name, reason in translator.left_out.items()]
    body.append('  m.attr("ops_left_out") = left_out;')
    return source("bind_op_types(py::module_& m)", body)


def methods(names):
    """Ops as methods of their first argument, unless Tensor has a member of that name."""
    listed = ", ".join(f'"{name}"' for name in names)
    return [
        f"  for (const char* const name : {{{listed}}}) {{",
        '    if (py::hasattr(m.attr("Tensor"), name)) continue;',
        "    PyObject* const method = PyInstanceMethod_New(py::object(m.attr(name)).ptr());",
        '    m.attr("Tensor").attr(name) = py::reinterpret_steal<py::object>(method);',
        "  }",
    ]


def translate(found, classes):
    translator, functions, operators, problems = Translator(found), [], [], []
    names = {f.name for f in found.functions} | set(found.others) | classes
    if classes:
        problems += [f"LEFT_OUT names {name}, which no header declares" for name in LEFT_OUT if name.split(".")[0] not in names]
    problems += [f"{name} is no struct, enum or function" for name in found.others if name not in LEFT_OUT and name not in classes]
    blocks = {name: [] for name in ("", *SELVES)}
    for function in found.functions:
        if function.name in LEFT_OUT:
            continue
        try:
            blocks["Tensor"] += translator.operator(function)
            if not function.name.startswith("operator"):
                functions.append((function, translator.function(function)))
        except Unreadable as problem:
            problems.append(f"{function.header}: {function.name}: Python has no translation for {problem}")
    for name in classes:
        try:
            if name in SELVES:
                blocks[name] += translator.members(found.structs[name], *SELVES[name])
            blocks[""] += translator.bound_class(found.structs[name])
        except Unreadable as problem:
            problems.append(f"{name}: Python has no translation for {problem}")
    return translator, functions, blocks, problems


def main(folder, parts, root, *headers):
    found, op_headers = Declarations(), headers[: headers.index("--")] if "--" in headers else headers
    read_enums(Path(root, ENUMS).read_text(encoding="utf-8"), "", found)
    for header in op_headers:
        read_header(Path(root, header), header, found)
    class_headers, options = headers[len(op_headers) + 1 :], set(found.structs)
    for header in class_headers:
        read_header(Path(root, header), header, found, with_functions=False)
    # In the order of the headers: Rng is known to those behind it.
    classes = {name: None for name in found.structs if name not in options and "::" not in name}.keys()
    translator, functions, blocks, problems = translate(found, classes)
    if problems:
        sys.exit("\n".join(f"generate_ops.py: {p}" for p in problems) + "\nTranslate it there, or say in LEFT_OUT why not.")
    files = {
        "op_types.h": types_header(translator, [*op_headers, *class_headers]),
        "op_types.cpp": types_source(translator),
        "classes.cpp": source("bind_classes(py::module_& m, py::module_& nn)", blocks[""]),
        "members.cpp": source("add_members(TensorClass& c, py::module_& m)", blocks["Tensor"])
        + source("add_members(DecoderClass& c)", blocks["Decoder"]),
    }
    count, parts, calls = len(functions), int(parts), []
    for part in range(parts):
        calls += [f"  void bind_ops_{part}(py::module_&);", f"  bind_ops_{part}(m);"]
        chunk = [binding for _, binding in functions[part * count // parts : (part + 1) * count // parts]]
        files[f"ops_{part}.cpp"] = source(f"bind_ops_{part}(py::module_& m)", chunk)
    of_tensors = [f.name for f, _ in functions if f.parameters and bare_type(f.parameters[0].type) in ("Tensor", "Weight")]
    files["ops.cpp"] = source("bind_ops(py::module_& m)", calls + methods(dict.fromkeys(of_tensors)))
    for name, text in files.items():
        Path(folder, name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Unreadable as problem:
        sys.exit(f"generate_ops.py: {problem}: this parser does not know such a declaration")
