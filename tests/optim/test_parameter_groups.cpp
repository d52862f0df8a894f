#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/internal/shares.h"
#include "tapegrad/optim/parameter_groups.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::optim;

namespace {

NamedTensors model() {
  return {{"wte.weight", Tensor::zeros({10, 4})},
          {"h.0.ln.weight", Tensor::zeros({4})},
          {"h.0.attn.weight", Tensor::zeros({4, 4})},
          {"h.0.attn.bias", Tensor::zeros({4})},
          {"h.1.attn.weight", Tensor::zeros({4, 4})}};
}

// "optimiser scale decay" of each parameter.
std::vector<std::string> settings_of(const GroupRules& rules) {
  const ParameterGroups groups = make_groups(model(), rules);
  std::vector<std::string> all;
  for (std::size_t p = 0; p < groups.group_of.size(); ++p) {
    const ParameterGroup& g = groups.of(p);
    all.push_back(fmt::format("{} {} {}", g.optimizer->name(), g.lr_scale, g.weight_decay));
  }
  return all;
}

using Texts = std::vector<std::string>;

// Needs all of a matrix, and is made for no other parameter.
class OfMatrices : public Optimizer {
 public:
  std::string_view name() const override { return "of-matrices"; }
  std::string_view title() const override { return "OfMatrices"; }
  std::vector<StateSpec> keeps(const Shape& shape) const override { return {{"row", {shape[0]}}}; }
  ShardGranularity cut(const Shape&) const override { return ShardGranularity::whole; }
  bool suits(const std::string&, const Shape& shape) const override { return shape.rank() == 2; }
  void update(UpdatedPart&, const UpdateFactors&) const override {}
};

}  // namespace

TEST_CASE("without rules, matrices decay and vectors do not", "[groups]") {
  CHECK(settings_of({.weight_decay = 0.5}) ==
        Texts{"adamw 1 0.5", "adamw 1 0", "adamw 1 0.5", "adamw 1 0", "adamw 1 0.5"});
  CHECK(settings_of({.weight_decay = 0.5, .decay_all = true}) == Texts(5, "adamw 1 0.5"));
  CHECK(make_groups(model(), GroupRules{}).groups.size() == 2);
  CHECK(make_groups(model(), {.decay_all = true}).groups.size() == 1);
}

TEST_CASE("rules name parameters by pattern or kind, and the last one counts", "[groups]") {
  CHECK(settings_of({.weight_decay = 0.5,
                     .lr_scale = {"wte*=0.25", "h.[0-3].*=2", "*.bias=3"},
                     .decay = {"vectors=0.125", "wte.weight=0"},
                     .optimizer_for = {"*attn*=sgd"}}) ==
        Texts{"adamw 0.25 0", "adamw 2 0.125", "sgd 2 0.5", "sgd 3 0.125", "sgd 2 0.5"});
  CHECK(settings_of({.weight_decay = 0.5, .lr_scale = {"matrices=0"}}) ==
        Texts{"adamw 0 0.5", "adamw 1 0", "adamw 0 0.5", "adamw 1 0", "adamw 0 0.5"});
}

TEST_CASE("rules that mean nothing are errors that name the option", "[groups]") {
  const auto error = [](const GroupRules& rules, const std::string& text) {
    CHECK_THROWS_WITH(make_groups(model(), rules), ContainsSubstring(text));
  };
  error({.lr_scale = {"lm_head*=2"}},
        "--lr-scale: 'lm_head*' names no parameter that is trained; there are wte.weight");
  error({.decay = {"wte.weight=1", "w=1"}}, "--decay: 'w' names no parameter");
  error({.optimizer_for = {"x=sgd"}}, "--optimizer-for: 'x' names no parameter");
  error({.lr_scale = {"wte*"}}, "--lr-scale: 'wte*' is not PATTERN=X, such as 'wte*=0.5'");
  error({.lr_scale = {"=2"}}, "--lr-scale: '' is not a pattern");
  for (const char* x : {"", "-1", "nan", "inf", "1e999", "2x"}) {
    error({.decay = {std::string("wte*=") + x}}, "needs a number of at least 0 behind the =");
  }
  error({.optimizer_for = {"wte*=adan"}},
        "--optimizer-for: 'adan' is not an optimiser; there are adamw");
  error({.weight_decay = -1}, "weight_decay must be at least 0");
}

TEST_CASE("the optimiser of a run has its options checked, others do not", "[groups]") {
  GroupRules rules;
  rules.settings.set("nesterov", 1);  // which needs momentum
  CHECK_NOTHROW(rules.validate());
  rules.optimizer_for = {"wte*=sgd"};
  CHECK_THROWS_WITH(rules.validate(), ContainsSubstring("nesterov needs a momentum"));
  rules.settings.set("beta1", 1);
  CHECK_THROWS_WITH(rules.validate(), ContainsSubstring("beta1 must be at least 0 and below 1"));
  CHECK_FALSE(rules.plain());
  CHECK(rules.used() == std::vector{OptimizerId{}, optimizer_named("sgd")});
}

TEST_CASE("an optimiser says what it keeps and where parameters may be cut", "[groups]") {
  const NamedTensors parameters = model();
  CHECK(bytes_kept(parameters, make_groups(parameters, GroupRules{})) == 2 * 4 * (40 + 4 + 36));
  const auto own = std::make_shared<OfMatrices>();
  const NamedTensors matrices{{"a", Tensor::zeros({1000, 50})}, {"b", Tensor::zeros({3, 4})}};
  const ParameterGroups groups = make_groups(matrices, own, 0, false);
  CHECK(bytes_kept(matrices, groups) == 4 * (1000 + 3));
  CHECK(units_of(matrices, groups) == std::vector<std::int64_t>{50'000, 12});
  CHECK(leaves_parameters(*own));
  for (const std::string_view name : {"adamw", "sgd"}) {
    CHECK_FALSE(leaves_parameters(*OptimizerSettings{}.make(optimizer_named(name))));
  }
  CHECK(leaves_parameters(*OptimizerSettings{}.make(optimizer_named("muon"))));
  CHECK(unit_of(ShardGranularity::rows, {1 << 20, 24}) == 3 * kSquareChunk);
  CHECK(unit_of(ShardGranularity::rows, {8, 24}) == 8 * 24);
  CHECK(unit_of(ShardGranularity::elements, {8, 24}) == kSquareChunk);
}

TEST_CASE("a block is the parameters whose names begin alike up to a number", "[groups]") {
  using Blocks = std::vector<std::vector<std::size_t>>;
  CHECK(blocks_of(model()) == Blocks{{1, 2, 3}, {4}, {0}});
  const auto named = [](const std::vector<std::string>& names) {
    NamedTensors tensors;
    for (const std::string& name : names) tensors.emplace_back(name, Tensor());
    return blocks_of(tensors);
  };
  CHECK(named({"encoder.h.0.w", "decoder.h.0.w", "head", "encoder.h.0.b"}) ==
        Blocks{{0, 3}, {1}, {2}});
  CHECK(named({"h.1.experts.3.w", "h.1.experts.4.w", "layer2.w"}) == Blocks{{0, 1}, {2}});
  CHECK(named({"0.weight", "2.weight"}) == Blocks{{0}, {1}, {}});
  CHECK(named({}) == Blocks{{}});
}
