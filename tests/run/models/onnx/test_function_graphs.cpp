// Functions of tensors as graphs of ONNX: their numbers, by the runtime of the tests, beside
// tapegrad's. tests/python has onnx's own checker.

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

#include "tapegrad/autograd/check/op_table.h"
#include "tapegrad/autograd/internal/step.h"
#include "tapegrad/autograd/onnx/export_onnx.h"
#include "tapegrad/autograd/onnx/onnx_call.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/autograd/ops/image_ops.h"
#include "tapegrad/nn/layers.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"
#include "tapegrad/tests/run/models/onnx/onnx_calls.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using FunctionOfTensors = std::function<Tensor(Inputs)>;

OnnxArray function_input(const Tensor& t) {
  OnnxArray a{{t.shape().begin(), t.shape().end()}, {}};
  for (std::int64_t i = 0; i < t.numel(); ++i) a.data.push_back(t.at(i));
  return a;
}

// The largest difference between the graph and the function, relative where numbers are above 1.
double largest_difference(const OnnxFile& file, const FunctionOfTensors& f,
                          const std::vector<Tensor>& inputs) {
  OnnxFile::Values feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    feeds[file.model.graph().input(static_cast<int>(i)).name()] = function_input(inputs[i]);
  }
  const OnnxArray y = file.run(feeds).at(file.model.graph().output(0).name());
  const Tensor ours = f(inputs);
  CHECK(y.shape == std::vector<std::int64_t>(ours.shape().begin(), ours.shape().end()));
  double most = 0;
  for (std::int64_t i = 0; i < ours.numel(); ++i) {
    if (onnx_at(y, i) == ours.at(i)) continue;  // infinities
    const double d = std::abs(onnx_at(y, i) - ours.at(i)) / (1 + std::abs(ours.at(i)));
    most = std::max(most, std::isnan(d) ? std::numeric_limits<double>::infinity() : d);
  }
  return most;
}

OnnxFile exported_function(const FunctionOfTensors& f, const std::vector<Tensor>& inputs,
                           const OnnxNames& names = {}) {
  const TempFolder folder;
  export_onnx(folder / "f.onnx", f, inputs, names);
  return OnnxFile(folder / "f.onnx");
}

// The graph of an example computes what the function does, of the example and of other inputs.
void check_graph(const FunctionOfTensors& f, const std::vector<Tensor>& example,
                 const std::vector<Tensor>& others) {
  const OnnxFile file = exported_function(f, example);
  check_sorted(file.model.graph());
  CHECK(largest_difference(file, f, example) < 1e-5);
  CHECK(largest_difference(file, f, others) < 1e-5);
}

std::string export_error(const FunctionOfTensors& f, const std::vector<Tensor>& inputs,
                         const OnnxNames& names = {}) {
  try {
    exported_function(f, inputs, names);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> ops_of(const OnnxFile& file) {
  std::vector<std::string> ops;
  for (const auto& node : file.model.graph().node()) ops.push_back(node.op_type());
  return ops;
}

// The ops that a case of the op table runs, and that have a row or have none.
std::set<std::string> ops_in_case(const OpCase& op_case, bool have_row) {
  Rng rng(8);
  const std::vector<Tensor> inputs = op_case.inputs(rng);
  Tape tape({.checkable = true});
  for (const Tensor& x : inputs) tape.watch(x);
  op_case.run(inputs);
  std::set<std::string> ops;
  for (const auto& step : tape.record().steps) {
    if (step->onnx->row.exists() == have_row) ops.emplace(step->name);
  }
  return ops;
}

Tensor causal_mask(std::int64_t T) {
  Tensor mask = Tensor::zeros({T, T}, DType::u8);
  auto* const hidden = mask.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < T * T; ++i) hidden[i] = i % T > i / T ? 1 : 0;
  return mask;
}

}  // namespace

TEST_CASE("a perceptron as a graph of ONNX has its layers' numbers and names", "[onnx]") {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Linear first(params / "first", 4, 8), last(params / "last", 8, 3);
  const nn::LayerNorm norm(params / "norm", 8);
  const auto f = [&](Inputs in) { return softmax(last(norm(gelu(first(in[0]), Gelu::erf)))); };
  const Tensor x = Tensor::randn({5, 4}, rng), other = Tensor::randn({5, 4}, rng);
  check_graph(f, {x}, {other});

  const OnnxNames names{.inputs = {"x"}, .outputs = {"p"}, .parameters = params.parameters()};
  const OnnxFile file = exported_function(f, {x}, names);
  CHECK(file.model.graph().input(0).name() == "x");
  CHECK(file.model.graph().output(0).name() == "p");
  const auto& sizes = file.model.graph().input(0).type().tensor_type().shape();
  CHECK(sizes.dim_size() == 2);
  CHECK(sizes.dim(0).dim_value() == 5);
  for (const auto& [name, t] : params.parameters()) {
    INFO(name);
    CHECK(file.weight(name).data == function_input(t).data);
  }
  const std::vector<std::string> ops = ops_of(file);
  for (const char* op : {"MatMul", "Erf", "LayerNormalization", "Softmax"}) {
    INFO(op);
    CHECK(std::count(ops.begin(), ops.end(), op) >= 1);
  }
}

TEST_CASE("a network of convolutions as a graph of ONNX", "[onnx]") {
  Rng rng(2);
  const Tensor w = Tensor::randn({6, 2, 3, 3}, rng), bias = Tensor::randn({6}, rng);
  const Tensor by_channel = Tensor::randn({6, 1, 3, 3}, rng);
  const Tensor mean = Tensor::randn({6}, rng), variance = Tensor::uniform({6}, rng, 0.5, 2);
  const Tensor head = Tensor::randn({4, 6 * 2 * 2}, rng);
  const auto f = [&](Inputs in) {
    Tensor x = conv2d(in[0], w, bias, {.stride = 2, .padding = 1});
    x = relu(batch_norm_with(x, mean, variance, {}, {}));
    x = conv2d(x, by_channel, {}, {.padding = 2, .dilation = 2, .groups = 6});
    x = max_pool2d(x, 2, {.stride = 1});
    x = avg_pool2d(x, 3, {.stride = 1, .padding = 1, .count_include_pad = false});
    x = adaptive_avg_pool2d(x, 2) + adaptive_max_pool2d(upsample(x, {8, 8}), 2);
    return linear(flatten(x, 1), head);
  };
  check_graph(f, {Tensor::randn({2, 2, 10, 10}, rng)}, {Tensor::randn({2, 2, 10, 10}, rng)});

  const Tensor back = Tensor::randn({3, 2, 3, 2}, rng), two = Tensor::randn({2}, rng);
  const auto grows = [&](Inputs in) {
    return conv_transpose2d(in[0], back, two,
                            {.stride = {2, 3}, .padding = 1, .output_padding = {1, 0}});
  };
  check_graph(grows, {Tensor::randn({2, 3, 4, 3}, rng)}, {Tensor::randn({2, 3, 4, 3}, rng)});

  const Tensor taps = Tensor::randn({4, 2, 3}, rng);
  const auto signal = [&](Inputs in) {
    return conv1d(in[0], taps, {}, {.stride = 2, .padding = 2, .dilation = 2, .groups = 2});
  };
  check_graph(signal, {Tensor::randn({3, 4, 9}, rng)}, {Tensor::randn({3, 4, 9}, rng)});
}

TEST_CASE("attention that is written by hand, and the fused one, as graphs of ONNX", "[onnx]") {
  Rng rng(3);
  const std::int64_t B = 2, T = 5, C = 8, H = 2;
  const Tensor w = Tensor::randn({3 * C, C}, rng), hidden = causal_mask(T);
  const auto by_hand = [&](Inputs in) {
    std::vector<Tensor> parts = split(linear(in[0], w), {C, C, C}, -1);
    for (Tensor& part : parts) part = permute(reshape(part, {B, T, H, C / H}), {0, 2, 1, 3});
    const Tensor scores = matmul(parts[0], parts[1], {.transpose_b = true}) * 0.5;
    const Tensor shares =
        softmax(masked_fill(scores, hidden, -std::numeric_limits<double>::infinity()));
    return reshape(permute(matmul(shares, parts[2]), {0, 2, 1, 3}), {B, T, C});
  };
  const auto fused = [&](Inputs in) { return attention(linear(in[0], w), H); };
  const std::vector<Tensor> x = {Tensor::randn({B, T, C}, rng)},
                            other = {Tensor::randn({B, T, C}, rng)};
  check_graph(by_hand, x, other);
  check_graph(fused, x, other);
  CHECK(largest_difference(exported_function(by_hand, x), fused, other) < 1e-5);
}

TEST_CASE("ids and masks are inputs of a graph", "[onnx]") {
  Rng rng(4);
  const Tensor table = Tensor::randn({7, 3}, rng).set_requires_grad();
  const auto f = [&](Inputs in) {
    const Tensor rows = embedding(table, in[0]);
    return where(unsqueeze(in[1], 2), rows, -rows);
  };
  const std::vector<std::int32_t> ids = {0, 6, 3, 3, 1, 2}, others = {5, 5, 0, 1, 6, 4};
  const Tensor mask = Tensor::from<std::uint8_t>({1, 0, 0, 1, 1, 0}, {2, 3});
  const Tensor other_mask = Tensor::from<std::uint8_t>({0, 0, 1, 1, 0, 1}, {2, 3});
  for (const DType dtype : {DType::i32, DType::i64}) {
    check_graph(f, {Tensor::from(ids, {2, 3}).to(dtype), mask},
                {Tensor::from(others, {2, 3}).to(dtype), other_mask});
  }
  const Tensor frozen = Tensor::randn({7, 3}, rng);
  const auto looks_up = [&](Inputs in) { return embedding(frozen, in[0]); };
  const std::vector<Tensor> example = {Tensor::from(ids, {2, 3})},
                            other = {Tensor::from(others, {2, 3})};
  CHECK_THAT(export_error(looks_up, example), ContainsSubstring("the result uses a tensor"));
  const std::vector<std::pair<std::string, Tensor>> named = {{"table", frozen}};
  const OnnxFile file = exported_function(looks_up, example, {.parameters = named});
  CHECK(file.weight("table").data == function_input(frozen).data);
  CHECK(largest_difference(file, looks_up, other) < 1e-5);

  const auto padded = [&](Inputs in) { return embedding(table, in[0], 3); };
  check_graph(padded, example, other);
}

TEST_CASE("what shares the elements of a tensor of a graph is the same there", "[onnx]") {
  Rng rng(9);
  const auto cuts = [](Inputs in) {
    const Tensor y = exp(in[0]);
    return reshape(y.detach(), {3, 4}) * reshape(in[0], {3, 4}) + reshape(in[0].detach(), {3, 4});
  };
  check_graph(cuts, {Tensor::randn({4, 3}, rng)}, {Tensor::randn({4, 3}, rng)});
}

TEST_CASE("a graph has several outputs, and only ops that they need", "[onnx]") {
  Rng rng(5);
  const TempFolder folder;
  const Tensor x = Tensor::randn({2, 3}, rng);
  const auto f = [](Inputs in) {
    Rng unused(1);
    dropout(in[0], 0.5, unused);  // which has no row
    const Tensor y = exp(in[0]);
    return std::vector{y, in[0], sum(y)};
  };
  export_onnx(folder / "f.onnx", f, {x}, {.outputs = {"y", "x", "sum"}});
  const OnnxFile file(folder / "f.onnx");
  CHECK(value_names(file.model.graph().output()) == std::vector<std::string>{"y", "x", "sum"});
  const auto values = file.run({{"input_0", function_input(x)}});
  CHECK(values.at("x").data == function_input(x).data);
  CHECK(onnx_at(values.at("sum"), 0) == Approx(sum(exp(x)).item()));
}

TEST_CASE("what a graph of ONNX cannot say is an error that names the op", "[onnx]") {
  Rng rng(6);
  const std::vector<Tensor> x = {Tensor::randn({4, 3}, rng)};
  const auto drops = [](Inputs in) {
    Rng again(1);
    return dropout(in[0], 0.5, again);
  };
  CHECK_THAT(export_error(drops, x), ContainsSubstring("[dropout]") && ContainsSubstring("no row"));
  const auto compares = [](Inputs in) { return where(in[0] > 0, in[0], in[0] * 0.1); };
  CHECK_THAT(export_error(compares, x), ContainsSubstring("where uses a tensor of shape (4, 3)"));
  const auto half = [](Inputs in) { return in[0].rows(0, 2) * in[0].detach().rows(2, 4); };
  CHECK_THAT(export_error(half, x), ContainsSubstring("mul uses a tensor of shape (2, 3)"));
  const auto draws = [&](Inputs in) { return in[0] + Tensor::randn({3}, rng); };
  CHECK_THAT(export_error(draws, x), ContainsSubstring("add uses a tensor of shape (3)"));
  const auto counts = [](Inputs in) { return eq(in[0], in[0] * 1.0); };
  CHECK(export_error(counts, x).empty());  // true of all inputs: a constant
  int calls = 0;
  const auto branches = [&](Inputs in) { return ++calls == 1 ? exp(in[0]) : tanh(in[0]); };
  CHECK_THAT(export_error(branches, x), ContainsSubstring("called other ops"));
  const auto none = [](Inputs in) { return slice(in[0], 0, 1, 1); };
  CHECK_THAT(export_error(none, x), ContainsSubstring("[slice] a result of shape (0, 3)"));
  const auto same = [](Inputs in) { return in[0] * 2.0; };
  CHECK_THAT(export_error(same, x, {.inputs = {"x"}, .outputs = {"x"}}),
             ContainsSubstring("two tensors have the name 'x'"));
  CHECK_THAT(export_error(same, x, {.inputs = {"x", "y"}}),
             ContainsSubstring("2 names for 1 inputs"));
  CHECK_THAT(export_error(same, x, {.outputs = {""}}), ContainsSubstring("a name is empty"));
  const auto nothing = [](Inputs) { return Tensor(); };
  CHECK_THAT(export_error(nothing, x), ContainsSubstring("a result is undefined"));
}

TEST_CASE("names that are made for a graph leave given ones alone", "[onnx]") {
  Rng rng(11);
  const Tensor x = Tensor::randn({3}, rng);
  std::vector<std::pair<std::string, Tensor>> named;
  for (const char* name : {"constant_1", "constant_2", "values_0", "parameter_0"}) {
    named.emplace_back(name, Tensor::randn({3}, rng));
  }
  const Tensor trained = Tensor::randn({3}, rng).set_requires_grad();
  const Tensor other = Tensor::randn({3}, rng);
  const auto f = [&](Inputs in) {
    Tensor y = in[0] * 2.0 + trained + other;
    for (const auto& [name, t] : named) y = y * t;
    return y;
  };
  const OnnxFile file = exported_function(f, {x}, {.outputs = {"/Mul_3"}, .parameters = named});
  check_sorted(file.model.graph());
  CHECK(largest_difference(file, f, {x}) < 1e-5);
}

TEST_CASE("a write in place that a graph of ONNX would lack is an error", "[onnx]") {
  Rng rng(10);
  const std::vector<Tensor> x = {Tensor::randn({4, 3}, rng)};
  const auto detached = [](Inputs in) {
    Tensor y = exp(in[0]).detach();
    y.mutable_data<float>()[0] = 0;
    return y * in[0];
  };
  CHECK_THAT(export_error(detached, x), ContainsSubstring("that exp uses or makes was changed"));
  const auto row = [](Inputs in) {
    const Tensor y = exp(in[0]);
    y.detach().rows(1, 2).mutable_data<float>()[0] = 0;
    return y;
  };
  CHECK_THAT(export_error(row, x), ContainsSubstring("that exp uses or makes was changed"));
  const auto masks = [](Inputs in) {
    Tensor hidden = Tensor::zeros({4, 3}, DType::u8);
    const Tensor y = masked_fill(in[0], hidden, 2);
    hidden.mutable_data<std::uint8_t>()[0] = 1;
    return y + masked_fill(in[0], hidden, 3);
  };
  CHECK_THAT(export_error(masks, x), ContainsSubstring("[where] the condition was changed"));
  const auto input = [](Inputs in) {
    in[0].detach().mutable_data<float>()[0] = 0;
    return in[0] * 2.0;
  };
  CHECK_THAT(export_error(input, {x[0].clone()}), ContainsSubstring("writes to one of its inputs"));
  Tensor kept = Tensor::zeros({2});
  const auto outside = [&](Inputs in) {
    kept.mutable_data<float>()[0] = static_cast<float>(in[0].at(0));
    return in[0].rows(0, 2) * kept.view({2, 1});
  };
  CHECK_THAT(export_error(outside, x), ContainsSubstring("writes to whenever it runs"));

  const auto made_first = [](Inputs in) {  // written to before an op uses it
    Tensor shift = Tensor::zeros({3});
    shift.mutable_data<float>()[1] = 1;
    return exp(in[0]) + shift;
  };
  check_graph(made_first, x, {Tensor::randn({4, 3}, rng)});
  const auto copied = [](Inputs in) {
    const Tensor y = exp(in[0]);
    y.clone().detach().mutable_data<float>()[0] = 0;
    return y;
  };
  check_graph(copied, x, {Tensor::randn({4, 3}, rng)});
}

TEST_CASE("functions of rows are kept only where a tape writes graphs", "[onnx]") {
  const auto exists = [] { return OnnxRow([](OnnxCall& c) { return c.in(0); }).exists(); };
  CHECK_FALSE(exists());
  const Tape ordinary;
  CHECK_FALSE(exists());
  const Tape checkable({.checkable = true});
  CHECK(exists());
  const TapePause pause;
  CHECK_FALSE(exists());
  CHECK(OnnxRow("Exp").exists());
}

// Where data choose elements, as in sort, the other values of a small case may choose the same
// ones: of each case, the example alone is compared.
TEST_CASE("the graph of each op with a row has the op's numbers", "[onnx]") {
  std::set<std::string> with, compared;
  for (const OpCase& op_case : op_table()) {
    INFO(op_case.str());
    Rng rng(7);
    const std::vector<Tensor> example = op_case.inputs(rng);
    const auto is_empty = [](const Tensor& t) { return t.numel() == 0; };
    if (std::any_of(example.begin(), example.end(), is_empty)) continue;
    const std::set<std::string> ops = ops_in_case(op_case, true);
    with.insert(ops.begin(), ops.end());
    if (!export_error(op_case.run, example).empty()) continue;
    compared.insert(ops.begin(), ops.end());
    check_graph(op_case.run, example, example);
  }
  CHECK(compared == with);
}

// docs/ops.md has them, as one line behind this one. Ops of backward are left out.
TEST_CASE("docs/ops.md lists the ops that have a row", "[onnx]") {
  std::set<std::string> with, without;
  for (const OpCase& op_case : op_table()) {
    with.merge(ops_in_case(op_case, true));
    without.merge(ops_in_case(op_case, false));
  }
  const auto line_of = [](const std::set<std::string>& names) {
    std::string line;
    for (const std::string& name : names) line += (line.empty() ? "`" : ", `") + name + "`";
    return line;
  };
  for (const std::string& name : with) without.erase(name);
  const std::string page = TempFolder::get(std::filesystem::path(places::kSources) / "docs/ops.md");
  CHECK_THAT(page, ContainsSubstring("Ops with a row: " + line_of(with) + ".\n"));
  CHECK_THAT(page, ContainsSubstring("Ops without: " + line_of(without) + ".\n"));
}
