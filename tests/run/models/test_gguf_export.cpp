#include "tapegrad/tests/run/models/gguf_support.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

std::map<std::string, Tensor> tensors_of(const run::TextModel& model) {
  return {model.params.tensors().begin(), model.params.tensors().end()};
}

void check_same_weights(const run::TextModel& a, const run::TextModel& b) {
  const auto ours = tensors_of(a), theirs = tensors_of(b);
  CHECK(ours.size() == theirs.size());
  for (const auto& [name, t] : ours) {
    INFO(name);
    REQUIRE(theirs.count(name) == 1);
    CHECK(same_bits(t, theirs.at(name)));
  }
}

}  // namespace

TEST_CASE("exported models come back bit for bit", "[gguf_export]") {
  const TempFolder folder;
  for (const char* name : {"hf_gpt2", "hf_llama", "hf_qwen2", "hf_qwen3"}) {
    INFO(name);
    const run::TextModel model = run::load(golden_file(name));
    run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
    const run::TextModel back = run::load(folder / "file.gguf");
    check_same_weights(model, back);
    CHECK(same_bits(model.gpt(some_ids(model)), back.gpt(some_ids(model))));
    CHECK(model.tokenizer.encode(kCorpus) == back.tokenizer.encode(kCorpus));
    CHECK(back.gpt.config.norm_eps == model.gpt.config.norm_eps);
    CHECK(back.tokenizer.end_of_text() == model.tokenizer.end_of_text());
  }
}

TEST_CASE("all tokenizers come back, and characters without the row that was added",
          "[gguf_export]") {
  const TempFolder folder;
  const std::string_view corpus = kCorpus;
  const auto characters = data::Tokenizer::of_characters(corpus);
  const data::Tokenizer tokenizers[] = {characters,
                                        characters.padded(characters.vocab_size() + 3),
                                        small_bpe(),
                                        golden_tokenizer("gpt2"),
                                        golden_tokenizer("smollm"),
                                        golden_tokenizer("llama3"),
                                        data::Tokenizer::of_hf(qwen2_file().dump()),
                                        data::Tokenizer::gpt2()};
  for (const data::Tokenizer& tokenizer : tokenizers) {
    INFO(tokenizer.kind() << " " << tokenizer.vocab_size());
    for (const bool tied : {true, false}) {
      nn::DecoderConfig config = tiny(tokenizer);
      config.tied = tied;
      const run::TextModel model = model_of(tokenizer, config);
      run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
      const run::TextModel back = run::load(folder / "file.gguf");
      check_same_weights(model, back);
      CHECK(back.tokenizer.vocab_size() == tokenizer.vocab_size());
      CHECK(back.tokenizer.encode(kCorpus) == tokenizer.encode(kCorpus));
      CHECK(std::ranges::equal(back.tokenizer.begin(), tokenizer.begin()));
      CHECK((back.tokenizer.kind() == "char") == (tokenizer.kind() == "char"));
      // Its tokenizer.json, which is made when somebody asks for it, is the same tokenizer.
      const auto written = data::Tokenizer::of_hf(back.tokenizer.hf_json());
      CHECK(written.encode(kCorpus) == back.tokenizer.encode(kCorpus));
      CHECK(std::ranges::equal(written.begin(), back.tokenizer.begin()));
      bool same = true;
      for (data::Token token = 0; token < written.vocab_size(); ++token) {
        same = same && written.token_bytes(token) == back.tokenizer.token_bytes(token) &&
               written.is_added(token) == back.tokenizer.is_added(token);
      }
      CHECK(same);
    }
  }
}

TEST_CASE(
    "a tokenizer of Qwen2's that does not normalize texts does not come back as one that does",
    "[gguf_export]") {
  const TempFolder folder;
  auto json = qwen2_file();
  json["normalizer"] = nullptr;
  const auto tokenizer = data::Tokenizer::of_hf(json.dump());
  const run::TextModel model = model_of(tokenizer, tiny(tokenizer));
  run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
  const std::string accent = "e\u0301";
  CHECK(run::load(folder / "file.gguf").tokenizer.encode(accent) == tokenizer.encode(accent));
  CHECK(tokenizer.encode(accent) != golden_tokenizer("qwen2").encode(accent));
}

TEST_CASE("the token that is added to end texts is never the likeliest", "[gguf_export]") {
  const TempFolder folder;
  const auto tokenizer = data::Tokenizer::of_characters(std::string_view(kCorpus));
  const run::TextModel model = model_of(tokenizer, tiny(tokenizer));
  run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
  const GgufFile file(folder / "file.gguf");
  const auto V = tokenizer.vocab_size();
  CHECK(std::get<std::int64_t>(file.keys().at("tokenizer.ggml.eos_token_id")) == V);
  const auto& tokens = std::get<std::vector<std::string>>(file.keys().at("tokenizer.ggml.tokens"));
  REQUIRE(std::ssize(tokens) == V + 1);
  CHECK(tokens.back() == "<|endoftext|>");
  const Tensor table = file.read("token_embd.weight");
  REQUIRE(table.shape() == Shape{V + 1, 8});
  const Tensor logits = linear(model.gpt.hidden(some_ids(model)), table);
  for (std::int64_t t = 0; t < 12; ++t) {
    const Tensor row = logits.view({12, V + 1}).rows(t, t + 1);
    double sum = 0, most = -1e30;
    for (std::int64_t i = 0; i < V; ++i) sum += row.at(i), most = std::max(most, row.at(i));
    CHECK(row.at(V) == Approx(sum / static_cast<double>(V)).margin(1e-5));
    CHECK(row.at(V) < most);
  }
}

TEST_CASE("variants that llama.cpp's GPT-2 can express are exported as such", "[gguf_export]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  nn::DecoderConfig separate = tiny(tokenizer), unbiased = separate, wide = separate;
  separate.separate_qkv = true, separate.qkv_bias = false;
  unbiased.bias = false;
  wide.n_inner = 40, wide.norm_eps = 1e-6, wide.tied = false;
  for (const nn::DecoderConfig& config : {separate, unbiased, wide}) {
    const run::TextModel model = model_of(tokenizer, config);
    run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
    const run::TextModel back = run::load(folder / "file.gguf");
    CHECK(difference(back.gpt(some_ids(model)), model.gpt(some_ids(model)), 1e-6, 1e-6) == "");
    CHECK(back.gpt.config.norm_eps == config.norm_eps);
  }
}

TEST_CASE("what GGUF cannot express is refused by name, and nothing is written", "[gguf_export]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  const auto refused = [&](const auto& change, const std::string& expected) {
    nn::DecoderConfig config = tiny(tokenizer);
    change(config);
    CHECK_THROWS_WITH(
        run::export_gguf(model_of(tokenizer, config), folder / "file.gguf", stored_type("f32")),
        ContainsSubstring(expected));
  };
  refused([](auto& c) { c.activation = nn::Activation::gelu_erf; }, "activation gelu-erf");
  refused([](auto& c) { c.activation = nn::Activation::relu; }, "activation relu");
  refused([](auto& c) { c.activation = nn::Activation::relu2; }, "activation relu2");
  refused([](auto& c) { c.residual_scalars = true; }, "residual_scalars true");
  refused([](auto& c) { c.ngrams = 2; }, "ngrams 2");
  refused([](auto& c) { c.positions = nn::Positions::rotary; }, "positions rotary");
  refused([](auto& c) { c.norm = nn::NormKind::unbiased; }, "norm unbiased");
  refused([](auto& c) { c.arch = nn::Architecture::llama, c.qk_norm = true, c.qkv_bias = true; },
          "GGUF's qwen3 cannot express a model with qkv_bias true, only with false");
  refused(
      [](auto& c) {
        c.arch = nn::Architecture::llama, c.qk_norm = true;
        c.rope_scaling = nn::RopeScalingKind::llama3, c.rope_factor = 8;
      },
      "GGUF's qwen3 cannot express a model with rope_scaling llama3, only with none");
  refused([](auto& c) { c.arch = nn::Architecture::llama, c.qk_norm = true, c.bias = true; },
          "GGUF's qwen3 cannot express a model with bias true, only with false");
  refused([](auto& c) { c.arch = nn::Architecture::llama, c.window = 2; },
          "GGUF's llama cannot express a model with window 2, only with 0: llama.cpp");
  CHECK(folder.entries() == 0);
}

TEST_CASE("weights are stored in the type that is asked for", "[gguf_export]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  nn::DecoderConfig config = tiny(tokenizer);
  config.n_embd = 32, config.n_inner = 40;  // 40: rows without whole blocks
  const run::TextModel model = model_of(tokenizer, config);
  const auto& types = run::export_format("gguf").types;
  CHECK(names_of(types).starts_with("f32, f16, bf16, q8_0"));
  for (const StoredType* type : types) {
    INFO(type->name);
    run::export_gguf(model, folder / "file.gguf", *type);
    const GgufFile file(folder / "file.gguf");
    // Rows of 32 are no super-blocks: llama-quantize has types in place of these.
    const std::map<std::string_view, const char*> in_place = {
        {"q4_k", "q5_0"}, {"q5_k", "q5_1"}, {"q6_k", "q8_0"}};
    CHECK((type->block > 32) == in_place.contains(type->name));
    const StoredType* const of_rows =
        type->block > 32 ? &stored_type(in_place.at(type->name)) : type;
    CHECK(file.at("token_embd.weight").type == of_rows);
    CHECK(file.at("blk.1.attn_qkv.weight").type == of_rows);
    CHECK(file.at("blk.1.ffn_down.weight").type == (type->block == 1 ? type : &stored_type("f16")));
    CHECK(file.at("blk.1.attn_qkv.bias").type == &stored_type("f32"));
    CHECK(file.at("output_norm.weight").type == &stored_type("f32"));
    CHECK(file.at("position_embd.weight").type == &stored_type("f32"));
    run::load(folder / "file.gguf");
  }
}

TEST_CASE("linear rotary positions go out and come back, also without a type", "[gguf_export]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  for (const bool qkv_bias : {false, true}) {  // llama and qwen2
    nn::DecoderConfig config = tiny(tokenizer);
    config.arch = nn::Architecture::llama, config.qkv_bias = qkv_bias;
    config.rope_scaling = nn::RopeScalingKind::linear, config.rope_factor = 3;
    const run::TextModel model = model_of(tokenizer, config);
    run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
    const GgufFile file(folder / "file.gguf");
    const std::string prefix = qkv_bias ? "qwen2." : "llama.";
    CHECK(std::get<std::string>(file.keys().at(prefix + "rope.scaling.type")) == "linear");
    const Tensor logits = model.gpt(some_ids(model));
    CHECK(difference(run::load(folder / "file.gguf").gpt(some_ids(model)), logits, 0, 0) == "");
    const auto changed = [&](const auto& change) {
      Edited e(folder / "file.gguf");
      change(e.keys);
      return e.load().gpt.config;
    };
    const auto factor = [&](const auto& change) { return changed(change).rope_factor; };
    CHECK(factor([&](GgufKeys& k) { k.erase(prefix + "rope.scaling.type"); }) == 3);
    CHECK(factor([&](GgufKeys& k) { k[prefix + "rope.scaling.type"] = std::string("none"); }) == 1);
    CHECK(changed([&](GgufKeys& k) {
            k[prefix + "attention.sliding_window"] = std::int64_t{2};
          }).window == 2);
    CHECK(changed([&](GgufKeys& k) {
            k[prefix + "attention.sliding_window"] = std::int64_t{4096};
          }).window == 0);
  }
}

TEST_CASE("YaRN's positions go out and come back as llama.cpp computes them", "[gguf_export]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  nn::DecoderConfig config = tiny(tokenizer);
  config.arch = nn::Architecture::llama, config.rope_scaling = nn::RopeScalingKind::yarn;
  config.rope_factor = 3, config.rope_original_positions = 8, config.rope_base = 10;
  config.rope_attention_factor = GENERATE(0.0, 1.25);
  const run::TextModel model = model_of(tokenizer, config);
  const fs::path path = folder / "file.gguf";
  run::export_gguf(model, path, stored_type("f32"));
  const std::string prefix = "llama.rope.scaling.";
  const GgufKeys keys = GgufFile(path).keys();
  CHECK(std::get<std::string>(keys.at(prefix + "type")) == "yarn");
  CHECK(std::get<std::int64_t>(keys.at(prefix + "original_context_length")) == 8);
  CHECK(keys.contains(prefix + "attn_factor") == (config.rope_attention_factor != 0));
  const Tensor logits = model.gpt(some_ids(model));
  CHECK(difference(run::load(path).gpt(some_ids(model)), logits, 1e-6, 1e-6) == "");
  const auto opened = [&](const std::string& key, const GgufValue& value) {
    Edited e(path);
    e.keys[prefix + key] = value;
    return e.load().gpt.config.with_defaults();
  };
  const nn::DecoderConfig same = run::load(path).gpt.config.with_defaults();
  CHECK(opened("yarn_beta_fast", 32.0) == same);
  CHECK(opened("yarn_truncate", true) == same);
  CHECK(opened("attn_factor", 2.0).rope_attention_factor ==
        Approx(2 * yarn_attention_factor(3)).epsilon(1e-6));
  CHECK(opened("yarn_attn_factor", same.scaling()->attention_factor) == same);
  const auto refused = [&](const std::string& key, const GgufValue& value,
                           const std::string& message) {
    CHECK_THROWS_WITH(opened(key, value), ContainsSubstring(message));
  };
  const std::string end = ": llama.cpp computes with that";
  refused("yarn_beta_fast", 16.0, "yarn_beta_fast 16 is not supported, only 32" + end);
  refused("yarn_log_multiplier", 0.5, "yarn_log_multiplier 0.5 is not supported, only 0" + end);
  refused("yarn_truncate", false, "yarn_truncate false is not supported, only true" + end);
  refused("yarn_attn_factor", 1.7, "yarn_attn_factor 1.7 is not supported");
  refused("type", std::string("longrope"), "only none, linear and yarn");
  if (config.rope_attention_factor != 0) {
    refused("type", std::string("linear"), "is not supported, only 1, but with yarn");
  }
}

TEST_CASE("biases of attention and feed-forward go out and come back, each alone",
          "[gguf_export]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  for (const bool attention : {false, true}) {
    for (const bool mlp : {false, true}) {
      nn::DecoderConfig config = tiny(tokenizer);
      config.arch = nn::Architecture::llama, config.bias = attention, config.mlp_bias = mlp;
      const run::TextModel model = model_of(tokenizer, config);
      run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
      const GgufFile file(folder / "file.gguf");
      CHECK(std::get<std::string>(file.keys().at("general.architecture")) == "llama");
      CHECK(file.contains("blk.1.attn_output.bias") == attention);
      CHECK(file.contains("blk.0.ffn_down.bias") == mlp);
      const run::TextModel back = run::load(folder / "file.gguf");
      CHECK(difference(back.gpt(some_ids(model)), model.gpt(some_ids(model)), 0, 0) == "");
    }
  }
}

TEST_CASE("of several ends, a file has the tokenizer's own", "[gguf_export]") {
  const TempFolder folder;
  fs::copy(golden_file("hf_llama"), folder / "in");
  folder.put("in/generation_config.json", R"({"eos_token_id": [0, 400]})");
  const auto end_with = [&](const std::string& settings) {
    folder.put("in/tokenizer_config.json", settings);
    run::export_gguf(run::load(folder / "in"), folder / "file.gguf", stored_type("f32"));
    return std::get<std::int64_t>(
        GgufFile(folder / "file.gguf").keys().at("tokenizer.ggml.eos_token_id"));
  };
  CHECK(end_with("{}") == 0);
  CHECK(end_with(R"({"eos_token": "<tool>"})") == 400);
  CHECK(end_with(R"({"eos_token": "e"})") == 0);  // which ends no text
}

TEST_CASE("Llama 3's scaling of rotary positions is read from its divisors alone",
          "[gguf_export]") {
  const TempFolder folder;
  const auto tokenizer = small_bpe();
  const auto check_read = [&](std::int64_t positions, double low, double high, double base) {
    INFO(positions << " " << low << " " << high << " " << base);
    nn::DecoderConfig config = tiny(tokenizer);
    config.arch = nn::Architecture::llama, config.n_layer = 1, config.n_embd = 64;
    config.rope_base = base;
    config.rope_scaling = nn::RopeScalingKind::llama3, config.rope_factor = 8;
    config.rope_original_positions = positions;
    config.rope_low_freq_factor = low, config.rope_high_freq_factor = high;
    const run::TextModel model = model_of(tokenizer, config);
    run::export_gguf(model, folder / "file.gguf", stored_type("f32"));
    Edited e(folder / "file.gguf");
    std::erase_if(e.keys, [](const auto& key) { return key.first.starts_with("tapegrad.rope"); });
    const run::TextModel read = e.load();
    CHECK(difference(read.gpt(some_ids(model)), model.gpt(some_ids(model)), 1e-5, 1e-5) == "");
    return read.gpt.config;
  };
  CHECK(check_read(8192, 1, 4, 5e5).rope_low_freq_factor == 1);
  check_read(4096, 1, 4, 5e5);
  check_read(16, 1.5, 2, 1000);
  check_read(64, 1, 32, 1e4);
  check_read(8192, 1, 1.0001, 5e5);   // no pair is between the two
  check_read(8192, 1, 2.2, 5e5);      // one is
  check_read(1, 1, 4, 1e4);           // all are divided by the factor
  check_read(1 << 14, 0.01, 4, 1e4);  // none by all of the factor
}
