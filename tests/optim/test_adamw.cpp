#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/optim/optimizers/sgd.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/optim/two_tensors.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using optim::AdamW;
using optim::AdamWOptions;

namespace {

// Steps `from` to `to` − 1, counted from 1.
void train(AdamW& adamw, const TwoTensors& tensors, int from, int to, double lr = 0.1) {
  for (int t = from; t < to; ++t) {
    adamw.zero_grad();
    tensors.backward(t);
    adamw.step(lr);
  }
}

SafeTensors saved(const AdamW& adamw) {
  const TempFolder folder;
  const std::string path = (folder / "optimizer.safetensors").string();
  save_safetensors(path, adamw.state(), adamw.metadata());
  return load_safetensors(path);
}

std::shared_ptr<const TensorSource> source_of(const SafeTensors& file) {
  return memory_source(file.tensors, file.path, file.metadata);
}

}  // namespace

// torch.optim.AdamW(lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.5), four steps; the second
// time with b in a group of its own without decay.
TEST_CASE("AdamW makes PyTorch's steps, and decays matrices only unless told otherwise",
          "[adamw]") {
  const auto run = [](bool decay_all) {
    const TwoTensors tensors;
    AdamW adamw(
        tensors.named(),
        {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.5, .decay_all = decay_all});
    train(adamw, tensors, 1, 5);
    CHECK(adamw.steps() == 4);
    return tensors.values();
  };
  CHECK(differences(run(true), {0.5176733615076553, -1.9512318076558777, 0.1290848542298548,
                                2.13233640642058, -0.15838527760866625, -0.4438277128492524}) ==
        "");
  CHECK(differences(run(false), {0.5164045094575318, -1.9497900766423015, 0.1290848542298548,
                                 2.13233640642058, -0.14074417156095057, -0.6003276328479141}) ==
        "");
}

// p ← p − lr·(u + decay·p) with u = m̂/(√v̂ + eps), without the decay where u·p < 0.
TEST_CASE("cautious decay leaves weights alone that the update makes larger", "[adamw]") {
  const double decay = 0.5, lr = 0.125;
  const std::vector<double> values{2, 2, -2, -2, 0}, gradients{3, -3, 3, -3, 1};
  Tensor p = vector(values).set_requires_grad();
  const NamedTensors named{{"p", p}};
  const optim::GroupRules rules{.weight_decay = decay, .decay_all = true, .cautious_decay = true};
  optim::OptimizerState state(named, optim::make_groups(named, rules));
  p.set_grad(vector(gradients));
  state.step(lr, 1, 0.5);
  std::vector<double> expected;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double update = gradients[i] > 0 ? 1 : -1;
    const double kept = update * values[i] >= 0 ? 1 - lr * decay / 2 : 1;
    expected.push_back(values[i] * kept - lr * update);
  }
  CHECK(differences(list(p), expected, 1e-8) == "");

  optim::GroupRules sgd = rules;
  sgd.optimizer = optim::optimizer_named("sgd");
  CHECK_THROWS_WITH(sgd.validate(), ContainsSubstring("cautious_decay is not for sgd"));
}

TEST_CASE("a step's factor of the decay is that of all groups", "[adamw]") {
  const auto after = [](double weight_decay, double factor) {
    Tensor p = vector({2}).set_requires_grad();
    p.set_grad(vector({1}));
    const NamedTensors named{{"p", p}};
    optim::OptimizerState state(
        named, optim::make_groups(
                   named, {.weight_decay = 0, .decay = {fmt::format("p={}", weight_decay)}}));
    state.step(0.1, 1, factor);
    return p.at(0);
  };
  CHECK(after(0.5, 0.25) == after(0.125, 1));
  CHECK(after(0.5, 0) == after(0, 1));
  CHECK(after(0.5, 1) != after(0, 1));
}

// With p = 0, g = 1 and hardly any eps, a first step is one of −lr.
TEST_CASE("1 − beta2 is not rounded twice", "[adamw]") {
  const double beta2 = GENERATE(0.9, 0.99, 0.999, 0.9999, 0.99999);
  Tensor p = Tensor::zeros({1}).set_requires_grad();
  p.set_grad(Tensor::ones({1}));
  AdamW({{"p", p}}, {.beta2 = beta2, .eps = 1e-12}).step(1);
  CHECK(std::abs(p.item() + 1) <= 2e-7);
}

TEST_CASE("a parameter without a gradient is left alone, and so are its moments", "[adamw]") {
  TwoTensors tensors;
  AdamW adamw(tensors.named());
  tensors.backward(1);
  tensors.b.zero_grad();
  adamw.step(0.1);
  CHECK(list(tensors.b) == std::vector<double>{0.25, -1});
  CHECK(list(tensors.p) != std::vector<double>{1, -2, 0.5, 3});
  CHECK(list(adamw.state()[2].second) == std::vector<double>{0, 0});
}

TEST_CASE("zero_grad leaves no gradient", "[adamw]") {
  const TwoTensors tensors;
  AdamW adamw(tensors.named());
  tensors.backward(1);
  adamw.zero_grad();
  CHECK_FALSE(tensors.p.grad().defined());
  CHECK_FALSE(tensors.b.grad().defined());
}

TEST_CASE("a run that is saved and resumed ends at the bits of one that was not", "[adamw]") {
  const DType dtype = GENERATE(DType::f32, DType::f64);
  const AdamWOptions options{.beta2 = 0.9, .weight_decay = 0.1};
  const TwoTensors whole(dtype), parts(dtype);
  AdamW adamw(whole.named(), options);
  train(adamw, whole, 1, 7);

  SafeTensors file;
  {
    AdamW first(parts.named(), options);
    train(first, parts, 1, 4);
    file = saved(first);
  }
  AdamW second(parts.named(), options);
  second.load_state(*source_of(file));
  CHECK(second.steps() == 3);
  train(second, parts, 4, 7);

  CHECK(same_bits(parts.p, whole.p));
  CHECK(same_bits(parts.b, whole.b));
  const NamedTensors expected = adamw.state(), state = second.state();
  REQUIRE(state.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(state[i].first == expected[i].first);
    CHECK(same_bits(state[i].second, expected[i].second));
  }
  CHECK(second.metadata() == adamw.metadata());
}

TEST_CASE("a loaded state is the optimiser's own: the file's tensors do not change", "[adamw]") {
  const TwoTensors tensors;
  AdamW adamw(tensors.named());
  train(adamw, tensors, 1, 3);
  const SafeTensors file = saved(adamw);
  const std::vector<double> before = list(file.at("exp_avg.p"));
  adamw.load_state(*source_of(file));
  train(adamw, tensors, 3, 4);
  CHECK(list(file.at("exp_avg.p")) == before);
}

TEST_CASE("a state that does not belong to the parameters is refused whole", "[adamw]") {
  const TwoTensors tensors;
  AdamW adamw(tensors.named());
  train(adamw, tensors, 1, 3);
  const SafeTensors good = saved(adamw);
  train(adamw, tensors, 3, 5);
  const std::vector<double> moments = list(adamw.state()[0].second);

  const auto refuses = [&](auto change, const std::vector<std::string>& words) {
    SafeTensors bad = good;
    change(bad);
    try {
      adamw.load_state(*source_of(bad));
      FAIL("the state was accepted");
    } catch (const Error& error) {
      for (const std::string& word : words) CHECK_THAT(error.what(), ContainsSubstring(word));
    }
    CHECK(list(adamw.state()[0].second) == moments);
    CHECK(adamw.steps() == 4);
  };
  refuses([](SafeTensors& f) { f.tensors.erase("exp_avg_sq.b"); }, {good.path, "exp_avg_sq.b"});
  refuses([](SafeTensors& f) { f.tensors["exp_avg_sq.b"] = Tensor::zeros({3}, DType::f64); },
          {good.path, "exp_avg_sq.b", "(3)", "(2)"});
  refuses([](SafeTensors& f) { f.tensors["exp_avg.b"] = Tensor::zeros({2}, DType::f32); },
          {good.path, "exp_avg.b", "f32", "f64"});
  refuses([](SafeTensors& f) { f.metadata.clear(); }, {good.path, "adamw.steps"});
  for (const char* steps : {"", "-1", "3x", "1e3", "99999999999999999999"}) {
    refuses([&](SafeTensors& f) { f.metadata["adamw.steps"] = steps; },
            {good.path, "adamw.steps", std::string("'") + steps + "'"});
  }
}

TEST_CASE("AdamW options that mean nothing are errors that name them", "[adamw]") {
  const TwoTensors tensors;
  const auto make = [&](const AdamWOptions& options) { AdamW(tensors.named(), options); };
  CHECK_THROWS_WITH(make({.beta1 = 1}), ContainsSubstring("beta1"));
  CHECK_THROWS_WITH(make({.beta1 = -0.1}), ContainsSubstring("beta1"));
  CHECK_THROWS_WITH(make({.beta2 = 1.5}), ContainsSubstring("beta2"));
  CHECK_THROWS_WITH(make({.beta2 = std::nan("")}), ContainsSubstring("beta2"));
  CHECK_THROWS_WITH(make({.eps = -1}), ContainsSubstring("eps"));
  CHECK_THROWS_WITH(make({.weight_decay = -1}), ContainsSubstring("weight_decay"));
}

TEST_CASE("an optimiser without any gradient makes no step", "[adamw]") {
  const TwoTensors tensors;
  optim::AdamW adamw(tensors.named());
  CHECK_THROWS_WITH(adamw.step(0.1),
                    "AdamW::step: none of 2 parameters has a gradient; "
                    "tape.backward(loss) comes first");
  CHECK(adamw.steps() == 0);
  tensors.backward(1);
  CHECK_NOTHROW(adamw.step(0.1));
  adamw.zero_grad();
  CHECK_THROWS_AS(adamw.step(0.1), Error);
  optim::SGD sgd(tensors.named());
  CHECK_THROWS_WITH(sgd.step(0.1), ContainsSubstring("SGD::step: none of 2 parameters"));
}
