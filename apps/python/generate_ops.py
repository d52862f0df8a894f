"""usage: generate_ops.py FOLDER PARTS ROOT HEADER… [-- HEADER…]

Writes to FOLDER the bindings of all functions that the first headers declare (paths below ROOT), and of the classes in the headers
behind --: op_types.h and op_types.cpp, classes.cpp, members.cpp, PARTS sources ops_0.cpp, ops_1.cpp, … and ops.cpp, which calls them.
A function or class that cannot be translated is an error, unless translator.py's LEFT_OUT says why Python does without; of classes,
members that cannot be are left out."""

import sys
from pathlib import Path

from header_parser import Declarations, Unreadable, read_enums, read_header
from translator import FUNCTIONS, LEFT_OUT, SELVES, Translator, bare_type, literal

ENUMS = "autograd/gemm/precision.h"  # has one that ops take


def types_header(translator, headers):
    lines = ["// Made by generate_ops.py.", "#pragma once", ""]
    lines += [f'#include "tapegrad/{header}"' for header in headers]
    lines += ['#include "tapegrad/apps/python/internal/op_support.h"', ""]
    lines += ["namespace tapegrad::python {", "", "using namespace arrays;", "using namespace data;", "using namespace nn;", "using namespace optim;"]
    for name, values in translator.found.enums.items():
        pairs = ", ".join(f'NameOf<{name}>{{"{value}", {name}::{value}}}' for value in values)
        lines.append(f"template <>\ninline constexpr std::array kNames<{name}>{{{pairs}}};")
    for name, struct in translator.results.items():
        owner = name.rpartition("::")[0]
        fields = ", ".join(f"to_python(result.{f.name})" if translator.pair_of(f.type, owner) else f"result.{f.name}" for f in struct.fields)
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
    known = {*LEFT_OUT, *classes, *map(bare_type, FUNCTIONS)}
    problems += [f"{name} is no struct, enum or function" for name in found.others if name not in known]
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
