#include "tapegrad/autograd/check/gradcheck.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/nn/models.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

struct TinyGPT {
  explicit TinyGPT(const nn::DecoderConfig& config, DType dtype = DType::f64)
      : params(rng, dtype), gpt(params, config) {
    randomize(params.parameters(), rng);
    inputs = random_ids(rng, {2, config.block_size}, config.vocab_size);
    targets = random_ids(rng, {2, config.block_size}, config.vocab_size);
  }

  Rng rng{5};
  nn::Params params;
  nn::GPT gpt;
  Tensor inputs, targets;

  Tensor loss(Rng* dropout_rng = nullptr) const {
    return cross_entropy(gpt.lm_head(gpt.hidden(inputs, dropout_rng)), targets);
  }
  // The gradients of the loss, leaving none behind.
  std::vector<Tensor> loss_gradients() const {
    Tape tape;
    tape.backward(loss());
    std::vector<Tensor> grads = gradients(params.parameters());
    clear_gradients(params.parameters());
    return grads;
  }
};

nn::DecoderConfig config_with(bool bias, bool qkv_bias, bool tied, nn::Activation activation) {
  nn::DecoderConfig config = tiny_config();
  config.bias = bias;
  config.qkv_bias = qkv_bias;
  config.tied = tied;
  config.activation = activation;
  return config;
}

const std::vector<nn::DecoderConfig>& configs() {
  static const std::vector<nn::DecoderConfig> list = {
      config_with(true, true, true, nn::Activation::gelu),
      config_with(false, false, false, nn::Activation::gelu_erf),
      config_with(true, false, false, nn::Activation::relu),
  };
  return list;
}

Tensor filled(const Tensor& like, const std::vector<double>& values) {
  return Tensor::from(values, like.shape()).to(like.dtype());
}

void assign(Tensor t, const std::vector<double>& values) {
  std::copy(values.begin(), values.end(), t.mutable_data<double>());
}

}  // namespace

TEST_CASE("every recorded step of a GPT passes the gradient check", "[gpt]") {
  for (const nn::DecoderConfig& config : configs()) {
    const TinyGPT model(config);
    Tape tape({.checkable = true});
    model.loss();
    const std::vector<GradientCheck> checks = check_gradients(tape);
    CHECK(checks.size() > 30);
    for (const GradientCheck& check : checks) {
      INFO(check.str());
      CHECK(check.passed);
    }
  }
}

TEST_CASE("every parameter's gradient is the slope of the whole loss along it", "[gpt]") {
  for (const nn::DecoderConfig& config : configs()) {
    TinyGPT model(config);
    const std::vector<Tensor> grads = model.loss_gradients();
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const Tensor t = model.params.parameters()[i].second;
      INFO(model.params.parameters()[i].first);
      const std::vector<double> start = list(t), v = list(normal(model.rng, t.shape()));
      const std::vector<double> g = list(grads[i]);
      const auto loss_at = [&](double h) {
        std::vector<double> moved = start;
        for (std::size_t k = 0; k < v.size(); ++k) moved[k] += h * v[k];
        assign(t, moved);
        return model.loss().item();
      };
      double slope = 0;
      for (std::size_t k = 0; k < v.size(); ++k) slope += g[k] * v[k];
      const double h = 1e-5, numeric = (loss_at(h) - loss_at(-h)) / (2 * h);
      assign(t, start);
      CHECK(std::abs(slope - numeric) <= 1e-6 * std::abs(slope) + 1e-9);
    }
  }
}

TEST_CASE("a tied embedding's gradient is the sum of both its paths", "[gpt]") {
  nn::DecoderConfig config = tiny_config();
  const TinyGPT tied(config);
  config.tied = false;
  SafeTensors weights;
  for (const auto& [name, t] : tied.params.parameters()) weights.tensors[name] = t.clone();
  weights.tensors["lm_head.weight"] = tied.gpt.wte.weight.clone();
  const nn::GPT untied(nn::Params(source_of(weights), DType::f64), config);
  CHECK(tied.gpt.lm_head.weight.id() == tied.gpt.wte.weight.id());

  Tape tape;
  tape.backward({tied.loss(), cross_entropy(untied(tied.inputs), tied.targets)});
  const Tensor from_wte = untied.wte.weight.grad(), from_head = untied.lm_head.weight.grad();
  CHECK(difference(tied.gpt.wte.weight.grad(), from_wte + from_head, 1e-12, 1e-15) == "");
  CHECK(difference(tied.gpt.wte.weight.grad(), from_wte, 1e-3, 1e-6) != "");
}

// As where PyTorch code sets wte.weight = lm_head.weight: the head is made last.
TEST_CASE("a fresh tied weight is what the head draws", "[gpt]") {
  nn::DecoderConfig config = tiny_config();
  Rng rng(4), again(4);
  const nn::Params tied_params(rng);
  const nn::GPT tied(tied_params, config);
  config.tied = false;
  const nn::Params untied_params(again);
  const nn::GPT untied(untied_params, config);
  CHECK(same_bits(tied.wte.weight, untied.lm_head.weight));
  CHECK(same_bits(tied.wpe.weight, untied.wpe.weight));
  CHECK(rng.state() == again.state());
}

TEST_CASE("with rope a GPT knows where its tokens are without learned positions", "[gpt]") {
  nn::DecoderConfig config = tiny_config();
  config.positions = nn::Positions::rotary;
  const TinyGPT model(config);
  CHECK_FALSE(model.gpt.wpe.weight.defined());
  const auto last = [&](const std::vector<std::int32_t>& tokens) {
    return model.gpt.last_logits(Tensor::from(tokens, {1, 3}));
  };
  CHECK(difference(last({1, 2, 3}), last({2, 1, 3}), 1e-3, 1e-3) != "");
}

TEST_CASE("a checkpoint of another variant is refused by name", "[gpt]") {
  const auto refused = [](const nn::DecoderConfig& stored, const nn::DecoderConfig& asked,
                          const std::string& reason) {
    const TinyGPT model(stored, DType::f32);
    SafeTensors file;
    file.path = "model.safetensors";
    for (const auto& [name, t] : model.params.tensors()) file.tensors[name] = t;
    CHECK_THROWS_WITH(nn::GPT(nn::Params(source_of(file)), asked),
                      ContainsSubstring("model.safetensors") && ContainsSubstring(reason));
  };
  nn::DecoderConfig plain = tiny_config(), separate = plain, rope = plain;
  separate.separate_qkv = true;
  rope.positions = nn::Positions::rotary;
  refused(plain, separate, "h.0.attn.W_query.weight");
  refused(separate, plain, "h.0.attn.c_attn.weight");
  refused(plain, rope, "no place for 1 of its tensors: wpe.weight");
  refused(rope, plain, "wpe.weight");
  plain.n_inner = 20;
  refused(tiny_config(), plain, "(32, 8)");
}

TEST_CASE("micro-batches add up to the gradient of the whole batch", "[gpt]") {
  const TinyGPT model(tiny_config());
  const std::vector<Tensor> whole = model.loss_gradients();
  for (std::int64_t b = 0; b < 2; ++b) {
    Tape tape;
    const Tensor logits = model.gpt(model.inputs.rows(b, b + 1));
    tape.backward(cross_entropy(logits, model.targets.rows(b, b + 1)) / 2);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    INFO(model.params.parameters()[i].first);
    CHECK(difference(model.params.parameters()[i].second.grad(), whole[i], 1e-11, 1e-14) == "");
  }
}

TEST_CASE("no token sees those after it", "[gpt]") {
  const TinyGPT model(tiny_config());
  const Tensor before = model.gpt(Tensor::from<std::int32_t>({1, 2, 3, 4}, {1, 4}));
  const Tensor after = model.gpt(Tensor::from<std::int32_t>({1, 2, 3, 9}, {1, 4}));
  const auto first = [](const Tensor& logits) { return slice(logits, 1, 0, 3); };
  CHECK(difference(first(before), first(after), 1e-14, 1e-15) == "");
  CHECK(difference(before, after, 1e-3, 1e-3) != "");
}

TEST_CASE("the logits of the last position are the last of all logits", "[gpt]") {
  const TinyGPT model(tiny_config());
  const Tensor all = model.gpt(model.inputs), last = model.gpt.last_logits(model.inputs);
  const Tensor expected = reshape(slice(all, 1, 5, 6), {2, 11});
  CHECK(difference(last, expected, 1e-13, 1e-14) == "");
}

TEST_CASE("dropout happens only in a forward that has an Rng", "[gpt]") {
  nn::DecoderConfig config = tiny_config();
  config.dropout = 0.3;
  const TinyGPT model(config);
  const TinyGPT same_without(tiny_config());
  CHECK(same_bits(model.loss(), same_without.loss()));
  Rng first(9), again(9), other(10), untouched(9);
  const Tensor dropped = model.loss(&first);
  CHECK_FALSE(same_bits(dropped, model.loss()));
  CHECK(same_bits(dropped, model.loss(&again)));
  CHECK_FALSE(same_bits(dropped, model.loss(&other)));
  CHECK(first.state() != untouched.state());
  CHECK(same_bits(same_without.loss(&untouched), same_without.loss()));
}

TEST_CASE("dropout stands where nanoGPT has it, and draws in its order", "[gpt]") {
  nn::DecoderConfig config = tiny_config();
  config.dropout = 0.3;
  const TinyGPT model(config);
  const nn::GPT& gpt = model.gpt;
  Rng rng(9), drawn(9);
  Tensor x = dropout(gpt.wte(model.inputs) + gpt.wpe(ids({0, 1, 2, 3, 4, 5})), 0.3, rng);
  for (const nn::Block& block : gpt.h) {
    const Tensor qkv = block.attn.c_attn(block.ln_1(x));
    const Tensor y = attention(qkv, 2, {.dropout = 0.3, .rng = &rng});
    x = x + dropout(block.attn.c_proj(y), 0.3, rng);
    x = x + dropout(block.mlp.c_proj(gelu(block.mlp.c_fc(block.ln_2(x)))), 0.3, rng);
  }
  CHECK(same_bits(gpt.hidden(model.inputs, &drawn), gpt.ln_f(x)));
  CHECK(drawn.state() == rng.state());
}

TEST_CASE("recomputed blocks have bit-equal gradients with dropout inside", "[gpt]") {
  nn::DecoderConfig config = tiny_config();
  config.dropout = 0.2;
  config.block_size = 64;  // so that there is more to keep than weights
  const Rng::Kind kind = GENERATE(Rng::Kind::torch, Rng::Kind::philox);
  const DType dtype = GENERATE(DType::f32, DType::f64);
  TinyGPT model(config, dtype);
  const auto run = [&](bool recompute) {
    model.gpt.recompute = recompute;
    Rng rng(3, kind);
    Tape tape;
    const Tensor loss = model.gpt.loss(model.inputs, model.targets, &rng);
    const std::size_t kept = tape.saved_bytes();
    tape.backward(loss);
    std::vector<Tensor> grads = gradients(model.params.parameters());
    clear_gradients(model.params.parameters());
    grads.push_back(filled(Tensor::zeros({1}), {rng.uniform_double()}));
    return std::pair(grads, kept);
  };
  const auto [stored, stored_bytes] = run(false);
  const auto [recomputed, recomputed_bytes] = run(true);
  for (std::size_t i = 0; i < stored.size(); ++i) CHECK(same_bits(stored[i], recomputed[i]));
  CHECK(recomputed_bytes * 3 < stored_bytes);
}

TEST_CASE("gradients do not depend on the number of threads", "[gpt]") {
  nn::DecoderConfig config = tiny_config();
  config.n_embd = 64;
  config.block_size = 40;
  const TinyGPT model(config, DType::f32);
  const Threads one(1);
  const std::vector<Tensor> expected = model.loss_gradients();
  const Threads four(4);
  const std::vector<Tensor> grads = model.loss_gradients();
  for (std::size_t i = 0; i < grads.size(); ++i) CHECK(same_bits(grads[i], expected[i]));
}

TEST_CASE("a GPT refuses ids that it has no place for", "[gpt]") {
  const TinyGPT model(tiny_config());
  CHECK_THROWS_WITH(model.gpt(Tensor::zeros({1, 7}, DType::i32)),
                    ContainsSubstring("7 tokens is longer than block_size 6"));
  CHECK_THROWS_WITH(model.gpt(ids({1, 2, 3})), ContainsSubstring("(B, T), not (3)"));
  CHECK_THROWS_WITH(model.gpt(Tensor::from<std::int32_t>({1, 11}, {1, 2})),
                    ContainsSubstring("11"));
}
