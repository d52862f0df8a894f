// Graphs of ONNX of an encoder–decoder, by the runtime of the tests, and the texts beside them.
// tests/clients has onnxruntime and transformers.js.

#include <nlohmann/json.hpp>

#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/run/models/onnx/onnx_calls.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;
using Change = std::function<void(nn::TransformerConfig&)>;

constexpr std::int64_t kPad = 12, kStart = 13, kEnd = 14;  // behind the tokenizer's tokens

// Random weights, norms included. Positions are as they are made.
run::Translator translator_of(const Change& change = {}) {
  nn::TransformerConfig c{.vocab_size = kEnd + 1,
                          .block_size = 8,
                          .n_layer = 2,
                          .n_head = 2,
                          .n_embd = 8,
                          .n_hidden = 12};
  if (change) change(c);
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Transformer model(params, c);
  for (const auto& [name, t] : params.parameters()) nn::refill(t, nn::normal(0.1, 0.5), rng);
  return {params, model, data::Tokenizer::of_characters("abcdefgh é中\n")};
}

struct Halves {
  OnnxFile encoder, decoder;
};
Halves exported(const TempFolder& folder, const run::Translator& t, const std::string& type = "f32",
                const std::string& suffix = "") {
  run::export_translator(t, run::export_format("onnx"), folder / "out", stored_type(type), true);
  return {OnnxFile(folder / ("out/onnx/encoder_model" + suffix + ".onnx")),
          OnnxFile(folder / ("out/onnx/decoder_model_merged" + suffix + ".onnx"))};
}

OnnxArray states_of(const OnnxFile& encoder, const Rows& sources, const Rows& mask) {
  return encoder.run({{"input_ids", array_of(sources)}, {"attention_mask", array_of(mask)}})
      .at("last_hidden_state");
}

// The values of a call; `past` has those of the call before it, or nothing.
OnnxFile::Values call(const OnnxFile& decoder, const Rows& ids, const OnnxArray& states,
                      const Rows& mask, const OnnxFile::Values& past = {}) {
  OnnxFile::Values feeds = {{"input_ids", array_of(ids)},
                            {"encoder_hidden_states", states},
                            {"encoder_attention_mask", array_of(mask)}};
  const std::string prefix = "past_key_values";
  for (const auto& input : decoder.model.graph().input()) {
    if (!input.name().starts_with(prefix)) continue;
    const auto& sizes = input.type().tensor_type().shape().dim();
    feeds[input.name()] =
        past.empty()
            ? OnnxArray{{std::ssize(ids), sizes[1].dim_value(), 0, sizes[3].dim_value()}, {}}
            : past.at("present" + input.name().substr(prefix.size()));
  }
  return decoder.run(feeds);
}

const Rows kSources = {{1, 5, 11, 0, 3}, {2, 9, 4, kPad, kPad}};
const Rows kMask = {{1, 1, 1, 1, 1}, {1, 1, 1, 0, 0}};
const Rows kTargets = {{kStart, 1, 5, 0, 7, 2}, {kStart, 4, 4, 9, 10, 6}};

// Both halves compute what the model does: the decoder at once, and in calls that go on after a
// past, which no longer read the states.
void check_same(const Change& change = {}) {
  const TempFolder folder;
  const run::Translator t = translator_of(change);
  const Halves halves = exported(folder, t);
  const Tensor sources = ids_of(kSources), padding = nn::padding_mask(sources, kPad);
  OnnxArray states = states_of(halves.encoder, kSources, kMask);
  check_close(states, t.model.encode(sources, padding));
  const Tensor ours = t.model(sources, ids_of(kTargets), {.source = padding, .target = {}});
  check_close(call(halves.decoder, kTargets, states, kMask).at("logits"), ours);

  const auto first = call(halves.decoder, cut(kTargets, 0, 3), states, kMask);
  check_close(first.at("logits"), slice(ours, 1, 0, 3));
  for (double& x : states.data) x = std::numeric_limits<double>::quiet_NaN();
  const auto next = call(halves.decoder, cut(kTargets, 3, 4), states, kMask, first);
  check_close(next.at("logits"), slice(ours, 1, 3, 4));
  const auto last = call(halves.decoder, cut(kTargets, 4, 6), states, kMask, next);
  check_close(last.at("logits"), slice(ours, 1, 4, 6));
  CHECK(last.at("present.0.decoder.key").shape[2] == 6);
  CHECK(last.at("present.1.encoder.value").data == first.at("present.1.encoder.value").data);
}

// The likeliest tokens, one call each, up to the end or as many as the model has positions.
std::vector<std::int32_t> greedy(const Halves& halves, const Rows& source, std::int64_t most) {
  const Rows mask = {std::vector<std::int64_t>(source[0].size(), 1)};
  const OnnxArray states = states_of(halves.encoder, source, mask);
  std::vector<std::int32_t> tokens;
  OnnxFile::Values past;
  for (std::int64_t token = kStart; std::ssize(tokens) < most;) {
    past = call(halves.decoder, {{token}}, states, mask, past);
    const std::vector<double>& logits = past.at("logits").data;
    token = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (token == kEnd) break;
    tokens.push_back(static_cast<std::int32_t>(token));
  }
  return tokens;
}

}  // namespace

TEST_CASE("graphs of ONNX compute what both halves of an encoder-decoder do", "[onnx]") {
  check_same();
  check_same([](auto& c) { c.scale_embeddings = true, c.n_head = 1; });
  check_same([](auto& c) { c.residual_from_norm = true, c.n_head = 4, c.n_layer = 3; });
}

TEST_CASE("greedy texts of an encoder-decoder's graphs are those of the model", "[onnx]") {
  std::set<std::vector<std::int32_t>> all;
  for (const int n_layer : {1, 2, 3, 4}) {
    const TempFolder folder;
    const run::Translator t = translator_of([&](auto& c) { c.n_layer = n_layer; });
    const Halves halves = exported(folder, t);
    for (std::int64_t i = 0; i < 4; ++i) {
      const Rows source = {{i, (5 * i + 3) % 12, 11 - i, 4}};
      const auto ours = nn::translate(t.model, ids_of(source), {}, t.options()).front().tokens;
      CHECK(greedy(halves, source, t.model.config.block_size) == ours);
      all.insert(ours);
    }
  }
  CHECK(all.size() > 1);
}

TEST_CASE("an encoder-decoder's graphs are called as transformers.js and Optimum call them",
          "[onnx]") {
  const TempFolder folder;
  const Halves halves = exported(folder, translator_of([](auto& c) { c.n_layer = 1; }));
  const auto& encoder = halves.encoder.model.graph();
  CHECK(value_names(encoder.input()) == std::vector<std::string>{"input_ids", "attention_mask"});
  CHECK(value_names(encoder.output()) == std::vector<std::string>{"last_hidden_state"});
  const auto& decoder = halves.decoder.model.graph();
  CHECK(value_names(decoder.input()) ==
        std::vector<std::string>{"encoder_attention_mask", "input_ids", "encoder_hidden_states",
                                 "past_key_values.0.decoder.key", "past_key_values.0.decoder.value",
                                 "past_key_values.0.encoder.key",
                                 "past_key_values.0.encoder.value"});
  CHECK(value_names(decoder.output()) ==
        std::vector<std::string>{"logits", "present.0.decoder.key", "present.0.decoder.value",
                                 "present.0.encoder.key", "present.0.encoder.value"});
  for (const int i : {3, 4, 5, 6}) {
    const auto& past = decoder.input(i).type().tensor_type();
    CHECK(past.elem_type() == 1);
    CHECK(past.shape().dim(0).dim_param() == "batch_size");
    CHECK(past.shape().dim(1).dim_value() == 2);
    CHECK(past.shape().dim(2).dim_param() ==
          (i < 5 ? "past_decoder_sequence_length" : "past_encoder_sequence_length"));
    CHECK(past.shape().dim(3).dim_value() == 4);
  }
  check_sorted(encoder);
  check_sorted(decoder);
}

TEST_CASE("matrices of an encoder-decoder are rounded to f16 or 8 bits", "[onnx]") {
  const TempFolder folder;
  const run::Translator t = translator_of();
  const Tensor sources = ids_of(kSources);
  const Tensor ours =
      t.model(sources, ids_of(kTargets), {.source = nn::padding_mask(sources, kPad), .target = {}});
  const struct {
    std::string type, suffix;
    int number;
    double least, most;
  } kinds[] = {{"f16", "_fp16", 10, 1e-5, 0.05}, {"q8_0", "_quantized", 2, 1e-3, 1}};
  for (const auto& kind : kinds) {
    INFO(kind.type);
    const Halves halves = exported(folder, t, kind.type, kind.suffix);
    int matrices = 0;
    for (const OnnxFile* file : {&halves.encoder, &halves.decoder}) {
      for (const auto& w : file->model.graph().initializer()) {
        matrices += w.dims_size() == 2 && w.data_type() == kind.number;
      }
    }
    CHECK(matrices == 1 + 2 * 6 + 1 + 2 * 10 + 1);
    const OnnxArray states = states_of(halves.encoder, kSources, kMask);
    const auto whole = call(halves.decoder, kTargets, states, kMask);
    const double most = difference(whole.at("logits"), ours);
    CHECK(most > kind.least);
    CHECK(most < kind.most);
    // A call whose states have no rows left, of which 8 bits could take no range.
    const auto first = call(halves.decoder, cut(kTargets, 0, 5), states, kMask);
    const auto last = call(halves.decoder, cut(kTargets, 5, 6), states, kMask, first);
    CHECK(difference(last.at("logits"), slice(ours, 1, 5, 6)) < kind.most);
  }
}

TEST_CASE("the texts beside an encoder-decoder's graphs name its tokens and sizes", "[onnx]") {
  const TempFolder folder;
  const run::Translator t = translator_of();
  exported(folder, t, "f16", "_fp16");
  const auto file = [&](const std::string& name) {
    return json::parse(TempFolder::get(folder / ("out/" + name)));
  };
  const json config = file("config.json"), generation = file("generation_config.json");
  CHECK(config.at("model_type") == "bart");
  CHECK(config.at("exported_from") == "tapegrad-seq2seq");
  CHECK(config.at("is_encoder_decoder") == true);
  CHECK(config.at("architectures") == json::array({"BartForConditionalGeneration"}));
  CHECK(config.at("d_model") == 8);
  for (const std::string side : {"encoder", "decoder"}) {
    CHECK(config.at(side + "_layers") == 2);
    CHECK(config.at(side + "_attention_heads") == 2);
  }
  CHECK(config.at("transformers.js_config") ==
        json{{"dtype", "fp16"},
             {"use_external_data_format",
              {{"encoder_model", false}, {"decoder_model_merged", false}}}});
  for (const json& ids : {config, generation}) {
    CHECK(ids.at("pad_token_id") == kPad);
    CHECK(ids.at("decoder_start_token_id") == kStart);
    CHECK(ids.at("eos_token_id") == kEnd);
    CHECK(ids.at("forced_eos_token_id").is_null());
  }
  CHECK(generation.at("max_length") == 9);  // the start and 8 tokens

  // As the tokens are numbered here. (A character that is none of them is left out in other
  // programs, so that our own reader refuses the file.)
  const json tokenizer = file("tokenizer.json"), names = file("tokenizer_config.json");
  CHECK(tokenizer.at("model").at("vocab").size() == 12);
  for (const auto& [name, id] :
       {std::pair{"pad_token", kPad}, {"bos_token", kStart}, {"eos_token", kEnd}}) {
    const json& added = tokenizer.at("added_tokens");
    CHECK(std::ranges::any_of(added, [&, token = id, text = names.at(name)](const json& one) {
      return one.at("content") == text && one.at("id") == token && one.at("special") == true;
    }));
  }
  CHECK(file("tokenizer.json").at("post_processor").is_null());
}

TEST_CASE("an export of an encoder-decoder replaces one of a decoder, and fails without a trace",
          "[onnx]") {
  const TempFolder folder;
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Decoder gpt(
      params, {.vocab_size = 12, .block_size = 8, .n_layer = 1, .n_head = 1, .n_embd = 4});
  const run::TextModel model{params, gpt, data::Tokenizer::of_characters("abcdefgh é中\n")};
  const run::ExportFormat& onnx = run::export_format("onnx");
  const StoredType& f32 = stored_type("f32");
  const auto has = [&](const std::string& name) {
    return fs::exists(folder / ("out/onnx/" + name + ".onnx"));
  };
  run::export_model(model, onnx, folder / "out", f32);
  run::Translator t = translator_of();
  CHECK_THROWS_WITH(run::export_translator(t, onnx, folder / "out", f32),
                    ContainsSubstring("has a file onnx/model.onnx already"));
  run::export_translator(t, onnx, folder / "out", f32, true);
  CHECK((has("encoder_model") && has("decoder_model_merged") && !has("model")));

  t.model.lm_head.weight.mutable_data<float>()[3] = 1e6F;
  CHECK_THROWS_WITH(run::export_translator(t, onnx, folder / "out", stored_type("f16"), true),
                    ContainsSubstring("'lm_head.weight' has the value 1000000"));
  CHECK((has("encoder_model") && has("decoder_model_merged") && !has("encoder_model_fp16")));
  for (const std::string format : {"hf", "gguf", "peft"}) {
    CHECK_THROWS_WITH(run::export_translator(t, run::export_format(format), folder / "other", f32),
                      ContainsSubstring("--format " + format +
                                        " cannot express an encoder-decoder: choose onnx"));
  }
  CHECK_FALSE(fs::exists(folder / "other"));

  run::export_model(model, onnx, folder / "out", f32, true);
  CHECK((!has("encoder_model") && !has("decoder_model_merged") && has("model")));
}
