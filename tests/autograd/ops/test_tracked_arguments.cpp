// Every public function that takes a tensor, and every member that makes a tensor of one, as the
// headers have them: a gradient flows through, or an Error says that it does not, or the function
// is listed here as one without gradients. So no gradient ends in silence, and nobody adds a
// function without deciding what becomes of gradients.

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "tapegrad/tests/autograd/ops/tracked_calls.h"
#include "tapegrad/tests/autograd/support.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/sources.h"

using namespace tapegrad;
using namespace tapegrad::testing;

namespace {

using Arguments = std::map<std::string, Names>;  // of functions

// Arguments of integers and truth values, which have no gradients.
const Names kIntegers = {"ids",
                         "targets",
                         "index",
                         "ends",
                         "mask",
                         "condition",
                         "key_padding_mask",
                         "padding",
                         "document_starts",
                         "EmbeddingBagOptions.offsets",
                         "ScoreOptions.document_starts",
                         "RopeOptions.document_starts",
                         "AttentionOptions.key_padding_mask"};

// Functions through which no gradient is to flow: by header, with the reason.
const std::map<std::string, Names> kWithoutGradients = {
    // The engine itself, and what is not an op.
    {"autograd/apply.h", {"keep", "apply_many"}},
    {"autograd/check/gradcheck.h", {"check_function"}},
    {"autograd/kernels/elementwise.h", {"map", "zip", "add_in_place"}},  // for forwards
    {"autograd/onnx/export_onnx.h", {"export_onnx"}},                    // on a tape of its own
    {"autograd/onnx/onnx_call.h", {"value"}},
    {"autograd/profile.h", {"touches", "made"}},
    {"autograd/tape.h", {"watch", "tracks", "backward", "gradient", "BackwardOptions.seeds"}},
    {"autograd/tensor/tracked.h", {"is_tracked", "check_untracked"}},
    {"autograd/tensor/tensor.h",
     {"allclose", "set_grad", "Weak", "Tensor::detach", "Tensor::with_id", "Tensor::grad",
      "Tensor::lock"}},
    {"autograd/weight.h", {"Weight", "operator="}},  // the same tensor
    // Comparisons, and where an element is.
    {"autograd/ops.h",
     {"eq", "ne", "lt", "le", "gt", "ge", "operator<", "operator<=", "operator>", "operator>=",
      "logical_and", "logical_or", "logical_not", "allclose", "argmax", "scalar_like"}},
    {"autograd/ops/movement_ops.h", {"nonzero"}},
    // Elements as text, bytes, other libraries' matrices, and files.
    {"autograd/kernels/cached_page.h", {"load"}},
    {"autograd/tensor/eigen.h",
     {"check_map", "matrix_map", "mutable_matrix_map", "vector_map", "mutable_vector_map"}},
    {"autograd/tensor/print.h", {"to_string", "operator<<", "format"}},
    {"autograd/formats/safetensors.h", {"save_safetensors"}},
    {"autograd/tensor/stored_tensor.h", {"StoredTensor", "same_bytes", "bytes_of"}},
    {"autograd/quantized/quantized_matrix.h", {"fill"}},  // after QuantizedMatrix has checked it
    {"arrays/array_loader.h", {"rows_of"}},
    {"arrays/image_transforms.h",
     {"random_crop", "random_horizontal_flip", "random_vertical_flip", "random_rotation", "cutout",
      "normalize_channels"}},
    {"arrays/npy.h", {"save_npy", "save_npz"}},
    {"run/folder/run_checkpoint.h", {"check_finite_tensors", "check_finite_weights"}},
    {"run/folder/kept_models.h", {"keep_model"}},
    // Generation, which runs in a TapePause, and refuses a tape in CachedPage::store.
    {"nn/generation/beam.h", {"translate", "DecoderState", "step"}},
    {"nn/generation/generation.h", {"score_prompt", "prefill_apart", "read_together"}},
    {"nn/generation/kv_cache.h",
     {"append", "append_as", "append_states", "next_place", "page_for", "append_tokens",
      "append_newest"}},
    {"nn/generation/recurrent_states.h", {"advance"}},
    // Layers, models and losses, which are made of ops.
    {"nn/layers/block.h", {"entry", "mixed", "sublayers", "attention_weights"}},
    {"nn/layers/short_conv.h", {"gated"}},
    {"nn/layers/gated_delta_net.h", {"mix", "output"}},
    {"nn/layers/mamba2.h", {"mix", "output", "projected", "with_skip"}},
    {"nn/layers/experts.h", {"routes_of", "of_experts", "with"}},
    {"nn/layers/torch_attention.h", {"weights", "part", "scores_of"}},
    {"nn/lora/row_adapters.h", {"with_chosen"}},
    {"nn/losses/target_log_probs.h", {"target_log_probs"}},
    {"nn/decoder.h",
     {"TokenRows", "attention_weights", "residual_stream", "hidden", "head", "loss", "loss_of",
      "last_logits", "states", "logits_of", "input_gradient", "normed", "normed_embedding",
      "run_blocks", "last_position"}},
    {"nn/layers.h",
     {"Linear", "logits_of", "with_adapters", "outputs_of", "activate", "activate_gated",
      "maybe_dropout"}},
    {"nn/multi_head_attention.h",
     {"weights", "scores", "moved_keys", "cache_keys_values", "cross_attend", "gated", "project",
      "turned"}},
    {"nn/layers/ngram_embedding.h", {"rows_for"}},
    {"nn/transformer.h",
     {"step", "sublayers", "embed", "encode", "hidden", "loss", "likeliest", "last_logits"}},
    {"run/train/preferences.h", {"margins_of"}},
    {"run/train/objective.h", {"Loss"}},
    // Parameters: their initial values, their gradients, and what optimisers keep.
    {"nn/init.h", {"refill"}},
    {"nn/params.h", {"redraw", "quantized_weight"}},
    {"nn/layers/module_summary.h", {"module_summary"}},
    {"nn/measure.h", {"measure_blocks"}},
    {"optim/clip.h",
     {"grad_norm", "square_sums", "measure_clipping", "clip_grad_norm", "clip_grad_value"}},
    {"optim/ema.h", {"EMA"}},
    {"optim/parameter_groups.h", {"make_groups", "bytes_kept", "units_of", "blocks_of"}},
    {"optim/gradient_sync.h", {"save", "make_gradient_sync", "agreed"}},
    {"optim/lbfgs/lbfgs.h", {"LBFGS", "inner", "learn", "place", "set_direction"}},
    {"optim/optimizer_state.h", {"OptimizerState"}},
    {"optim/optimizers/adagrad.h", {"Adagrad"}},
    {"optim/optimizers/adam.h", {"Adam"}},
    {"optim/optimizers/adamw.h", {"AdamW"}},
    {"optim/optimizers/lion.h", {"Lion"}},
    {"optim/optimizers/muon.h", {"Muon"}},
    {"optim/optimizers/nadam.h", {"NAdam"}},
    {"optim/optimizers/rmsprop.h", {"RMSprop"}},
    {"optim/optimizers/sgd.h", {"SGD"}},
    {"optim/optimizers/soap.h", {"SOAP"}},
    {"run/record/layer_stats.h", {"LayerStats"}},
    // Evaluation.
    {"run/train/evaluation/compare_models.h", {"add", "add_rows"}},
};

std::string read(const std::string& header) {
  const std::string folder = header.substr(0, header.find('/'));
  static std::map<std::string, std::map<std::string, std::string>> folders;
  if (folders.count(folder) == 0) folders[folder] = read_sources({folder});
  return folders[folder].at(header);
}

std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    found.push_back((*it)[1]);
  }
  return found;
}

// The names of parameters that are tensors.
std::vector<std::string> tensors_among(const std::string& parameters) {
  static const std::regex pattern(
      "(?:(?:Tensor|Weight|StoredTensor|NamedTensors)&{0,2}|Inputs|"
      "(?:vector|span)<(?:const )?Tensor>&?) (\\w+)");
  return matches(parameters, pattern);
}

// The name before the parenthesis at `open`: "operator+=" or an identifier; empty after a "<",
// where it is the type of a function.
std::string name_before(const std::string& text, std::size_t open) {
  std::size_t begin = open;
  while (begin > 0 && std::string_view("+-*/<>=[]").find(text[begin - 1]) != std::string::npos)
    --begin;
  const std::size_t symbol = begin;
  while (begin > 0 && (std::isalnum(text[begin - 1]) != 0 || text[begin - 1] == '_')) --begin;
  if (begin > 0 && text[begin - 1] == '<') return "";
  if (symbol != open && text.compare(begin, symbol - begin, "operator") != 0) return "";
  return text.substr(begin, open - begin);
}

Arguments functions_in(const std::string& text) {
  Arguments found;
  for (std::size_t open = text.find('('); open != std::string::npos;
       open = text.find('(', open + 1)) {
    std::size_t close = open + 1;
    for (int depth = 1; depth > 0 && close < text.size(); ++close) {
      depth += text[close] == '(' ? 1 : text[close] == ')' ? -1 : 0;
    }
    const std::string parameters = text.substr(open + 1, close - open - 2);
    const std::string name = name_before(text, open);
    const bool is_call =
        parameters.find("](") != std::string::npos;               // of a function, with a lambda
    if (is_call || name.empty() || name == "operator") continue;  // operator()(…) of layers
    for (const std::string& tensor : tensors_among(parameters)) found[name].insert(tensor);
  }
  return found;
}

// "SomeOptions.field" for the tensors in structs of options.
Names options_in(const std::string& text) {
  static const std::regex field("Tensor>? (\\w+) = \\{\\};");
  static const std::regex name("struct (\\w+Options) \\{");
  Names found;
  for (const std::string& options : matches(text, name)) {
    const std::size_t begin = text.find("struct " + options + " {");
    for (const std::string& tensor :
         matches(text.substr(begin, text.find("\n};", begin) - begin), field)) {
      found.insert(options + "." + tensor);
    }
  }
  return found;
}

// "Tensor::clone" for the public members that make a tensor of this one.
Arguments members_of_tensor() {
  const std::string text = read("autograd/tensor/tensor.h");
  static const std::regex member("\n +Tensor (\\w+|operator\\[\\])\\([^)]*\\) const");
  Arguments found;
  for (const std::string& name : matches(text.substr(0, text.find("struct Storage {")), member)) {
    found["Tensor::" + name].insert("*this");
  }
  return found;
}

bool is_listed(const std::string& header, const std::string& function) {
  const auto listed = kWithoutGradients.find(header);
  return listed != kWithoutGradients.end() && listed->second.count(function) != 0;
}

bool is_called(const std::vector<TrackedCall>& calls, const std::string& function,
               const std::string& argument) {
  return std::any_of(calls.begin(), calls.end(), [&](const TrackedCall& call) {
    return (function.empty() || call.function == function) &&
           std::count(call.arguments.begin(), call.arguments.end(), argument) != 0;
  });
}

// How a call takes argument `tracked`, which a tape tracks: "recorded", "silent", or an error's
// text.
std::string taken(const TrackedCall& call, std::size_t tracked) {
  Rng rng(1);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const Shape& shape = call.shapes.size() == 1 ? call.shapes[0] : call.shapes.at(i);
    inputs.push_back(Tensor::uniform(shape, rng, 0.1, 0.9));
  }
  const Tape tape;
  inputs[tracked].set_requires_grad();
  try {
    const Tensor result = call.run(inputs);
    return result.defined() && tape.tracks(result) ? "recorded" : "silent";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("of each tensor that a public function takes, gradients are recorded, refused, or none",
          "[tracked_arguments]") {
  const std::vector<TrackedCall> calls = tracked_calls();
  std::ifstream list(tapegrad::places::kPublicHeaders);
  int decided = 0;
  std::map<std::string, Names> seen;
  for (std::string line; std::getline(list, line);) {
    if (line.empty()) continue;
    const std::string header = source_path(line), text = read(header);
    Arguments functions = functions_in(text);
    if (header == "autograd/tensor/tensor.h") functions.merge(members_of_tensor());
    for (const auto& [function, arguments] : functions) {
      for (const std::string& argument : arguments) {
        ++decided;
        seen[header].insert(function);
        if (kIntegers.count(argument) != 0 || is_listed(header, function) ||
            is_called(calls, function, argument)) {
          continue;
        }
        FAIL_CHECK(
            header << ": " << function << "(" << argument
                   << ") needs a line in tracked_calls.h, or here if no gradient is to flow");
      }
    }
    for (const std::string& option : options_in(text)) {
      seen[header].insert(option);
      if (kIntegers.count(option) != 0 || is_listed(header, option) ||
          is_called(calls, "", option)) {
        continue;
      }
      FAIL_CHECK(header << ": " << option << " needs to be in a line of tracked_calls.h");
    }
  }
  CHECK(decided > 300);
  for (const auto& [header, functions] : kWithoutGradients) {
    for (const std::string& function : functions) {
      INFO(header << " has no function " << function << " any more");
      CHECK(seen[header].count(function) == 1);
    }
  }
}

TEST_CASE(
    "a tracked argument reaches the result or is an error that names the function and a remedy",
    "[tracked_arguments]") {
  for (const TrackedCall& call : tracked_calls()) {
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
      INFO(call.function << "(" << call.arguments[i] << ")");
      const std::string how = taken(call, i);
      const bool refused =
          std::count(call.refused.begin(), call.refused.end(), call.arguments[i]) != 0;
      if (!refused) {
        CHECK(how == "recorded");
        continue;
      }
      CHECK(how.starts_with("["));
      CHECK_THAT(how, ContainsSubstring("tape"));
    }
  }
}

TEST_CASE("arguments without gradients name themselves and detach() where a tape tracks them",
          "[tracked_arguments]") {
  const std::map<std::string, std::string> texts = {
      {"nll_loss", "[nll_loss] weight of shape (4)"},
      {"batch_norm_with", "[batch_norm_with] mean of shape (2)"},
      {"hinge_embedding_loss", "[hinge_embedding_loss] target of shape (3, 4)"},
      {"cosine_embedding_loss", "[cosine_embedding_loss] target of shape (3)"},
      {"QuantizedMatrix", "[QuantizedMatrix] from of shape (4, 4)"},
      {"store", "[CachedPage::store] keys of shape (3, 4)"}};
  for (const TrackedCall& call : tracked_calls()) {
    const auto text = texts.find(call.function);
    if (text == texts.end()) continue;
    const auto first = std::find(call.arguments.begin(), call.arguments.end(), call.refused.at(0));
    CHECK(taken(call, static_cast<std::size_t>(first - call.arguments.begin())) ==
          text->second + " gets no gradient here, but a live tape tracks it: pass its detach()");
  }
}
