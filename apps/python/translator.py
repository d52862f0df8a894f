"""Writes the bindings of what header_parser.py reads: each parameter, function and class of C++ as one of Python's.

A parameter `options` becomes keyword arguments, one per field; other structs become classes made of keyword arguments; enums are
strings; a Weight is a tensor; a function is one of Python's; structs of results are named tuples. A layer's Params become a generator of random numbers, its first
argument."""

import keyword
from dataclasses import replace

from header_parser import Parameter, Unreadable

LEFT_OUT = {
    "BatchInvariant": "texts of several rows are made in C++",
    "linear_distillation": "a Teacher is a function, which would be written in Python",
    "attention_reference": "KeepMask is made by C++ alone; attention() has the same results",
    "FeedForward": "its linears have names of their own in files: two Linear and an op are one",
    "Init": "functions of nn.init fill tensors",
    "refill": "functions of nn.init fill tensors",
    "zero_row": "nn.Embedding has padding_idx",
    "TokenRows": "ids alone are rows",
    "Decoder.adapters": "adapters are opened in C++",
    "ArrayLoader.background": "a thread that calls Python could wait for one that ends the loader",
    "Encoder": "Tokenizer.encode() has the same tokens",
    "DocumentEnds": "documents are read in C++",
    "Rng.take_blocks": "dropout draws so",
    "Tensor.newest_id": "it is for what is computed again",
    "Tensor.with_id": "it is for what is computed again",
}
# Members that tensor_class.cpp has in a form for Python.
BY_HAND = {"Tensor": {"dim", "item", "grad", "set_grad", "requires_grad", "defined"}}
PROPERTIES = {"dtype", "kind", "seed", "shape"}
BYTES = {"token_bytes"}  # of other strings, text is made: see to_python()
AT_ONCE = {"at", "base_id", "bytes", "detach", "dtype", "id", "numel", "rank", "rows", "shape", "sole_owner", "view", "zero_grad"}
# How a binding refers to an object, and to the C++ object in it.
SELVES = {"Tensor": ("Tensor", "self"), "Decoder": ("DecoderLayer", "self.layer")}

OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
FUNCTION_OPERATORS = ("abs", "eq", "matmul", "ne", "neg", "pow")

# C++ parameter → parameter of the binding.
PLAIN = {
    **dict.fromkeys(("const Weight&", "const TokenRows&"), "const Tensor&"),
    **dict.fromkeys(("const NamedTensors&", "NamedTensors"), "const Parameters&"),
    **{f"const {name}&": f"const {name}&" for name in ("Tensor", "Shape", "std::vector<Tensor>", "std::vector<std::int64_t>", "std::vector<double>")},
    **{name: f"const {name}&" for name in ("std::array<double, 3>", "std::vector<double>", "std::vector<std::int64_t>")},
    **{name: name for name in ("bool", "int", "int64_t", "uint64_t", "std::int32_t", "std::int64_t", "std::optional<std::int64_t>")},
    **{name: name for name in ("DType", "Rng&", "Rng*", "Tensor&", "const std::filesystem::path&")},
    **dict.fromkeys(("const Rows&", "Rows"), "const std::vector<Tensor>&"),
    "Rng": "const Rng&",
    "Token": "Token",
    "std::span<const Token>": "const std::vector<Token>&",
    "std::span<const std::int64_t>": "const std::vector<std::int64_t>&",
    "std::span<const double>": "const std::vector<double>&",
    "const std::vector<int>&": "const Dims&",
    "std::string_view": "const std::string&",
    "double": "Number",
    "Size2d": "Pair<std::int64_t>",
    "Scale2d": "Pair<Number>",
}
# Functions of Python's: what makes one of C++ of them, in op_support.h.
FUNCTIONS = {
    "const TensorFunction&": "function_of_one",
    "const TensorsFunction&": "function_of_several",
    "const CheckpointFunction&": "function_with_rng",
    "const std::function<Tensor(std::int64_t example)>&": "function_of_example",
    "const Closure&": "function_of_loss",
    "std::function<Rows(Rows, Rng&)>": "function_of_rows",
}
TENSORS = ("const Tensor&", "const Tensor*", "const std::vector<Tensor>&", "Tensor&", "const Parameters&", "DecoderLayer&")
TEXTS = ("const std::string&", "const std::filesystem::path&")
RESULTS = {
    *("void", "Tensor", "bool", "float", "double", "int", "int64_t", "uint32_t", "uint64_t", "std::int64_t", "std::uint64_t", "std::size_t"),
    *("std::string", "Shape", "DType", "Grads", "NamedTensors", "Rows", "std::vector<Grads>", "std::vector<Rows>", "std::vector<Tensor>"),
    *("std::vector<double>", "std::vector<int64_t>", "std::vector<std::int64_t>", "std::vector<Token>", "std::string_view"),
}
KEEP_RNG = "py::keep_alive<1, 2>()"  # a layer's Params refer to it
RNG, LR, DTYPE = 'py::arg("rng")', 'py::arg("lr") = 1e-3', 'py::arg_v("dtype", DType::f32, "f32")'
FIELDS = {
    **{"bool": "bool", "double": "Number", "std::int64_t": "std::int64_t", "Tensor": None, "Weight": None},
    "std::vector<std::int64_t>": "const std::vector<std::int64_t>&",
}


def literal(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def bare_type(text):
    return text.removeprefix("const ").removesuffix("&").strip()


def definition(target, name, function, call, parameters, extra, how="def"):
    """The statement that binds a C++ expression."""
    sized = [p.rsplit(" ", 1) for p in parameters]
    counted = [name for type_name, name in sized if type_name in TENSORS and (name != "self" or function.name not in AT_ONCE)]
    size = f"elements({', '.join(counted or [name for type_name, name in sized if type_name in TEXTS])})"
    # Two threads that draw from one generator would spoil it: its ops hold the GIL.
    for type_name, argument in sized:
        size = {"Rng&": "0", "Rng*": f"{argument} != nullptr ? 0 : {size}"}.get(type_name, size)
    result = ""
    if function.result == "Tensor&":
        result, extra = " -> Tensor&", [*extra, "py::return_value_policy::reference"]
    body = f"run_op({size}, [&]{'()' + result if result else ''} {{ return {call}; }})"
    if function.name in BYTES:
        body = f"py::bytes({body})"
    elif not result and function.result != "void":
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

    def pair_of(self, type_name, owner):
        """The name of a struct that is two tensors, as the state of an LSTM."""
        struct = self.found.structs.get(f"{owner}::{type_name}") or self.found.structs.get(type_name)
        is_pair = struct and not struct.problem and [(f.type, f.default) for f in struct.fields] == [("Tensor", None)] * 2
        return struct.name if is_pair else None

    def argument(self, parameter, owner=""):
        """(parameter of the binding, the op's argument, pybind11's py::arg) of one parameter or field."""
        name, default = parameter.name + "_" * keyword.iskeyword(parameter.name), parameter.default
        bare = bare_type(parameter.type)
        shown = f'py::arg("{name}")'
        if bare in ("Tensor", "Weight") and default == "{}":
            return f"const Tensor* {name}", f"or_undefined({name})", f"{shown} = py::none()"
        if parameter.type in FUNCTIONS and default == "{}":
            given = f"{name} ? {bare}({FUNCTIONS[parameter.type]}(*{name})) : {bare}()"
            return f"const std::optional<Callable>& {name}", given, f"{shown} = py::none()"
        if parameter.type in FUNCTIONS:
            return f"const Callable& {name}", f"{FUNCTIONS[parameter.type]}({name})", shown
        if enum := self.enum_of(bare, owner):
            if default is not None:
                shown += f' = "{default.rsplit("::", 1)[-1]}"'
            return f"const std::string& {name}", f'value_of<{enum}>({name}, "{name}")', shown
        if default == "{}" and (pair := self.pair_of(bare, owner)):
            given = f"{name} ? {pair}{{(*{name})[0], (*{name})[1]}} : {pair}{{}}"
            return f"const std::optional<std::array<Tensor, 2>>& {name}", given, f"{shown} = py::none()"
        if bare.startswith("std::optional<") and bare != "std::optional<std::int64_t>":
            self.need_class(bare[len("std::optional<") : -1])
            return f"const {bare}& {name}", name, f"{shown} = py::none()"
        if parameter.type not in PLAIN:
            self.need_class(bare)
            if default is not None:
                shown = f'py::arg_v("{name}", {bare}{{}}, "{bare}()")'
            return f"const {bare}& {name}", name, shown
        type_name = PLAIN[parameter.type]
        if default is not None:
            shown = self.with_default(shown, name, bare_type(type_name), default)
        return f"{type_name} {name}", f"{bare}({name}.h, {name}.w)" if type_name.startswith("Pair") else name, shown

    @staticmethod
    def with_default(shown, name, type_name, default):
        if type_name == "DType":
            return f'py::arg_v("{name}", {default}, "{default.split("::")[1]}")'
        if default == "nullptr" or type_name.startswith("std::optional<"):
            default = "py::none()"
        elif type_name == "Pair<std::int64_t>":
            default = f"{type_name}{{{default}, {default}}}"
        elif "array" in type_name:
            default = f"{type_name}{default}"
        elif type_name == "Dims" or "vector" in type_name:
            default = f"{type_name}({default.strip('{}')})"
        elif type_name == "Number":
            default = f"static_cast<double>({default})"
        return f"{shown} = {default}"

    def made(self, struct_name, parameters):
        """The C++ expression that makes a struct of the binding's parameters."""
        fields = [f".{p.name} = {self.argument(p, struct_name)[1]}" for p in parameters]
        return f"{struct_name}{{{', '.join(fields)}}}"

    def call(self, function, owner=""):
        """Of a function or a member: (parameters of the binding, arguments of the call, pybind11's py::args)."""
        translated, arguments, behind = [], [], []
        for parameter in function.parameters:
            bare = bare_type(parameter.type)
            struct = self.found.structs.get(f"{owner}::{bare}") or self.found.structs.get(bare)
            if parameter.name == "options" and struct:
                if struct.problem or any(f.default is None for f in struct.fields):
                    raise Unreadable(f"{bare} is no struct of fields with defaults")
                fields = [f for f in struct.fields if f"{owner}.{f.name}" not in LEFT_OUT]
                # What has a default follows what has none.
                (translated if function.parameters[-1].default else behind).extend(self.argument(f, struct.name) for f in fields)
                arguments.append(self.made(struct.name, fields))
                continue
            try:
                translated.append(self.argument(parameter, owner))
            except Unreadable:
                if not owner or parameter.default is None:
                    raise
                break  # it and those behind it keep their defaults
            arguments.append(translated[-1][1])
        translated += behind
        return [t[0] for t in translated], ", ".join(arguments), [t[2] for t in translated]

    def need_result(self, function, owner=""):
        result = bare_type(function.result)
        if result in RESULTS:
            return
        struct = self.found.structs.get(f"{owner}::{result}") or self.found.structs.get(result)
        if struct and owner == struct.name:  # a class of its own
            return
        if struct is None or struct.problem:
            raise Unreadable(f"the result '{function.result}'")
        for field in struct.fields:
            if pair := self.pair_of(field.type, owner):
                self.results[pair] = self.found.structs[pair]  # before the struct that it is in
            elif field.type not in ("Tensor", "Grads", "double") or field.default:
                raise Unreadable(f"the result '{function.result}'")
        self.results[struct.name] = struct

    def initialiser(self, function):
        """A function of nn.init that fills a tensor and returns it, with the name that it has in PyTorch. What takes no arguments draws
        nothing. Behind the generator, arguments have names: kaiming_uniform_ takes either the fan or options."""
        _, arguments, shown = self.call(function)
        filled, draws = [Parameter("Tensor&", "x", None)], bool(shown)
        filled += [Parameter("Rng&", "rng", None)] * draws
        filler = replace(function, result="Tensor&", parameters=[*filled, *function.parameters])
        call = f"filled(x, {function.space}::{function.name}({arguments}){', rng' * draws})"
        shown = ['py::arg("x")', *[RNG, "py::kw_only()"] * draws, *shown, literal(function.comment)]
        return definition("init_of(m)", f"{function.name}_", filler, call, self.call(filler)[0], shown)

    def function(self, function):
        if function.result == "Init":
            return self.initialiser(function)
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
                place = ("m", "def") if struct.name in SELVES else ("c", "def_static")
                lines.append(definition(place[0], name, function, f"{struct.name}::{name}({arguments})", parameters, shown, place[1]))
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
            made = f"[]({', '.join(parameters)}) {{ return std::make_unique<{struct.name}>({arguments}); }}"
            lines.append(f"  c.def(py::init({made}), {', '.join(shown)});")
        if struct.fields and not constructors:
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
        if struct.base == "OptimizerState":
            lines = self.optimizer(struct, made_of["NamedTensors"])
        elif "const Params&" in made_of:
            lines = self.layer(struct, made_of["const Params&"])
            if not any("__call__" in line for line in lines):
                raise Unreadable(f"the call of {struct.name}: {self.left_out.get(struct.name + '.operator()')}")
        else:
            lines = self.value(struct)
            if any(f.name == "load_state" for f in members):
                lines.append("  add_state_dict(c);")
        return ["  {", *lines, "  }"]
