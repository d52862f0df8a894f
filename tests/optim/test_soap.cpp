#include <cmath>

#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/optim/internal/eigenvectors.h"
#include "tapegrad/optim/optimizers/soap.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/golden/golden.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using optim::SOAP;
using optim::SOAPOptions;

namespace {

// Those of golden_soap.py: step 0 is for the parameters.
Tensor entries(const nlohmann::json& shape, std::int64_t t, DType dtype) {
  const std::int64_t rows = shape[0], columns = shape[1];
  std::vector<double> values;
  for (std::int64_t k = 0; k < rows * columns; ++k) {
    const std::int64_t number = (37 * k * k + 101 * k * t + 13 * t + 5 * k) % 1021 - 510;
    values.push_back(static_cast<double>(number) / 1024);
  }
  return Tensor::from<double>(values, {rows, columns}).to(dtype);
}

struct Golden {
  nlohmann::json json = golden_json("soap.json");

  NamedTensors parameters(DType dtype) const {
    NamedTensors all;
    for (const auto& [name, shape] : json["shapes"].items())
      all.emplace_back(name, entries(shape, 0, dtype).set_requires_grad());
    return all;
  }
  // Steps `from` to `to` − 1, counted from 1.
  void train(optim::OptimizerState& state, const NamedTensors& parameters, int from, int to) const {
    for (int t = from; t < to; ++t) {
      for (auto [name, p] : parameters) p.set_grad(entries(json["shapes"][name], t, p.dtype()));
      state.step(json["lr"]);
    }
  }
  int end() const { return json["steps"].get<int>() + 1; }
};

SOAPOptions options_of(const nlohmann::json& json) {
  SOAPOptions o;
  o.beta1 = json.value("beta1", o.beta1);
  o.beta2 = json.value("beta2", o.beta2);
  o.weight_decay = json.value("weight_decay", o.weight_decay);
  o.precondition_frequency = json.value("precondition_frequency", o.precondition_frequency);
  o.max_precond_dim = json.value("max_precond_dim", o.max_precond_dim);
  return o;
}

double farthest(const Tensor& t, const std::vector<double>& expected) {
  double difference = 0;
  for (std::int64_t i = 0; i < t.numel(); ++i)
    difference = std::max(difference, std::abs(t.at(i) - expected[static_cast<std::size_t>(i)]));
  return difference;
}

// The bytes that are kept for a matrix of that shape, in f32.
double bytes_kept(const Shape& shape, const SOAPOptions& options) {
  const NamedTensors one{{"w", Tensor::zeros(shape)}};
  double bytes = 0;
  for (const auto& [name, t] : SOAP(one, options).state()) bytes += static_cast<double>(t.bytes());
  return bytes;
}

// A symmetric matrix of rank `rank` with the eigenvalues rank, …, 2, 1, and its eigenvectors.
struct Known {
  Tensor matrix, vectors;
  Known(std::int64_t n, std::int64_t rank) {
    Rng rng(3);
    Tensor base = Tensor::randn({n, n}, rng).to(DType::f64);
    base = matmul(base, transpose(base, 0, 1));
    vectors = Tensor::eye(n, DType::f64);
    for (int i = 0; i < 3; ++i) optim::iterate_eigenvectors(base, vectors);
    Tensor scaled = vectors.clone();
    for (std::int64_t i = 0; i < n; ++i) {
      const double value = static_cast<double>(std::max<std::int64_t>(rank - i, 0));
      for (double& x :
           std::span(scaled.mutable_data<double>() + i * n, static_cast<std::size_t>(n)))
        x *= value;
    }
    matrix = matmul(transpose(vectors, 0, 1), scaled);
  }
};

double from_orthonormal(const Tensor& rows) {
  return farthest(matmul(rows, transpose(rows, 0, 1)), list(Tensor::eye(rows.dim(0), DType::f64)));
}

}  // namespace

// In f32, L and R of few steps are rounded where they should be 0, and a millionth of the largest
// eigenvalue is not far above that. A square matrix has full rank at once.
TEST_CASE("SOAP makes the steps of its formula, in f64 and f32", "[soap]") {
  const Golden golden;
  const DType dtype = GENERATE(DType::f64, DType::f32);
  for (const auto& [label, golden_case] : golden.json["cases"].items()) {
    if (golden_case["options"].contains("cautious")) continue;
    const NamedTensors parameters = golden.parameters(dtype);
    SOAP soap(parameters, options_of(golden_case["options"]));
    golden.train(soap, parameters, 1, golden.end());
    for (const auto& [name, p] : parameters) {
      INFO(label << ", " << name);
      const double in_f32 = name == "square.weight" ? 4e-6 : 0.05;
      CHECK(farthest(p, golden_case["final"][name]) <= (dtype == DType::f64 ? 1e-10 : in_f32));
    }
  }
}

TEST_CASE("SOAP decays cautiously, as its formula", "[soap]") {
  const Golden golden;
  const NamedTensors parameters = golden.parameters(DType::f64);
  const nlohmann::json& cautious = golden.json["cases"]["cautious"];
  optim::GroupRules rules{.optimizer = optim::optimizer_named("soap"),
                          .weight_decay = cautious["options"]["weight_decay"],
                          .cautious_decay = true};
  rules.settings.set("precondition_frequency", 3);
  optim::OptimizerState state(parameters, optim::make_groups(parameters, rules));
  golden.train(state, parameters, 1, golden.end());
  for (const auto& [name, p] : parameters) {
    INFO(name);
    CHECK(farthest(p, cautious["final"][name]) <= 1e-10);
  }
}

TEST_CASE("SOAP that is saved and goes on ends at the bits of one that was not", "[soap]") {
  const TempFolder folder;
  const std::string path = (folder / "state.safetensors").string();
  const Golden golden;
  const SOAPOptions options{.precondition_frequency = 3};
  const int saved = GENERATE(1, 2, 5);  // steps
  const NamedTensors whole = golden.parameters(DType::f32), parts = golden.parameters(DType::f32);
  SOAP soap(whole, options);
  golden.train(soap, whole, 1, 10);
  SOAP first(parts, options), second(parts, options);
  golden.train(first, parts, 1, saved + 1);
  save_safetensors(path, first.state(), first.metadata());
  second.load_state(*open_safetensors(path));
  golden.train(second, parts, saved + 1, 10);
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(same_bits(parts[i].second, whole[i].second));
}

TEST_CASE("SOAP begins with a matrix's first gradient, which moves nothing", "[soap]") {
  const NamedTensors two{{"a", Tensor::ones({3, 4}).set_requires_grad()},
                         {"b", Tensor::ones({3, 4}).set_requires_grad()}};
  SOAP soap(two);
  const auto step = [&](bool both) {
    for (std::size_t i = 0; i < 2; ++i) {
      Tensor t = two[i].second;
      t.zero_grad();
      if (i == 0 || both) t.set_grad(entries({3, 4}, 7, DType::f32));
    }
    soap.step(0.1);
  };
  const std::vector<double> ones(12, 1);
  step(false);
  CHECK(list(two[0].second) == ones);
  step(false);
  CHECK(list(two[0].second) != ones);
  step(true);
  CHECK(list(two[1].second) == ones);
  step(true);
  CHECK(list(two[1].second) != ones);
  CHECK(std::isfinite(sum(two[1].second).item()));
}

TEST_CASE("SOAP clips gradients by the factor that a step gives", "[soap]") {
  const auto trained = [](double factor, double scale) {
    Tensor p = Tensor::ones({3, 4}, DType::f64).set_requires_grad();
    SOAP soap({{"p", p}}, {.precondition_frequency = 2});
    for (int t = 1; t < 6; ++t) {
      p.set_grad(entries({3, 4}, t, DType::f64) * (t % 2 == 0 ? scale : 1));
      soap.step(0.1, t % 2 == 0 ? factor : 1);
    }
    return p;
  };
  // Powers of two round nothing.
  CHECK(same_bits(trained(0.25, 1), trained(1, 0.25)));
  CHECK_FALSE(same_bits(trained(0.25, 1), trained(1, 1)));
}

TEST_CASE("gradients of zeros, or of no elements, move nothing by SOAP", "[soap]") {
  Tensor p = Tensor::ones({3, 4}).set_requires_grad(),
         none = Tensor::ones({0, 4}).set_requires_grad();
  SOAP soap({{"p", p}, {"none", none}}, {.weight_decay = 0, .precondition_frequency = 1});
  for (int t = 0; t < 4; ++t) {
    p.set_grad(Tensor::zeros({3, 4}));
    none.set_grad(Tensor::zeros({0, 4}));
    soap.step(0.1);
  }
  CHECK(list(p) == std::vector<double>(12, 1));
}

TEST_CASE("SOAP keeps squares of the sides that are not too long", "[soap]") {
  CHECK(bytes_kept({3, 5}, {}) == 4 * 2 * (15 + 9 + 25));
  CHECK(bytes_kept({3, 5}, {.max_precond_dim = 4}) == 4 * 2 * (15 + 9));
  CHECK(bytes_kept({3, 5}, {.max_precond_dim = 2}) == 4 * 2 * 15);
}

TEST_CASE("SOAP is for hidden matrices, and leaves others to AdamW", "[soap]") {
  const NamedTensors model{{"wte.weight", Tensor::zeros({10, 4})},
                           {"h.0.ln_1.weight", Tensor::zeros({4})},
                           {"h.0.attn.c_attn.weight", Tensor::zeros({12, 4})}};
  const optim::ParameterGroups groups =
      optim::make_groups(model, optim::GroupRules{.optimizer = optim::optimizer_named("soap")});
  CHECK(groups.of(0).optimizer->name() == "adamw");
  CHECK(groups.of(1).optimizer->name() == "adamw");
  CHECK(groups.of(2).optimizer->name() == "soap");
  CHECK_THROWS_WITH(SOAP({{"b", Tensor::zeros({4})}}),
                    ContainsSubstring("SOAP is for matrices, and 'b' is (4)"));
  CHECK(optim::longest_period(groups) == 10);  // steps between new eigenvectors
  CHECK(optim::longest_period(optim::make_groups(model, optim::GroupRules())) == 1);
  const NamedTensors w{{"w", Tensor::zeros({2, 2})}};
  CHECK_THROWS_WITH(SOAP(w, {.precondition_frequency = 0}),
                    ContainsSubstring("[SOAPOptions] precondition_frequency"));
  CHECK_THROWS_WITH(SOAP(w, {.max_precond_dim = 0}), ContainsSubstring("max_precond_dim"));
}

TEST_CASE("an update of SOAP takes the memory that its dry run says", "[soap]") {
  // Of the second shape, the matrix itself takes more memory than its axes.
  const Shape shape = GENERATE(Shape{96, 200}, Shape{24, 4000});
  const std::int64_t longest = 1000;
  const auto peak = [&](const NamedTensors& w) {
    SOAP soap(w, {.precondition_frequency = 1, .max_precond_dim = longest});
    double largest = 0;
    for (int t = 0; t < 3; ++t) {
      const std::size_t before = memory_stats().live;
      reset_peak_memory();
      soap.step(0.1);
      largest = std::max(largest, static_cast<double>(memory_stats().peak - before));
    }
    return largest;
  };
  Rng rng(5);
  Tensor w = Tensor::randn(shape, rng).set_requires_grad();
  w.set_grad(Tensor::randn(shape, rng));
  const double truth = peak({{"w", w}});
  const DryRun dry;
  Tensor shadow = Tensor::empty(shape).set_requires_grad();
  shadow.set_grad(Tensor::empty(shape));
  const NamedTensors one{{"w", shadow}};
  SOAP soap(one, {.max_precond_dim = longest});
  const auto before = static_cast<double>(dry.live());
  soap.step(0.1);
  CHECK(static_cast<double>(dry.peak()) - before == Approx(truth).epsilon(0.03));
}

TEST_CASE("orthogonal iteration finds eigenvectors, the largest first, also of few", "[soap]") {
  const std::int64_t n = GENERATE(5, 32, 70), rank = GENERATE(5, 3);
  const Known known(n, rank);
  Tensor basis = Tensor::eye(n, DType::f64);
  for (int i = 0; i < 200; ++i) optim::iterate_eigenvectors(known.matrix, basis);
  CHECK(from_orthonormal(basis) <= 1e-13 * static_cast<double>(n));
  const Tensor products = matmul(basis, transpose(known.vectors, 0, 1));
  for (std::int64_t i = 0; i < rank; ++i) {
    INFO(n << ", " << i);
    CHECK(std::abs(std::abs(products.at(i * n + i)) - 1) <= 1e-9);
  }
}

TEST_CASE("a basis of any rows that are orthonormal is sorted, and says how", "[soap]") {
  const Tensor matrix = Tensor::from<double>({1, 0, 0, 0, 9, 0, 0, 0, 4}, {3, 3});
  Tensor basis = Tensor::eye(3, DType::f64);
  CHECK(optim::iterate_eigenvectors(matrix, basis) == std::vector<std::int64_t>{1, 2, 0});
  CHECK(list(basis) == std::vector<double>{0, 1, 0, 0, 0, 1, 1, 0, 0});
  const Tensor before = basis.clone();
  CHECK(optim::iterate_eigenvectors(Tensor::zeros({3, 3}, DType::f64), basis) ==
        std::vector<std::int64_t>{0, 1, 2});
  CHECK(same_bits(basis, before));
}
