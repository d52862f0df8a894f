"""usage: generate_ops.py FOLDER PARTS ROOT HEADER…

Writes the bindings of all functions that the headers declare (paths below ROOT) to FOLDER: op_types.h, op_types.cpp, PARTS sources
ops_0.cpp, ops_1.cpp, … and ops.cpp, which calls them. A parameter `options` becomes keyword arguments, one per field; other structs
become classes made of keyword arguments; enums are strings; a Weight is a tensor; structs of results are named tuples. A declaration that
cannot be translated is an error, unless LEFT_OUT says why Python does without."""

import sys
from pathlib import Path

from header_parser import Declarations, Unreadable, read_enums, read_header

ENUMS = "autograd/gemm/precision.h"  # has one that ops take

LEFT_OUT = {
    "BatchInvariant": "texts of several rows are made in C++",
    "CheckpointFunction": "checkpoint() needs functions written in Python",
    "checkpoint": "it needs functions written in Python",
    "linear_distillation": "a Teacher is a function, which would be written in Python",
    "attention_reference": "KeepMask is made by C++ alone; attention() has the same results",
}

# C++ parameter → (parameter of the binding, the op's argument by its name).
PLAIN = {
    "const Tensor&": ("const Tensor&", "{}"),
    "Tensor&": ("Tensor&", "{}"),
    "const Weight&": ("const Tensor&", "{}"),
    "const Shape&": ("const Shape&", "{}"),
    "const std::vector<Tensor>&": ("const std::vector<Tensor>&", "{}"),
    "const std::vector<int>&": ("const Dims&", "{}"),
    "const std::vector<std::int64_t>&": ("const std::vector<std::int64_t>&", "{}"),
    "std::vector<std::int64_t>": ("const std::vector<std::int64_t>&", "{}"),
    "std::optional<std::int64_t>": ("std::optional<std::int64_t>", "{}"),
    "std::string_view": ("const std::string&", "{}"),
    "double": ("Number", "{}"),
    "bool": ("bool", "{}"),
    "int": ("int", "{}"),
    "std::int32_t": ("std::int32_t", "{}"),
    "std::int64_t": ("std::int64_t", "{}"),
    "DType": ("DType", "{}"),
    "Size2d": ("Pair<std::int64_t>", "Size2d({0}.h, {0}.w)"),
    "Scale2d": ("Pair<Number>", "Scale2d({0}.h, {0}.w)"),
    "Rng&": ("Rng&", "{}"),
    "Rng*": ("Rng*", "{}"),
}
ABSENT_TENSOR = ("const Tensor*", "or_undefined({})")
TENSORS = ("const Tensor&", "const Tensor*", "const std::vector<Tensor>&", "Tensor&")


def literal(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Translator:
    def __init__(self, found):
        self.found = found
        self.classes = {}  # names of structs that are classes in Python, in an order in which each can be declared
        self.results = {}  # names of structs that are named tuples

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
        name, default = parameter.name, parameter.default
        bare = parameter.type.removeprefix("const ").removesuffix("&").strip()
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
        value_type = type_name.removeprefix("const ").removesuffix("&")
        if default == "nullptr" or value_type.startswith("std::optional<"):
            return f"{shown} = py::none()"
        if value_type == "DType":
            return f'py::arg_v("{name}", {default}, "{default.split("::")[1]}")'
        if value_type == "Pair<std::int64_t>":
            return f"{shown} = {value_type}{{{default}, {default}}}"
        if value_type == "Dims" or "vector" in value_type:
            return f"{shown} = {value_type}({default.strip('{}')})"
        if value_type == "Number":
            return f"{shown} = static_cast<double>({default})"
        return f"{shown} = {default}"

    def made(self, struct_name, parameters):
        """The C++ expression that makes a struct of the binding's parameters."""
        fields = [f".{p.name} = {self.argument(p, struct_name)[1]}" for p in parameters]
        return f"{struct_name}{{{', '.join(fields)}}}"

    def binding(self, function):
        parameters, arguments, shown = [], [], []
        for parameter in function.parameters:
            bare = parameter.type.removeprefix("const ").removesuffix("&").strip()
            if parameter.name == "options" and bare in self.found.structs:
                struct = self.found.structs[bare]
                self.need_options(struct)
                translated = [self.argument(f, bare) for f in struct.fields]
                arguments.append(self.made(bare, struct.fields))
            else:
                translated = [self.argument(parameter)]
                arguments.append(translated[0][1])
            parameters += [t[0] for t in translated]
            shown += [t[2] for t in translated]
        self.need_result(function.result)
        return self.lines(function, parameters, arguments, shown)

    def need_options(self, struct):
        if struct.problem or any(f.default is None for f in struct.fields):
            raise Unreadable(f"{struct.name} is no struct of fields with defaults")

    def need_result(self, result):
        if result in ("Tensor", "Tensor&", "bool", "double", "std::vector<Tensor>"):
            return
        struct = self.found.structs.get(result)
        if struct is None or struct.problem or any(f.type != "Tensor" or f.default for f in struct.fields):
            raise Unreadable(f"the result '{result}'")
        self.results[result] = struct

    @staticmethod
    def lines(function, parameters, arguments, shown):
        sized = [p.rsplit(" ", 1) for p in parameters]
        tensors = [name for type_name, name in sized if type_name in TENSORS]
        size = f"elements({', '.join(tensors)})"
        # Two threads that draw from one generator would spoil it: its ops hold the GIL.
        for type_name, name in sized:
            size = {"Rng&": "0", "Rng*": f"{name} != nullptr ? 0 : {size}"}.get(type_name, size)
        call = f"tapegrad::{function.name}({', '.join(arguments)})"
        reference = function.result.endswith("&")
        body = f"return to_python(run_op({size}, [&] {{ return {call}; }}));"
        if reference:
            body = f"return run_op({size}, [&]() -> Tensor& {{ return {call}; }});"
        return "\n".join([
            f'  m.def("{function.name}", []({", ".join(parameters)}){" -> Tensor&" if reference else ""} {{',
            f"    {body}",
            "  }, " + ", ".join(shown + [literal(function.comment)] + (["py::return_value_policy::reference"] if reference else []))
            + ");",
        ])


def class_binding(translator, struct):
    translated = [translator.argument(f, struct.name) for f in struct.fields]
    return "\n".join([
        f'  py::class_<{struct.name}>(m, "{struct.name}", {literal(struct.comment)})',
        f'      .def(py::init([]({", ".join(t[0] for t in translated)}) {{',
        f"        return {translator.made(struct.name, struct.fields)};",
        f'      }}), py::kw_only(), {", ".join(t[2] for t in translated)});',
    ])


def types_header(translator, headers):
    lines = ["// Made by generate_ops.py.", "#pragma once", ""]
    lines += [f'#include "tapegrad/{header}"' for header in headers]
    lines += ['#include "tapegrad/apps/python/internal/op_support.h"', "", "namespace tapegrad::python {", ""]
    for name, values in translator.found.enums.items():
        pairs = ", ".join(f'NameOf<{name}>{{"{value}", {name}::{value}}}' for value in values)
        lines.append(f"template <>\ninline constexpr std::array kNames<{name}>{{{pairs}}};")
    for name, struct in translator.results.items():
        fields = ", ".join(f"result.{f.name}" for f in struct.fields)
        lines.append(f"inline py::object to_python(const {name}& result) {{\n"
                     f"  return make_result<{name}>({fields});\n}}")
    return "\n".join(lines + ["", "}  // namespace tapegrad::python", ""])


def source(includes, name, body):
    return "\n".join(["// Made by generate_ops.py."] + [f'#include "{include}"' for include in includes] +
                     ["", "namespace tapegrad::python {", "", f"void {name}(py::module_& m) {{", *body, "}", "",
                      "}  // namespace tapegrad::python", ""])


def types_source(translator):
    body = [class_binding(translator, struct) for struct in translator.classes.values()]
    for name, struct in translator.results.items():
        body.append(f'  declare_result<{name}>(m, "{name}", "{" ".join(f.name for f in struct.fields)}");')
    body.append("  py::dict left_out;")
    body += [f'  left_out["{name}"] = {literal(reason)};' for name, reason in LEFT_OUT.items()]
    body.append('  m.attr("ops_left_out") = left_out;')
    return source(["op_types.h"], "bind_op_types", body)


def translate(found):
    translator, bindings, problems = Translator(found), [], []
    names = {f.name for f in found.functions} | set(found.others)
    problems += [f"LEFT_OUT names {name}, which no header declares" for name in LEFT_OUT if name not in names]
    problems += [f"{name} is no struct, enum or function" for name in found.others if name not in LEFT_OUT]
    for function in found.functions:
        if function.name in LEFT_OUT or function.name.startswith("operator"):  # tensor_operators.cpp has Python's
            continue
        try:
            bindings.append(translator.binding(function))
        except Unreadable as problem:
            problems.append(f"{function.header}: {function.name}: Python has no translation for {problem}")
    return translator, bindings, problems


def main(folder, parts, root, *headers):
    found = Declarations()
    read_enums(Path(root, ENUMS).read_text(encoding="utf-8"), "", found)
    for header in headers:
        read_header(Path(root, header), header, found)
    translator, bindings, problems = translate(found)
    if problems:
        sys.exit("\n".join(f"generate_ops.py: {p}" for p in problems) + "\nTranslate it there, or say in LEFT_OUT why not.")
    files = {"op_types.h": types_header(translator, headers), "op_types.cpp": types_source(translator)}
    count, parts = len(bindings), int(parts)
    calls = []
    for part in range(parts):
        name = f"bind_ops_{part}"
        calls += [f"  void {name}(py::module_&);", f"  {name}(m);"]
        chunk = bindings[part * count // parts : (part + 1) * count // parts]
        files[f"ops_{part}.cpp"] = source(["op_types.h"], name, chunk)
    files["ops.cpp"] = source(["op_types.h"], "bind_ops", calls)
    for name, text in files.items():
        Path(folder, name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Unreadable as problem:
        sys.exit(f"generate_ops.py: {problem}: this parser does not know such a declaration")
