#include "tapegrad/base/memory/memory.h"
#include "tapegrad/nn/measure.h"
#include "tapegrad/nn/transformer.h"
#include "tapegrad/optim/optimizers/adamw.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"
#include "tapegrad/tests/nn/tutorial_names.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nn::TransformerConfig;

namespace {

TransformerConfig golden_transformer_config(const nlohmann::json& json) {
  return {.vocab_size = json.at("vocab_size"),
          .block_size = json.at("block_size"),
          .n_layer = json.at("n_layer"),
          .n_head = json.at("n_head"),
          .n_embd = json.at("n_embd"),
          .n_hidden = json.at("n_hidden")};
}

// A case of the golden file, with PyTorch's weights.
struct GoldenTransformer {
  explicit GoldenTransformer(const std::string& name, DType dtype = DType::f64)
      : facts(golden_json("transformer.json")),
        file(load_safetensors(golden_file("transformer.safetensors").string())),
        inputs(with_prefix(file, name + "/")),
        params(source_of(with_prefix(file, "param/")), dtype, Precision::full, tutorial_names()),
        model(params, config_of(name)) {}

  nlohmann::json facts;
  SafeTensors file, inputs;
  nn::Params params;
  nn::Transformer model;

  TransformerConfig config_of(const std::string& name) const {
    TransformerConfig config = golden_transformer_config(facts.at("config"));
    config.residual_from_norm = name == "residual_from_norm";
    if (name == "dropout") config.dropout = facts.at("dropout");
    return config;
  }
  // As PyTorch's after manual_seed, of which all draws are dropout's.
  Rng dropout() const { return Rng(facts.at("dropout_seed").get<std::uint64_t>()); }
  Tensor input(const std::string& name) const {
    return inputs.tensors.count(name) > 0 ? inputs.at(name) : Tensor();
  }
  nn::PaddingMasks masks() const { return {input("source_padding"), input("target_padding")}; }
  Tensor logits(Rng& rng) const { return model(input("source"), input("target"), masks(), &rng); }
  Tensor loss(Rng& rng) const {
    return model.loss(input("source"), input("target"), input("labels"), masks(), &rng);
  }
};

TransformerConfig tiny() {
  return {
      .vocab_size = 11, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 8, .n_hidden = 10};
}

// A model with random weights.
struct Model {
  explicit Model(const TransformerConfig& config = tiny(), DType dtype = DType::f64)
      : params(rng, dtype), transformer(params, config) {
    for (const auto& [name, t] : params.parameters()) {
      nn::refill(t, nn::normal(is_gain(name) ? 1 : 0, 0.4), rng);
    }
  }
  Rng rng{3};
  nn::Params params;
  nn::Transformer transformer;
};

}  // namespace

TEST_CASE("a Transformer's logits, loss and every gradient are PyTorch's", "[golden]") {
  const std::string name = GENERATE("plain", "padded", "residual_from_norm", "dropout");
  const DType dtype = GENERATE(DType::f32, DType::f64);
  INFO(name << " " << name_of(dtype));
  const bool f32 = dtype == DType::f32;
  const double rtol = f32 ? 1e-4 : 1e-9, atol = f32 ? 1e-6 : 1e-11;
  const GoldenTransformer golden(name, dtype);
  Rng rng = golden.dropout(), again = rng;
  Tape tape;
  const Tensor loss = golden.loss(rng);
  CHECK(difference(golden.logits(again).to(DType::f64), golden.input("logits"), rtol, atol) == "");
  CHECK(loss.item() ==
        Approx(golden.facts.at("cases").at(name).at("f64").at(0).get<double>()).epsilon(rtol));
  tape.backward(loss);
  CHECK(golden.params.parameters().size() == 58);
  for (const auto& [parameter, t] : golden.params.parameters()) {
    INFO(parameter);
    CHECK(difference(t.grad().to(DType::f64), golden.input("grad/" + tutorial_names()(parameter)),
                     rtol, atol) == "");
  }
}

TEST_CASE("ten AdamW steps of a Transformer have PyTorch's losses", "[golden]") {
  const std::string name = GENERATE("plain", "padded", "residual_from_norm", "dropout");
  const DType dtype = GENERATE(DType::f32, DType::f64);
  INFO(name << " " << name_of(dtype));
  const GoldenTransformer golden(name, dtype);
  optim::AdamW adamw(golden.params.parameters(), {.beta1 = golden.facts.at("betas").at(0),
                                                  .beta2 = golden.facts.at("betas").at(1),
                                                  .eps = golden.facts.at("eps"),
                                                  .weight_decay = golden.facts.at("weight_decay")});
  const auto& losses = golden.facts.at("cases").at(name).at(std::string(name_of(dtype)));
  CHECK(losses.size() == 11);
  Rng rng = golden.dropout();
  for (const double expected : losses) {
    Tape tape;
    const Tensor loss = golden.loss(rng);
    CHECK(loss.item() == Approx(expected).epsilon(dtype == DType::f32 ? 1e-5 : 1e-9));
    tape.backward(loss);
    adamw.step(golden.facts.at("lr"));
    adamw.zero_grad();
  }
}

TEST_CASE("init_transformer draws PyTorch's bits, and leaves the generator where it does",
          "[golden][transformer]") {
  const auto json = golden_json("transformer.json");
  const auto& facts = json.at("init");
  const TransformerConfig config = golden_transformer_config(json.at("config"));
  Rng rng(facts.at("seed").get<std::uint64_t>());
  const nn::Params params(rng);
  const nn::Transformer model(params, config);
  nn::init_transformer(params, rng);
  CHECK(params.parameters().size() == facts.at("weights").size());
  for (const auto& [name, t] : params.parameters()) {
    INFO(name);
    CHECK(fingerprint_difference(t.values<float>(),
                                 facts.at("weights").at(tutorial_names()(name))) == "");
  }
  CHECK(static_cast<double>(rng.uniform()) == facts.at("next_uniform").get<double>());
  CHECK(params.count() == facts.at("parameters"));
  CHECK(nn::shapes_of<nn::Transformer>(config).count() == facts.at("parameters"));
  CHECK(params.count() - model.wte.weight.numel() == facts.at("without_embeddings"));
}

TEST_CASE("the tutorial's forward gives one sequence to both sides", "[golden][transformer]") {
  const GoldenTransformer golden("plain");
  const nn::Transformer& model = golden.model;
  const Tensor ids = golden.input("source");
  const Tensor hidden = model.hidden_of_one(ids);
  CHECK(hidden.shape() == Shape{3, 9, 8});
  CHECK(difference(model.lm_head(hidden), golden.file.at("one_sequence/logits"), 1e-9, 1e-11) ==
        "");
}

TEST_CASE("positions are PyTorch's table, which is saved and not trained",
          "[golden][transformer]") {
  const SafeTensors file = load_safetensors(golden_file("transformer.safetensors").string());
  const Tensor expected = file.at("param/transformer.wpe.pe");
  CHECK(difference(nn::sinusoidal_positions(9, 8), expected, 0, 2e-7) == "");
  CHECK_THROWS_WITH(nn::sinusoidal_positions(9, 7), ContainsSubstring("must be even"));

  const Model made;
  const TempFolder folder;
  const std::string path = (folder / "model.safetensors").string();
  save_safetensors(path, made.params.tensors());
  CHECK(made.params.tensors().size() == made.params.parameters().size() + 1);
  SafeTensors stored = load_safetensors(path);
  // A table of another make is the model's own from then on.
  stored.tensors.at("pe") = Tensor::full({1, 8, 8}, 0.25, DType::f64);
  const nn::Params params(source_of(stored), DType::f64);
  const nn::Transformer loaded(params, tiny());
  CHECK(list(loaded.pe) == std::vector<double>(64, 0.25));
  CHECK_FALSE(loaded.pe.requires_grad());
}

TEST_CASE("a Transformer's shapes, with the last position's logits keeping their dimension",
          "[transformer]") {
  const Model m;
  Rng rng(1);
  const Tensor source = random_ids(rng, {3, 5}, 11), target = random_ids(rng, {3, 4}, 11);
  CHECK(m.transformer.encode(source).shape() == Shape{3, 5, 8});
  CHECK(m.transformer.hidden(source, target).shape() == Shape{3, 4, 8});
  const Tensor logits = m.transformer(source, target),
               last = m.transformer.last_logits(source, target);
  CHECK(logits.shape() == Shape{3, 4, 11});
  CHECK(last.shape() == Shape{3, 1, 11});
  CHECK(difference(last, slice(logits, 1, 3, 4), 1e-12, 1e-13) == "");
  CHECK(m.params.count() == nn::shapes_of<nn::Transformer>(tiny()).count());
}

TEST_CASE("the likeliest tokens are the argmax of logits that never exist at once",
          "[transformer]") {
  Rng rng(3);
  const std::int64_t V = 4000, B = 50, T = 20;
  const nn::Params params(rng);
  const nn::Transformer model(
      params,
      {.vocab_size = V, .block_size = T, .n_layer = 1, .n_head = 1, .n_embd = 8, .n_hidden = 8});
  const Tensor source = random_ids(rng, {B, 5}, V), target = random_ids(rng, {B, T}, V);
  const nn::PaddingMasks masks{nn::padding_mask(source, 3), {}};
  const Tensor expected = argmax(model(source, target, masks), -1);
  const Tape tape;
  reset_peak_memory();
  const std::size_t before = memory_stats().live;
  const Tensor found = model.likeliest(source, target, masks);
  CHECK(memory_stats().peak - before < B * T * V * sizeof(float) / 2);
  CHECK(found.shape() == expected.shape());
  CHECK(std::ranges::equal(found.values<std::int32_t>(), expected.values<std::int32_t>()));
  CHECK(tape.size() == 0);
}

TEST_CASE("a position's logits depend on the whole source and on no later target",
          "[transformer]") {
  const Model m;
  const Tensor source = ids({1, 2, 3, 4}).view({1, 4}), target = ids({5, 6, 7}).view({1, 3});
  const Tensor before = m.transformer(source, target);
  const Tensor later = m.transformer(source, ids({5, 6, 9}).view({1, 3}));
  CHECK(difference(slice(later, 1, 0, 2), slice(before, 1, 0, 2), 0, 0) == "");
  CHECK(difference(slice(later, 1, 2, 3), slice(before, 1, 2, 3), 1e-3, 1e-3) != "");
  const Tensor other = m.transformer(ids({1, 2, 3, 9}).view({1, 4}), target);
  CHECK(difference(slice(other, 1, 0, 1), slice(before, 1, 0, 1), 1e-3, 1e-3) != "");
}

TEST_CASE("padding changes neither logits nor gradients", "[transformer]") {
  const Model m;
  const Tensor source = ids({1, 2, 3}).view({1, 3}), target = ids({5, 6}).view({1, 2});
  const Tensor padded_source = ids({1, 2, 3, 0, 0}).view({1, 5});
  const Tensor padded_target = ids({5, 6, 0}).view({1, 3});
  const nn::PaddingMasks masks{nn::padding_mask(padded_source, 0),
                               nn::padding_mask(padded_target, 0)};
  CHECK(list(masks.source) == std::vector<double>{0, 0, 0, 1, 1});
  const auto gradients_of = [&](const Tensor& s, const Tensor& t, const Tensor& labels,
                                const nn::PaddingMasks& padding) {
    clear_gradients(m.params.parameters());
    Tape tape;
    tape.backward(m.transformer.loss(s, t, labels, padding));
    return gradients(m.params.parameters());
  };
  CHECK(difference(slice(m.transformer(padded_source, padded_target, masks), 1, 0, 2),
                   m.transformer(source, target), 1e-11, 1e-12) == "");
  const auto plain = gradients_of(source, target, ids({6, 7}).view({1, 2}), {});
  const auto padded =
      gradients_of(padded_source, padded_target, ids({6, 7, -1}).view({1, 3}), masks);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    INFO(m.params.parameters()[i].first);
    CHECK(difference(padded[i], plain[i], 1e-9, 1e-12) == "");
  }
  // Without the masks it does change them.
  CHECK(difference(slice(m.transformer(padded_source, padded_target), 1, 0, 2),
                   m.transformer(source, target), 1e-3, 1e-3) != "");
}

TEST_CASE("a source that is all padding gives finite logits, and leaves the others alone",
          "[transformer]") {
  const Model m;
  const Tensor source = ids({1, 2, 3, 0, 0, 0}).view({2, 3}),
               target = ids({5, 6, 5, 6}).view({2, 2});
  const nn::PaddingMasks masks{nn::padding_mask(source, 0), {}};
  Tape tape;
  const Tensor logits = m.transformer(source, target, masks);
  CHECK(difference(logits.rows(0, 1), m.transformer(source.rows(0, 1), target.rows(0, 1)), 1e-11,
                   1e-12) == "");
  tape.backward(sum(logits * logits));
  for (const double x : list(logits)) CHECK(std::isfinite(x));
  for (const auto& [name, t] : m.params.parameters()) {
    INFO(name);
    for (const double x : list(t.grad())) CHECK(std::isfinite(x));
  }
}

TEST_CASE("dropout is drawn where an Rng is given, and decides with its seed", "[transformer]") {
  TransformerConfig config = tiny();
  config.dropout = 0.3;
  const Model m(config);
  const Tensor source = ids({1, 2, 3}).view({1, 3}), target = ids({5, 6}).view({1, 2});
  const auto with_seed = [&](std::uint64_t seed) {
    Rng rng(seed);
    return m.transformer(source, target, {}, &rng);
  };
  CHECK(same_bits(with_seed(1), with_seed(1)));
  CHECK_FALSE(same_bits(with_seed(1), with_seed(2)));
  CHECK(same_bits(m.transformer(source, target), m.transformer(source, target)));
}

TEST_CASE("scaled embeddings count as much as embeddings that are as much larger",
          "[transformer]") {
  TransformerConfig config = tiny();
  const Model plain(config);
  config.scale_embeddings = true;
  const Model scaled(config);  // the same weights: the seed is the same
  const Tensor token_ids = ids({1, 2, 3}).view({1, 3});
  const Tensor positions = slice(plain.transformer.pe, 1, 0, 3);
  const Tensor tokens = plain.transformer.embed(token_ids) - positions;
  CHECK(difference(scaled.transformer.embed(token_ids), tokens * std::sqrt(8.0) + positions, 1e-12,
                   1e-12) == "");
}

TEST_CASE("sequences beyond block_size are errors that say both lengths", "[transformer]") {
  const Model m;
  Rng rng(1);
  const Tensor fits = random_ids(rng, {1, 8}, 11), longer = random_ids(rng, {1, 9}, 11);
  CHECK_NOTHROW(m.transformer(fits, fits));
  for (const auto& [source, target] : {std::pair{longer, fits}, {fits, longer}}) {
    CHECK_THROWS_WITH(m.transformer(source, target),
                      "[transformer] a sequence of 9 tokens is longer than block_size 8");
  }
  CHECK_THROWS_WITH(m.transformer(fits, random_ids(rng, {1, 0}, 11).view({0})),
                    ContainsSubstring("ids must be (B, T), not (0)"));
  CHECK_THROWS_WITH(m.transformer.last_logits(fits, random_ids(rng, {1, 0}, 11)),
                    ContainsSubstring("without a token"));
  CHECK_THROWS_WITH(m.transformer(fits, ids({11}).view({1, 1})), ContainsSubstring("11"));
}

TEST_CASE("configs that no Transformer can have are errors that name the values", "[transformer]") {
  const auto attempt = [](const std::function<void(TransformerConfig&)>& change,
                          const std::string& text) {
    TransformerConfig config = tiny();
    change(config);
    CHECK_THROWS_WITH(config.validate(), ContainsSubstring(text));
  };
  attempt([](auto& c) { c.vocab_size = 0; }, "vocab_size must be from 1 to 16777216, not 0");
  attempt([](auto& c) { c.block_size = -1; }, "block_size must be from 1 to 16777216, not -1");
  attempt([](auto& c) { c.n_layer = 0; }, "n_layer must be from 1");
  attempt([](auto& c) { c.n_hidden = 0; }, "n_hidden must be from 1");
  attempt([](auto& c) { c.n_embd = 7, c.n_head = 7; }, "n_embd must be even, not 7");
  attempt([](auto& c) { c.n_head = 3; }, "n_embd 8 is not divisible by n_head 3");
  attempt([](auto& c) { c.dropout = 1; }, "dropout must be at least 0 and below 1, not 1");
}
