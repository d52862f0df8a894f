#include <regex>
#include <set>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

// One case of the file: the tensors under `<op>@<label>/<dtype>/`.
struct Golden {
  std::string op, key;
  std::map<std::string, Tensor> tensors;  // in0, in1, …, idx, out, dout, grad0, …

  std::vector<Tensor> inputs() const {
    std::vector<Tensor> list;
    for (int i = 0; tensors.count("in" + std::to_string(i)) > 0; ++i) {
      list.push_back(tensors.at("in" + std::to_string(i)));
    }
    return list;
  }
  // The op's index argument, undefined if it has none.
  Tensor index() const { return tensors.count("idx") > 0 ? tensors.at("idx") : Tensor(); }
};

using Run = std::function<Tensor(Inputs, const Tensor& idx)>;

// The ops here for PyTorch's names in the file.
const std::map<std::string, Run>& runs() {
  using In = Inputs;
  using Idx = const Tensor&;
  static const std::map<std::string, Run> table = {
      {"add", [](In x, Idx) { return add(x[0], x[1]); }},
      {"sub", [](In x, Idx) { return sub(x[0], x[1]); }},
      {"mul", [](In x, Idx) { return mul(x[0], x[1]); }},
      {"div", [](In x, Idx) { return div(x[0], x[1]); }},
      {"maximum", [](In x, Idx) { return maximum(x[0], x[1]); }},
      {"neg", [](In x, Idx) { return neg(x[0]); }},
      {"exp", [](In x, Idx) { return exp(x[0]); }},
      {"log", [](In x, Idx) { return log(x[0]); }},
      {"sqrt", [](In x, Idx) { return sqrt(x[0]); }},
      {"tanh", [](In x, Idx) { return tanh(x[0]); }},
      {"sigmoid", [](In x, Idx) { return sigmoid(x[0]); }},
      {"erf", [](In x, Idx) { return erf(x[0]); }},
      {"pow", [](In x, Idx) { return pow(x[0], x[1]); }},
      {"relu", [](In x, Idx) { return relu(x[0]); }},
      {"abs", [](In x, Idx) { return tapegrad::abs(x[0]); }},
      {"gelu(tanh)", [](In x, Idx) { return gelu(x[0]); }},
      {"gelu(erf)", [](In x, Idx) { return gelu(x[0], Gelu::erf); }},
      {"pow(3)", [](In x, Idx) { return pow(x[0], 3); }},
      {"pow(0.5)", [](In x, Idx) { return pow(x[0], 0.5); }},
      {"pow(-1)", [](In x, Idx) { return pow(x[0], -1); }},
      {"pow(0)", [](In x, Idx) { return pow(x[0], 0); }},
      {"clamp(-1,1)", [](In x, Idx) { return clamp(x[0], -1, 1); }},
      {"where", [](In x, Idx idx) { return where(idx.to(DType::u8), x[0], x[1]); }},
      {"masked_fill(-2.5)",
       [](In x, Idx idx) { return masked_fill(x[0], idx.to(DType::u8), -2.5); }},
      {"sum()", [](In x, Idx) { return sum(x[0]); }},
      {"sum(1)", [](In x, Idx) { return sum(x[0], {1}); }},
      {"sum(0,keep)", [](In x, Idx) { return sum(x[0], {0}, true); }},
      {"mean()", [](In x, Idx) { return mean(x[0]); }},
      {"mean(1)", [](In x, Idx) { return mean(x[0], {1}); }},
      {"mean(-1,keep)", [](In x, Idx) { return mean(x[0], {-1}, true); }},
      {"max()", [](In x, Idx) { return max(x[0]); }},
      {"max(1)", [](In x, Idx) { return max(x[0], 1).values; }},
      {"max(0,keep)", [](In x, Idx) { return max(x[0], 0, true).values; }},
      {"var(unbiased)", [](In x, Idx) { return var(x[0]); }},
      {"var(biased)", [](In x, Idx) { return var(x[0], {}, false); }},
      {"var(1,unbiased)", [](In x, Idx) { return var(x[0], {1}); }},
      {"var(-1,biased,keep)", [](In x, Idx) { return var(x[0], {-1}, false, true); }},
      {"reshape(2,6)",
       [](In x, Idx) {
         return reshape(x[0], {2, 6});
       }},
      {"reshape(4,3,2)",
       [](In x, Idx) {
         return reshape(x[0], {4, 3, 2});
       }},
      {"transpose(0,1)", [](In x, Idx) { return transpose(x[0], 0, 1); }},
      {"transpose(1,2)", [](In x, Idx) { return transpose(x[0], 1, 2); }},
      {"permute(2,0,1)",
       [](In x, Idx) {
         return permute(x[0], {2, 0, 1});
       }},
      {"slice(0,1,3)", [](In x, Idx) { return slice(x[0], 0, 1, 3); }},
      {"slice(1,1,3)", [](In x, Idx) { return slice(x[0], 1, 1, 3); }},
      {"pad(1,1,5)", [](In x, Idx) { return pad(x[0], 1, 1, 5); }},
      {"split(1,4)",
       [](In x, Idx) {
         const auto parts = split(x[0], {1, 4}, 1);
         return parts[0] * parts[1];
       }},
      {"sum_to(3,1)",
       [](In x, Idx) {
         return sum_to(x[0], {3, 1});
       }},
      {"broadcast_to(2,3,4)",
       [](In x, Idx) {
         return broadcast_to(x[0], {2, 3, 4});
       }},
      {"dropout(0.3)",
       [](In x, Idx) {
         Rng rng(3);
         return dropout(x[0], 0.3, rng);
       }},
      {"concat(0)",
       [](In x, Idx) {
         return concat({x.begin(), x.end()}, 0);
       }},
      {"concat(1)",
       [](In x, Idx) {
         return concat({x.begin(), x.end()}, 1);
       }},
      {"index_select", [](In x, Idx idx) { return gather_rows(x[0], idx); }},
      {"gather(-1)", [](In x, Idx idx) { return gather(x[0], idx, -1); }},
      {"gather(0)", [](In x, Idx idx) { return gather(x[0], idx, 0); }},
      {"matmul", [](In x, Idx) { return matmul(x[0], x[1]); }},
      {"linear", [](In x, Idx) { return linear(x[0], x[1], x.size() > 2 ? x[2] : Tensor()); }},
      {"softmax", [](In x, Idx) { return softmax(x[0]); }},
      {"log_softmax", [](In x, Idx) { return log_softmax(x[0]); }},
      {"logsumexp", [](In x, Idx) { return log_sum_exp(x[0]); }},
      {"layer_norm",
       [](In x, Idx) {
         return layer_norm(x[0], x.size() > 1 ? x[1] : Tensor(), x.size() > 2 ? x[2] : Tensor());
       }},
      {"attention(2,causal)", [](In x, Idx) { return attention(x[0], 2); }},
      {"attention(2,full)", [](In x, Idx) { return attention(x[0], 2, {.causal = false}); }},
      {"attention(3,causal)", [](In x, Idx) { return attention(x[0], x[1], x[2], 3); }},
      {"attention(3,full)",
       [](In x, Idx) { return attention(x[0], x[1], x[2], 3, {.causal = false}); }},
      {"attention(4,causal)", [](In x, Idx) { return attention(x[0], x[1], x[2], 4); }},
      {"attention(4,full)",
       [](In x, Idx) { return attention(x[0], x[1], x[2], 4, {.causal = false}); }},
      {"rms_norm", [](In x, Idx) { return rms_norm(x[0], x.size() > 1 ? x[1] : Tensor()); }},
      {"swiglu", [](In x, Idx) { return swiglu(x[0], x[1]); }},
      {"embedding", [](In x, Idx idx) { return embedding(x[0], idx); }},
      {"cross_entropy()", [](In x, Idx idx) { return cross_entropy(x[0], idx); }},
      {"cross_entropy(ignore=-1)", [](In x, Idx idx) { return cross_entropy(x[0], idx, -1); }},
      {"mse_loss", [](In x, Idx) { return mse_loss(x[0], x[1]); }},
      {"sin", [](In x, Idx) { return sin(x[0]); }},
      {"cos", [](In x, Idx) { return cos(x[0]); }},
      {"log1p", [](In x, Idx) { return log1p(x[0]); }},
      {"expm1", [](In x, Idx) { return expm1(x[0]); }},
      {"softplus", [](In x, Idx) { return softplus(x[0]); }},
      {"softplus(2)", [](In x, Idx) { return softplus(x[0], 2); }},
      {"silu", [](In x, Idx) { return silu(x[0]); }},
      {"cumsum(0)", [](In x, Idx) { return cumsum(x[0], 0); }},
      {"cumsum(1)", [](In x, Idx) { return cumsum(x[0], 1); }},
      {"sort()", [](In x, Idx) { return sort(x[0]).values; }},
      {"sort(0,descending)", [](In x, Idx) { return sort(x[0], 0, true).values; }},
      {"topk(2)", [](In x, Idx) { return topk(x[0], 2).values; }},
      {"topk(2,0,smallest)", [](In x, Idx) { return topk(x[0], 2, 0, false).values; }},
      {"select(1,-2)", [](In x, Idx) { return select(x[0], 1, -2); }},
      {"gather(1,many)", [](In x, Idx idx) { return gather(x[0], idx, 1); }},
      {"index",
       [](In x,
          Idx idx) { return index(x[0], {idx.rows(0, 1).view({-1}), idx.rows(1, 2).view({-1})}); }},
  };
  return table;
}

const std::map<std::string, Run>& layers_and_losses() {
  static const std::map<std::string, Run> table = [] {
    const auto convolution = [](const Conv1dOptions& options) {
      return [=](Inputs x, const Tensor&) {
        return conv1d(x[0], x[1], x.size() > 2 ? x[2] : Tensor(), options);
      };
    };
    using Loss = Tensor (*)(const Tensor&, const Tensor&, const BinaryLossOptions&);
    const auto binary = [](Loss loss, Reduction reduction = Reduction::mean, bool weight = false,
                           bool pos_weight = false) {
      return [=](Inputs x, const Tensor&) {
        const Tensor w = Tensor::from<double>({0.5, 2, 1, 3}, {4}).to(x[0].dtype());
        return loss(x[0], x[1],
                    {.weight = weight ? w : Tensor(),
                     .pos_weight = pos_weight ? w : Tensor(),
                     .reduction = reduction});
      };
    };
    const auto divergence = [](const KlDivOptions& options) {
      return [=](Inputs x, const Tensor&) { return kl_div(x[0], x[1], options); };
    };
    const Loss of_logits = binary_cross_entropy_with_logits, plain = binary_cross_entropy;
    return std::map<std::string, Run>{
        {"conv1d", convolution({})},
        {"conv1d(stride=2,padding=1)", convolution({.stride = 2, .padding = 1})},
        {"conv1d(padding=2,dilation=2,groups=2)",
         convolution({.padding = 2, .dilation = 2, .groups = 2})},
        {"conv1d(stride=3,padding=4)", convolution({.stride = 3, .padding = 4})},
        {"conv1d(groups=4)", convolution({.groups = 4})},
        {"conv1d(stride=4)", convolution({.stride = 4})},
        {"binary_cross_entropy()", binary(plain)},
        {"binary_cross_entropy(sum)", binary(plain, Reduction::sum)},
        {"with_logits()", binary(of_logits)},
        {"with_logits(none)", binary(of_logits, Reduction::none)},
        {"with_logits(weight)", binary(of_logits, Reduction::mean, true)},
        {"with_logits(pos_weight)", binary(of_logits, Reduction::mean, false, true)},
        {"kl_div()", divergence({})},
        {"kl_div(batchmean)", divergence({.reduction = Reduction::batchmean})},
        {"kl_div(none,log_target)", divergence({.reduction = Reduction::none, .log_target = true})},
    };
  }();
  return table;
}

// The function of that name in the file; einsum's equation is a part of it.
Run run_named(const std::string& op) {
  const std::string einsum_start = "einsum(";
  if (op.rfind(einsum_start, 0) == 0) {
    const std::string equation =
        op.substr(einsum_start.size(), op.size() - einsum_start.size() - 1);
    return [=](Inputs x, const Tensor&) { return einsum(equation, {x.begin(), x.end()}); };
  }
  const auto& table = runs().count(op) > 0 ? runs() : layers_and_losses();
  REQUIRE(table.count(op) == 1);
  return table.at(op);
}

std::map<std::string, Golden> read_cases() {
  std::map<std::string, Golden> cases;
  for (const auto& [name, tensor] :
       load_safetensors(golden_file("ops.safetensors").string()).tensors) {
    const std::size_t slash = name.rfind('/');
    Golden& golden = cases[name.substr(0, slash)];
    golden.key = name.substr(0, slash);
    golden.op = name.substr(0, name.find('@'));
    golden.tensors[name.substr(slash + 1)] = tensor;
  }
  return cases;
}

}  // namespace

TEST_CASE("every op agrees with PyTorch, and so do its gradients", "[golden]") {
  std::set<std::string> used;
  int checked = 0;
  for (const auto& [key, golden] : read_cases()) {
    INFO(key);
    const Run run = run_named(golden.op);
    if (golden.op.rfind("einsum", 0) != 0) used.insert(golden.op);
    const std::vector<Tensor> inputs = golden.inputs();
    Tape tape;
    for (const Tensor& x : inputs) tape.watch(x);
    const Tensor y = run(inputs, golden.index());
    const bool f64 = y.dtype() == DType::f64;
    CHECK(difference(y, golden.tensors.at("out"), f64 ? 1e-7 : 1.3e-6, f64 ? 1e-7 : 1e-5) == "");
    const Grads grads = tape.gradient(y, inputs, {.seeds = {golden.tensors.at("dout")}});
    for (std::size_t i = 0; i < grads.size(); ++i) {
      INFO("gradient " << i);
      const Tensor& expected = golden.tensors.at("grad" + std::to_string(i));
      const Tensor got = grads[i].defined() ? grads[i] : Tensor::zeros(expected.shape(), y.dtype());
      CHECK(difference(got, expected, f64 ? 1e-7 : 1e-3, f64 ? 1e-7 : 1e-4) == "");
    }
    // in…, grad… for each input, out, dout and perhaps idx: nothing else may lie there unseen.
    const std::size_t known = 2 * inputs.size() + 2 + (golden.index().defined() ? 1 : 0);
    CHECK(golden.tensors.size() == known);
    ++checked;
  }
  CHECK(used.size() == runs().size() + layers_and_losses().size());
  CHECK(checked >= 400);
}
