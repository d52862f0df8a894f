// Decoders: made of a config, or opened with their tokenizer, and texts from these.

#include <pybind11/stl/filesystem.h>

#include <string>
#include <vector>

#include "tapegrad/apps/python/internal/bindings.h"
#include "tapegrad/apps/sample/sampling_options.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/nn/generation/token_stream.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::python {
namespace {

DecoderLayer make(Rng& rng, DType dtype, bool gpt2_weights, const py::kwargs& options) {
  nn::DecoderConfig config;
  take_options("Decoder", config, options);
  config.validate();
  const nn::DecoderBuildOptions how{.gpt2_weights = gpt2_weights ? &rng : nullptr};
  return {make_layer<nn::Decoder>(
              rng, dtype, [&](const nn::Params& p) { return nn::make_decoder(p, config, how); }),
          std::nullopt};
}

bool is_quantized(const TensorSource& source) {
  for (const auto& [name, entry] : source.entries()) {
    if (entry.type != nullptr && entry.type->block > 1) return true;
  }
  return false;
}

DecoderLayer load(const std::filesystem::path& path, const std::optional<std::string>& weights,
                  const std::string& checkpoint, DType dtype) {
  const py::gil_scoped_release unlocked;
  run::OpenedModel opened = run::open_model(path, checkpoint);
  const bool packed = weights || is_quantized(*opened.weights);
  check(!packed || dtype == DType::f32, "[load] quantised weights are for texts in f32 alone");
  run::TextModel model = packed ? run::load_quantized(std::move(opened), weights.value_or("stored"))
                                : run::load(std::move(opened), dtype);
  return {{{std::move(model.params)}, std::move(model.gpt)}, std::move(model.tokenizer)};
}

const data::Tokenizer& tokenizer_of(const DecoderLayer& model) {
  check(model.tokenizer.has_value(),
        "this model has no tokenizer, which one of load() has: call it with ids");
  return *model.tokenizer;
}

// The options of a text: those of `tapegrad sample`, by its table.
struct TextOptions {
  nn::GenerateOptions generate{.max_new_tokens = 500, .temperature = 0.8, .top_k = 200};
  std::uint64_t seed = 1337;
  sampling::SamplingOptions choice{generate};

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    t("max_new_tokens", o.generate.max_new_tokens, "length in tokens", {.least = 0, .most = 1e9});
    t("seed", o.seed, "of the generator that the text draws from");
    t("greedy", o.generate.greedy, "always choose the likeliest token");
    sampling::SamplingOptions::describe(o.choice, t);
  }
};

// A text while it is made.
class Text {
 public:
  Text(const DecoderLayer& model, const std::string& prompt, TextOptions& options)
      : model_(model),
        engine_(model_.layer, {.max_sequences = 1, .cache = nn::usual_cache(model_.params)}),
        stream_(engine_, nn::source_of({prompt_of(prompt, options)})) {}

  // The next piece: whole characters. Empty behind the last one. Other threads run meanwhile, and
  // after each step signals are heard: one that raises ends the text.
  std::string next() {
    check(!busy_, "another thread waits for this text");
    while (!ended_) {
      const std::optional<nn::NewToken> token = next_token();
      ended_ = !token;
      if (PyErr_Occurred() != nullptr) throw py::error_already_set();
      const std::string piece = token
                                    ? characters_.push(model_.tokenizer->token_bytes(token->token))
                                    : characters_.flush();
      if (!piece.empty()) return piece;
    }
    return "";
  }

 private:
  nn::Prompt prompt_of(const std::string& prompt, TextOptions& options) const {
    const data::Tokenizer& tokenizer = tokenizer_of(model_);
    options.choice.read_lists("stop_token_ids", "logit_bias");
    sampling::settle_zeros(options.generate);
    sampling::add_ends(options.generate, tokenizer.ends());
    const auto hear_signals = [](std::span<const nn::NewToken>) {
      const py::gil_scoped_acquire locked;
      return PyErr_CheckSignals() == 0;
    };
    return {run::prompt_tokens(tokenizer, prompt), options.generate, options.seed, hear_signals};
  }
  std::optional<nn::NewToken> next_token() {
    struct Busy {
      bool& flag;
      explicit Busy(bool& at) : flag(at) { flag = true; }
      ~Busy() { flag = false; }
    } busy(busy_);
    const py::gil_scoped_release unlocked;
    return stream_.next();
  }

  DecoderLayer model_;  // handles on the same weights
  nn::Generation engine_;
  nn::TokenStream stream_;
  Utf8Stream characters_;
  bool busy_ = false, ended_ = false;
};

// `function` is named in errors.
std::unique_ptr<Text> text_of(const std::string& function, const DecoderLayer& model,
                              const std::string& prompt, const py::kwargs& given) {
  TextOptions options;
  take_options(function, options, given);
  return std::make_unique<Text>(model, prompt, options);
}

}  // namespace

DecoderClass bind_decoder(py::module_& m) {
  py::class_<Text>(m, "Text", "Pieces of a text, each made when it is asked for.")
      .def(
          "__iter__", [](Text& text) -> Text& { return text; }, py::return_value_policy::reference)
      .def("__next__", [](Text& text) {
        std::string piece = text.next();
        if (piece.empty()) throw py::stop_iteration();
        return piece;
      });
  DecoderClass c(m, "Decoder",
                 "GPT, Llama and their relatives. Made of options as config.json has them, with "
                 "first weights as train-gpt draws them, or without `gpt2_weights` as PyTorch "
                 "draws those of the same modules; or opened by load().");
  c.def(py::init(&make), py::keep_alive<1, 2>(), py::arg("rng"),
        py::arg_v("dtype", DType::f32, "f32"), py::kw_only(), py::arg("gpt2_weights") = true)
      .def_property_readonly("tokenizer", &tokenizer_of, "Error for a model that has none.")
      .def_property_readonly("config",
                             [](const DecoderLayer& model) { return dict_of(model.layer.config); });
  m.def("_text", &text_of);
  m.def("_prompt_tokens", &run::prompt_tokens);
  m.def("load", &load, py::arg("path"), py::arg("weights") = py::none(),
        py::arg("checkpoint") = std::string(run::kLast), py::arg_v("dtype", DType::f32, "f32"),
        "Opens a run folder, a folder in Hugging Face's layout, or a GGUF file. Weights become "
        "tensors, which may be trained, unless the file has quantised ones, or `weights` is "
        "'stored' or a type, as in `tapegrad sample`: then they are packed, for texts and losses "
        "alone, and no parameters.");
  return c;
}

}  // namespace tapegrad::python
