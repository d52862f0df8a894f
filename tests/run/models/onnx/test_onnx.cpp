// Graphs of ONNX: their form, read back by protobuf, and their numbers, by a runtime of the tests.
// tests/clients has onnxruntime.

#include <nlohmann/json.hpp>

#include "tapegrad/nn/decoder.h"
#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/run/models/formats/export.h"
#include "tapegrad/run/models/formats/onnx/internal/decoder_graph.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/run/models/onnx/onnx_calls.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::testing;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;
using Change = std::function<void(nn::DecoderConfig&)>;

nn::DecoderConfig gpt2(const Change& change = {}) {
  nn::DecoderConfig c{.vocab_size = 12, .block_size = 8, .n_layer = 2, .n_head = 2, .n_embd = 8};
  if (change) change(c);
  return c;
}
nn::DecoderConfig llama(const Change& change = {}) {
  return gpt2([&](nn::DecoderConfig& c) {
    c.arch = nn::Architecture::llama;
    if (change) change(c);
  });
}

// Random weights, biases and norms included.
run::TextModel model_of(const nn::DecoderConfig& config) {
  Rng rng(1);
  const nn::Params params(rng);
  const nn::Decoder model(params, config);
  for (const auto& [name, t] : params.tensors()) nn::refill(t, nn::normal(0.1, 0.5), rng);
  return {params, model, data::Tokenizer::of_characters("abcdefgh é中\n")};
}

OnnxFile exported(const TempFolder& folder, const run::TextModel& model,
                  const std::string& type = "f32", const std::string& file = "model.onnx") {
  run::export_model(model, run::export_format("onnx"), folder / "out", stored_type(type), true);
  return OnnxFile(folder / "out/onnx" / file);
}

// The values of a call; `past` has those of the call before it, or nothing.
OnnxFile::Values call(const OnnxFile& file, const Rows& ids, const Rows& mask, const Rows& places,
                      const OnnxFile::Values& past = {}) {
  OnnxFile::Values feeds = {{"input_ids", array_of(ids)},
                            {"attention_mask", array_of(mask)},
                            {"position_ids", array_of(places)}};
  for (const auto& input : file.model.graph().input()) {
    if (feeds.count(input.name()) != 0) continue;
    const auto& sizes = input.type().tensor_type().shape().dim();
    const std::string present =
        "present" + input.name().substr(std::string("past_key_values").size());
    feeds[input.name()] =
        past.empty()
            ? OnnxArray{{std::ssize(ids), sizes[1].dim_value(), 0, sizes[3].dim_value()}, {}}
            : past.at(present);
  }
  return file.run(feeds);
}

const Rows kIds = {{1, 5, 11, 0, 3, 7}, {2, 2, 9, 4, 10, 6}};

Tensor ours_of(const run::TextModel& model, const Rows& ids) {
  return model.gpt.head(model.gpt.hidden(ids_of(ids)));
}

// The graph computes what the model does, at once, with a past, and behind padding.
void check_same(const nn::DecoderConfig& config) {
  const TempFolder folder;
  const run::TextModel model = model_of(config);
  const OnnxFile file = exported(folder, model);
  const Rows all = {{1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}};
  const Rows places = {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}};
  const Tensor ours = ours_of(model, kIds);
  check_close(call(file, kIds, all, places).at("logits"), ours);

  const auto first = call(file, cut(kIds, 0, 4), cut(all, 0, 4), cut(places, 0, 4));
  check_close(first.at("logits"), slice(ours, 1, 0, 4));
  const auto next = call(file, cut(kIds, 4, 5), cut(all, 0, 5), cut(places, 4, 5), first);
  check_close(next.at("logits"), slice(ours, 1, 4, 5));
  const auto last = call(file, cut(kIds, 5, 6), all, cut(places, 5, 6), next);
  check_close(last.at("logits"), slice(ours, 1, 5, 6));

  Rows padded = kIds;
  padded[1] = {0, 0, 2, 2, 9, 4};
  const auto beside = call(file, padded, {{1, 1, 1, 1, 1, 1}, {0, 0, 1, 1, 1, 1}},
                           {{0, 1, 2, 3, 4, 5}, {1, 1, 0, 1, 2, 3}});
  const OnnxArray& logits = beside.at("logits");
  check_close(onnx_part(logits, 0, 0, 1), slice(ours, 0, 0, 1));
  check_close(onnx_part(onnx_part(logits, 0, 1, 2), 1, 2, 6), slice(slice(ours, 0, 1, 2), 1, 0, 4));
}

void yarn(nn::DecoderConfig& c) {
  c.rope_scaling = nn::RopeScalingKind::yarn, c.rope_factor = 8, c.rope_original_positions = 7;
}

}  // namespace

TEST_CASE("a graph of ONNX computes what the model does", "[onnx]") {
  check_same(gpt2());
  check_same(gpt2([](auto& c) { c.tied = false, c.bias = false; }));
  check_same(llama());
  check_same(llama([](auto& c) { c.n_kv_head = 1, c.head_size = 6, c.tied = false; }));
}

TEST_CASE("a graph of ONNX has each part that a config can choose", "[onnx]") {
  for (const auto activation : {nn::Activation::gelu_erf, nn::Activation::relu,
                                nn::Activation::relu2, nn::Activation::silu}) {
    check_same(gpt2([&](auto& c) { c.activation = activation; }));
  }
  check_same(gpt2([](auto& c) { c.norm = nn::NormKind::unbiased; }));
  check_same(gpt2([](auto& c) { c.positions = nn::Positions::none, c.n_kv_head = 1; }));
  check_same(llama([](auto& c) { c.norm = nn::NormKind::rms_plus, c.embedding_scale = 3; }));
  check_same(llama([](auto& c) { c.norm = nn::NormKind::rms_bare, c.embedding_norm = true; }));
  check_same(llama([](auto& c) { c.norm_place = nn::NormPlace::both; }));
  check_same(llama([](auto& c) { c.norm_place = nn::NormPlace::after, c.qkv_bias = true; }));
  check_same(llama([](auto& c) { c.qk_norm = true; }));
  check_same(llama([](auto& c) { c.qk_norm = c.qk_norm_whole = true; }));
  check_same(llama([](auto& c) { c.joined_gate = true, c.separate_qkv = false; }));
  check_same(llama([](auto& c) { c.attention_scale = 0.3, c.attention_softcap = 2; }));
  check_same(llama([](auto& c) { c.logit_scale = 0.5, c.logit_softcap = 3; }));
  check_same(llama([](auto& c) { c.residual_scale = 0.4, c.residual_scalars = true; }));
}

TEST_CASE("a graph of ONNX has windows and rotary positions as blocks have them", "[onnx]") {
  check_same(llama([](auto& c) { c.window = 2; }));
  check_same(llama(
      [](auto& c) { c.window = 3, c.window_pattern = "SL", c.rope_window_base = 50, yarn(c); }));
  check_same(llama(yarn));
  check_same(llama([](auto& c) { c.rope_channels = 2, c.rope_pattern = "RN"; }));
  check_same(llama([](auto& c) { c.rope_reversed = true; }));
  const TempFolder folder;  // a table that is written in parts
  const OnnxFile file = exported(folder, model_of(llama([](auto& c) { c.block_size = 5000; })));
  const OnnxArray& cos = file.weight("cos.10000");
  REQUIRE(cos.shape == std::vector<std::int64_t>{5001, 2});
  for (const std::int64_t row : {0, 4095, 4096, 5000}) {
    CHECK(std::abs(cos.data[static_cast<std::size_t>(2 * row)] -
                   std::cos(static_cast<double>(row))) < 1e-6);
  }
}

TEST_CASE("a graph of ONNX is called as transformers.js calls it, and sorted", "[onnx]") {
  const TempFolder folder;
  const OnnxFile file = exported(folder, model_of(llama([](auto& c) { c.n_kv_head = 1; })));
  const auto& graph = file.model.graph();
  CHECK(file.model.opset_import(0).version() == 17);
  CHECK(value_names(graph.input()) ==
        std::vector<std::string>{"input_ids", "attention_mask", "position_ids",
                                 "past_key_values.0.key", "past_key_values.0.value",
                                 "past_key_values.1.key", "past_key_values.1.value"});
  CHECK(value_names(graph.output()) == std::vector<std::string>{"logits", "present.0.key",
                                                                "present.0.value", "present.1.key",
                                                                "present.1.value"});
  const auto& past = graph.input(3).type().tensor_type();
  CHECK(past.elem_type() == 1);
  CHECK(past.shape().dim(0).dim_param() == "batch_size");
  CHECK(past.shape().dim(1).dim_value() == 1);
  CHECK(past.shape().dim(2).dim_param() == "past_sequence_length");
  CHECK(past.shape().dim(3).dim_value() == 4);

  check_sorted(graph);
}

TEST_CASE("a tied table stands once in a graph of ONNX, and tokens that are none are ruled out",
          "[onnx]") {
  const TempFolder folder;
  run::TextModel model = model_of(gpt2());
  model.gpt.rule_out(std::vector<std::int32_t>{3, 11});
  const OnnxFile file = exported(folder, model);
  const auto& weights = file.model.graph().initializer();
  CHECK(std::count_if(weights.begin(), weights.end(), [](const auto& t) {
          return t.dims_size() == 2 && t.dims(0) * t.dims(1) == 12 * 8;
        }) == 1);
  const auto logits = call(file, {{1}}, {{1}}, {{0}}).at("logits");
  CHECK(std::isinf(logits.data[3]));
  CHECK(std::isinf(logits.data[11]));
  CHECK(std::isfinite(logits.data[4]));
}

TEST_CASE("matrices of ONNX are rounded to f16 or 8 bits, and nothing else is", "[onnx]") {
  const TempFolder folder;
  const run::TextModel model = model_of(gpt2());
  const Tensor ours = ours_of(model, kIds);
  const struct {
    std::string type, file;
    int number;
    double least, most;
  } kinds[] = {{"f16", "model_fp16.onnx", 10, 1e-5, 0.02},
               {"q8_0", "model_quantized.onnx", 2, 1e-3, 0.4}};
  for (const auto& kind : kinds) {
    const OnnxFile file = exported(folder, model, kind.type, kind.file);
    int matrices = 0;
    for (const auto& t : file.model.graph().initializer()) {
      const bool is_matrix = t.dims_size() == 2 && t.name() != "wpe.weight";
      CHECK((t.data_type() == kind.number && !t.name().starts_with("constant")) == is_matrix);
      matrices += is_matrix;
    }
    CHECK(matrices == 1 + 2 * 4);
    const auto logits =
        call(file, kIds, Rows(2, std::vector<std::int64_t>(6, 1)), Rows(2, {0, 1, 2, 3, 4, 5}))
            .at("logits");
    const double most = difference(logits, ours);
    INFO(kind.type);
    CHECK(most > kind.least);
    CHECK(most < kind.most);
  }
}

TEST_CASE("weights that are too large for a message stand in a file beside it", "[onnx]") {
  const TempFolder folder;
  // A matrix fills a page of 4,096 bytes, others do not.
  const run::TextModel model = model_of(llama([](auto& c) { c.n_embd = 32; }));
  const run::OnnxGraph graph = run::decoder_graph(model.gpt, model.params, stored_type("f32"));
  CHECK_FALSE(run::write_onnx(folder / "inside.onnx", graph));
  CHECK(run::write_onnx(folder / "outside.onnx", graph, 1000));
  CHECK_FALSE(fs::exists(folder / "inside.onnx_data"));
  const OnnxFile inside(folder / "inside.onnx"), outside(folder / "outside.onnx");
  for (const auto& t : inside.model.graph().initializer()) {
    CHECK(inside.weight(t.name()).data == outside.weight(t.name()).data);
  }
  std::size_t count = 0;
  for (const auto& t : outside.model.graph().initializer()) {
    if (t.data_location() == 0) continue;
    ++count;
    CHECK(t.raw_data().empty());
    CHECK(t.external_data(0).value() == "outside.onnx_data");
    CHECK(std::stoul(t.external_data(1).value()) % 4096 == 0);
  }
  CHECK(count == graph.weights().size());
}

TEST_CASE("config.json beside a graph of ONNX has the sizes of its cache", "[onnx]") {
  const TempFolder folder;
  const auto config = [&] { return json::parse(TempFolder::get(folder / "out/config.json")); };
  exported(folder, model_of(llama([](auto& c) { c.residual_scale = 0.5; })));
  CHECK(config().at("model_type") == "granite");
  // AutoTokenizer would cut the characters' text as Qwen's.
  exported(folder, model_of(llama([](auto& c) { c.qk_norm = true; })));
  CHECK(config().at("model_type") == "llama");
  // Heads that do not divide the channels.
  exported(folder, model_of(llama([](auto& c) { c.n_embd = 10, c.n_head = 3, c.head_size = 4; })));
  CHECK(config().at("hidden_size") == 12);
  CHECK(config().at("head_dim") == 4);
  CHECK(config().at("transformers.js_config").at("dtype") == "fp32");
  CHECK(config().at("transformers.js_config").at("use_external_data_format") == false);
  // No class of transformers has both.
  exported(folder, model_of(gpt2([](auto& c) {
             c.positions = nn::Positions::rotary, c.n_kv_head = 1, c.residual_scalars = true;
           })));
  CHECK(config().at("model_type") == "llama");
  CHECK(config().at("num_key_value_heads") == 1);
  CHECK(config().at("num_attention_heads") == 2);
  CHECK(config().at("num_hidden_layers") == 2);
}

TEST_CASE("an export to ONNX that fails, or is of another type, leaves no file that is not its own",
          "[onnx]") {
  const TempFolder folder;
  exported(folder, model_of(gpt2()));
  const std::string before = TempFolder::get(folder / "out/onnx/model.onnx");
  CHECK_THROWS_WITH(exported(folder, model_of(gpt2([](auto& c) { c.ngrams = 2; }))),
                    ContainsSubstring("ONNX export does not know ngrams 2"));
  CHECK_THROWS_WITH(exported(folder, model_of(llama([](auto& c) { c.query_scale_beta = 1; }))),
                    ContainsSubstring("ONNX export does not know query_scale_beta 1"));
  CHECK_THROWS_WITH(exported(folder, model_of(llama([](auto& c) { c.moe.experts = 2; }))),
                    ContainsSubstring("ONNX export does not know mixtures of experts"));
  CHECK_THROWS_WITH(exported(folder, model_of(llama([](auto& c) { c.attention_sinks = true; }))),
                    ContainsSubstring("ONNX export does not know attention_sinks"));
  CHECK_THROWS_WITH(
      exported(folder,
               model_of(llama([](auto& c) { c.activation = nn::Activation::clamped_swiglu; }))),
      ContainsSubstring("ONNX export does not know activation clamped-swiglu"));
  CHECK_THROWS_WITH(
      exported(folder, model_of(llama([](auto& c) { c.mixer_pattern = "CA"; }))),
      ContainsSubstring("ONNX export does not know what stands in place of attention"));
  CHECK_THROWS_WITH(exported(folder, model_of(llama([](auto& c) { c.ff_pattern = "NF"; }))),
                    ContainsSubstring("ONNX export does not know blocks without a feed-forward"));
  run::TextModel large = model_of(gpt2());
  large.gpt.wte.weight.mutable_data<float>()[3] = 1e6F;
  CHECK_THROWS_WITH(exported(folder, large, "f16", "model_fp16.onnx"),
                    ContainsSubstring("'wte.weight' has the value 1000000"));
  CHECK(TempFolder::get(folder / "out/onnx/model.onnx") == before);
  exported(folder, model_of(gpt2()), "f16", "model_fp16.onnx");
  CHECK_FALSE(fs::exists(folder / "out/onnx/model.onnx"));
  CHECK_THROWS_WITH(run::export_model(model_of(gpt2()), run::export_format("hf"), folder / "out",
                                      stored_type("f32"), true),
                    ContainsSubstring("has a file onnx/model_fp16.onnx, of another --format"));
  CHECK_THROWS_WITH(
      run::check_export(run::export_format("onnx"), folder / "out", stored_type("f32")),
      ContainsSubstring("has a file onnx/model_fp16.onnx already"));
}
