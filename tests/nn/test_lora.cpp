// Adapters beside linear layers: what they compute, what is trained, and how they merge. And
// parameters that are frozen.

#include <set>

#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/nn/lora/lora.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::Params;

namespace {

const nn::LoraOptions kOptions{.rank = 2, .alpha = 3, .targets = {"*attn*", "*.c_fc"}};

std::map<std::string, Tensor> by_name(const Params& params) {
  std::map<std::string, Tensor> all;
  for (const auto& [name, t] : params.tensors()) all[name] = t.clone();
  return all;
}

// A GPT with adapters on another one's weights.
struct Adapted {
  Rng rng{7};
  Params base, params;
  nn::GPT plain, gpt;
  explicit Adapted(DType dtype = DType::f64, const nn::LoraOptions& options = kOptions)
      : base(rng, dtype),
        params(Params::shapes_only()),
        plain(base, tiny_config()),
        gpt(make(dtype, options)) {}

  std::shared_ptr<const TensorSource> source() const {
    return memory_source(by_name(params), "adapted");
  }

 private:
  nn::GPT make(DType dtype, const nn::LoraOptions& options) {
    randomize(base.parameters(), rng);
    params = Params(memory_source(by_name(base), "base"), dtype);
    params.adapt(options, &rng);
    return nn::GPT(params, tiny_config());
  }
};

Tensor some_ids() { return Tensor::from<std::int32_t>({1, 5, 10, 0, 3, 2, 7, 7, 4, 9}, {2, 5}); }

Tensor loss_of(const nn::GPT& gpt) {
  return gpt.loss(some_ids(), Tensor::from<std::int32_t>({5, 10, 0, 3, 1, 7, 7, 4, 9, 6}, {2, 5}));
}

void train(const Adapted& model, int steps) {
  for (int i = 0; i < steps; ++i) {
    Tape tape;
    tape.backward(loss_of(model.gpt));
    for (const auto& [name, t] : model.params.parameters()) {
      const Tensor moved = t - t.grad() * 0.5;
      Tensor parameter = t;
      dispatch(t.dtype(), [&](auto zero) {
        using T = decltype(zero);
        std::copy_n(moved.data<T>(), moved.numel(), parameter.mutable_data<T>());
      });
      parameter.zero_grad();
    }
  }
}

}  // namespace

TEST_CASE("an adapter computes what PyTorch does, with its gradients", "[lora]") {
  // y = linear(x, W, b) + 3/2·linear(linear(x, A), B), and the gradients of Σ y·c.
  const Params params(
      memory_source({{"weight", Tensor::from<double>({1, -2, 3, .5, 1, -1}, {2, 3})},
                     {"bias", Tensor::from<double>({.25, -.5}, {2})},
                     {"lora_A.weight", Tensor::from<double>({.5, -1, .25, 1, 0, 2}, {2, 3})},
                     {"lora_B.weight", Tensor::from<double>({2, -1, .5, 3}, {2, 2})}},
                    "golden"),
      DType::f64);
  params.adapt({.rank = 2, .alpha = 3, .targets = {"*"}});
  const nn::Linear layer(params, 3, 2);
  Tensor x = Tensor::from<double>({1, 2, -1, 0, -.5, 3}, {2, 3}).set_requires_grad();
  const Tensor c = Tensor::from<double>({1, -2, 3, .5}, {2, 2});
  Tape tape;
  const Tensor y = layer(x);
  CHECK(list(y) == std::vector<double>{-9.5, -2.8125, 5, 23.9375});
  tape.backward(sum(y * c));
  CHECK(list(layer.adapter.A.grad()) ==
        std::vector<double>{1.5, -1.6875, 26.625, -10.5, -19.875, 3.75});
  CHECK(list(layer.adapter.B.grad()) == std::vector<double>{3, 25.5, 6.1875, 7.5});
  CHECK(list(x.grad()) == std::vector<double>{-9.75, -5.5, -15.625, 5.6875, -14.875, 6.34375});
  CHECK_FALSE(layer.weight.grad().defined());
  CHECK_FALSE(layer.bias.grad().defined());
  const auto merged = nn::merge_adapters(memory_source({{"weight", layer.weight},
                                                        {"lora_A.weight", layer.adapter.A},
                                                        {"lora_B.weight", layer.adapter.B}},
                                                       "golden"),
                                         {.rank = 2, .alpha = 3});
  CHECK(list(merged->read("weight")) == std::vector<double>{1, -5, .75, 5.375, .25, 8.1875});
}

TEST_CASE("a model with new adapters gives the bits of the one without", "[lora]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Adapted model(dtype);
    CHECK(same_bits(model.gpt(some_ids()), model.plain(some_ids())));
    CHECK(same_bits(loss_of(model.gpt), loss_of(model.plain)));
  }
}

TEST_CASE("new adapters are drawn as PyTorch's linear layers, and 0", "[lora]") {
  const Adapted model;
  const nn::Lora& adapter = model.gpt.h[0].mlp.c_fc.adapter;
  CHECK(adapter.A.shape() == Shape{2, 8});
  CHECK(adapter.B.shape() == Shape{32, 2});
  CHECK(adapter.scale == 1.5);
  double largest = 0;
  for (const double a : list(adapter.A)) largest = std::max(largest, std::abs(a));
  CHECK(largest <= 1 / std::sqrt(8.0));
  CHECK(largest > 0.8 / std::sqrt(8.0));
  for (const double b : list(adapter.B)) REQUIRE(b == 0);
}

TEST_CASE("adapters alone are trained, at the layers that are named", "[lora]") {
  const Adapted model;
  std::set<std::string> layers;
  for (const auto& [name, t] : model.params.parameters()) {
    CHECK(name.find(".lora_") != std::string::npos);
    layers.insert(name.substr(0, name.find(".lora_")));
  }
  CHECK(layers == std::set<std::string>{"h.0.attn.c_attn", "h.0.attn.c_proj", "h.0.mlp.c_fc",
                                        "h.1.attn.c_attn", "h.1.attn.c_proj", "h.1.mlp.c_fc"});
  const auto before = by_name(model.params);
  train(model, 3);
  for (const auto& [name, t] : model.params.tensors()) {
    INFO(name);
    CHECK(same_bits(t, before.at(name)) == (name.find(".lora_") == std::string::npos));
  }
}

TEST_CASE("the head has no adapter, whatever the pattern", "[lora]") {
  nn::DecoderConfig config = tiny_config();
  config.tied = false;
  Rng rng(1);
  const Params all(rng);
  all.adapt({.rank = 1, .alpha = 1, .targets = {"*"}});
  const nn::GPT gpt(all, config);
  CHECK_FALSE(gpt.lm_head.adapter.exists());
  CHECK(gpt.h[1].mlp.c_proj.adapter.exists());
  const Params head(rng);
  head.adapt({.rank = 1, .alpha = 1, .targets = {"lm_head"}});
  CHECK_THROWS_WITH(nn::GPT(head, config),
                    ContainsSubstring("'lm_head' names no linear layer that can have an adapter; "
                                      "there are h.0.attn.c_attn, h.0.attn.c_proj"));
}

TEST_CASE("gradients of adapters pass the check, recomputed or not", "[lora]") {
  Adapted model;
  train(model, 2);  // B is no longer 0
  for (const bool recompute : {false, true}) {
    model.gpt.recompute = recompute;
    const auto checks = check_function(
        "adapters", [&] { return loss_of(model.gpt); }, model.params.parameters());
    REQUIRE(checks.size() == 12);
    for (const GradientCheck& check : checks) {
      INFO(check.str());
      CHECK(check.passed);
      CHECK(check.analytic != 0);
    }
  }
}

TEST_CASE("merged adapters give the same logits without any", "[lora]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Adapted model(dtype);
    train(model, 3);
    const auto merged = nn::merge_adapters(model.source(), kOptions);
    CHECK(merged->entries().size() == model.base.tensors().size());
    const Params params(merged, dtype);
    const nn::GPT gpt(params, tiny_config());
    const double tolerance = dtype == DType::f32 ? 1e-5 : 1e-13;
    CHECK(difference(gpt(some_ids()), model.gpt(some_ids()), tolerance, tolerance) == "");
    CHECK(difference(gpt(some_ids()), model.plain(some_ids()), 1e-3, 1e-3) != "");
  }
}

TEST_CASE("merged weights are computed, and all others are what is stored", "[lora]") {
  const Adapted model;
  const auto tensors = by_name(model.params);
  const auto merged = nn::merge_adapters(memory_source(tensors, "some.file"), kOptions);
  int computed = 0;
  for (const auto& [name, entry] : merged->entries()) {
    INFO(name);
    const bool adapted = tensors.count(name.substr(0, name.rfind('.')) + ".lora_A.weight") != 0 &&
                         name.ends_with(".weight");
    CHECK((entry.type == nullptr) == adapted);
    if (adapted) {
      ++computed;
      CHECK_THROWS_WITH(merged->stored(name),
                        "some.file: tensor '" + name + "' is computed, and stored nowhere");
    } else {
      CHECK(same_bits(merged->stored(name).widened(entry.dtype), merged->read(name)));
    }
  }
  CHECK(computed > 0);
}

TEST_CASE("adapters that do not fit are errors that name the tensor", "[lora]") {
  const Adapted model;
  auto tensors = by_name(model.params);
  const auto merge = [&](std::int64_t rank = 2) {
    return nn::merge_adapters(memory_source(tensors, "some.file"), {.rank = rank, .alpha = 1});
  };
  CHECK_NOTHROW(merge());
  CHECK_THROWS_WITH(merge(3),
                    ContainsSubstring("some.file: the adapter of 'h.0.attn.c_attn.weight' "
                                      "(24, 8) has the matrices (2, 8) and (24, 2), which "
                                      "are not of rank 3"));
  tensors.erase("h.0.mlp.c_fc.lora_B.weight");
  CHECK_THROWS_WITH(merge(), ContainsSubstring("there is no tensor 'h.0.mlp.c_fc.lora_B.weight'"));
  tensors = by_name(model.base);
  CHECK_THROWS_WITH(merge(), ContainsSubstring("some.file: there are no adapters in it"));
}

TEST_CASE("frozen parameters keep their bits, and have no gradient", "[freeze]") {
  Rng rng(3);
  const Params params(rng, DType::f64);
  const nn::GPT gpt(params, tiny_config());
  const std::int64_t all = params.count();
  params.freeze({"wte*", "h.[0-0].*"});
  CHECK(params.total_count() == all);
  CHECK(params.count() < all);
  for (const auto& [name, t] : params.parameters()) {
    CHECK((name.starts_with("wpe") || name.starts_with("h.1.") || name.starts_with("ln_f")));
  }
  Tape tape;
  tape.backward(loss_of(gpt));
  for (const auto& [name, t] : params.tensors()) {
    INFO(name);
    const bool frozen = name.starts_with("wte") || name.starts_with("h.0.");
    CHECK(t.grad().defined() == !frozen);
  }
}

TEST_CASE("below the lowest trained layer, nothing is recorded", "[freeze]") {
  const auto steps = [](const std::vector<std::string>& patterns) {
    Rng rng(3);
    const Params params(rng);
    const nn::GPT gpt(params, tiny_config());
    params.freeze(patterns);
    Tape tape;
    loss_of(gpt);
    return tape.size();
  };
  CHECK(steps({"w*", "h.0.*"}) < steps({}) * 2 / 3);
}

TEST_CASE("what freezes nothing, or all, is an error that names parameters", "[freeze]") {
  Rng rng(3);
  const Params params(rng);
  const nn::GPT gpt(params, tiny_config());
  CHECK_THROWS_WITH(params.freeze({"wpe*", "lm_head*"}),
                    ContainsSubstring("'lm_head*' names no parameter; there are wte.weight, "
                                      "wpe.weight, h.0.ln_1.weight"));
  CHECK_THROWS_WITH(params.freeze({"*"}), ContainsSubstring("with * frozen, no parameter is left"));
  CHECK(params.count() == params.total_count());
  CHECK(gpt.wpe.weight.requires_grad());
}
