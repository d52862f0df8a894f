#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/autograd/formats/gguf.h"
#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/models/formats/export.h"

namespace tapegrad {
namespace {

struct Options {
  std::string model, checkpoint{run::kLast}, out, dtype;
  std::optional<std::string> adapter;
  bool overwrite = false;
  cli::ComputeOptions compute;

  bool writes_gguf() const { return out.ends_with(".gguf") || !dtype.empty(); }
};

std::vector<std::string> gguf_types() {
  std::vector<std::string> types;
  for (const StoredType* type : run::export_format("gguf").types) types.emplace_back(type->name);
  return types;
}

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(
      call.name,
      "Writes the model of a run with LoRA adapters as a model without: each weight W that has an\n"
      "adapter becomes W + (alpha / rank) B A. tapegrad sample, evaluate and train --init-from\n"
      "take such a folder, and merge by themselves the adapters of a run that they are given.");
  std::vector<std::string> words;
  cli.words(words, "MODEL", "the same as --model MODEL");
  cli.group("Model");
  cli("model", o.model, "the run folder, of tapegrad train --lora-rank; with --adapter, any model",
      {.value = "PATH"});
  cli("checkpoint", o.checkpoint, "weights to use: last, best, or a step that the run keeps",
      {.value = "last|best|STEP"});
  cli("adapter", o.adapter, "LoRA adapters of a file: a folder of PEFT's, or a GGUF",
      {.value = "PATH"});
  cli.group("Output");
  cli("out", o.out,
      "the folder of the new model, in f32; or a GGUF file: a name that ends in .gguf, or any with "
      "--dtype",
      {.value = "PATH"});
  cli.choice("dtype", o.dtype, gguf_types(),
             "type of the weights in a GGUF file; what rounding to it changes is printed [f32]");
  cli("overwrite", o.overwrite, "replace a GGUF file");
  cli.alias("-m", "--model");
  cli.alias("-o", "--out");
  cli.alias("--out-dir", "--out");
  cli.options(o.compute);
  cli.example("tapegrad merge runs/letters --out models/letters",
              "weights and tokenizer, without the optimiser's state");
  cli.example("tapegrad merge runs/letters --dtype q8_0 --out letters.gguf",
              "for llama.cpp and for here, and the rounding error");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  cli::take_model(o.model, words, "the run folder of a model");
  cli::refuse_words(words);
  if (o.out.empty())
    cli::usage_error("--out is needed: the folder of the new model, or a GGUF file");
  cli::use_compute(o.compute);
  return o;
}

// Σ of squares, by one thread, so that it does not depend on their number.
double square_sum(const Tensor& t) {
  double total = 0;
  for (const float x : t.values<float>()) total += static_cast<double>(x) * static_cast<double>(x);
  return total;
}

// The change by rounding to a type, against the weights themselves and against what adapters add.
class RoundingError {
 public:
  RoundingError(const run::OpenedModel& opened, const StoredType& type)
      : opened_(opened), type_(type) {}

  void add(const std::string& name, const Tensor& merged) {
    if (merged.rank() != 2) return;
    const StoredType& type = gguf_row_type(type_, merged.dim(1));
    Tensor rounded = Tensor::empty(merged.shape());
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(merged.numel() / type.block * type.block_bytes));
    type.from_f32(merged.data<float>(), merged.numel(), bytes.data());
    type.to_f32(bytes.data(), merged.numel(), rounded.mutable_data<float>());
    const double error = square_sum(rounded - merged), all = square_sum(merged);
    errors_ += error, weights_ += all;
    const double share = all > 0 ? std::sqrt(error / all) : 0;
    if (share > worst_) worst_ = share, worst_name_ = name;
    const std::string adapter = name.substr(0, name.rfind("weight"));
    if (!opened_.adapters->contains(adapter + "lora_B.weight")) return;
    const Tensor added = matmul(opened_.adapters->read(adapter + "lora_B.weight", DType::f32),
                                opened_.adapters->read(adapter + "lora_A.weight", DType::f32));
    const double scale = opened_.tuning.adapters().scale();
    adapted_errors_ += error, added_ += scale * scale * square_sum(added);
  }

  // Root mean squares.
  std::string text() const {
    return fmt::format("rounding to {} changes the weights by {:.3g} of their size{}{}", type_.name,
                       weights_ > 0 ? std::sqrt(errors_ / weights_) : 0,
                       worst_ > 0 ? fmt::format(" ({:.3g} in {})", worst_, worst_name_) : "",
                       added_ > 0
                           ? fmt::format(", and adapted ones by {:.3g} times what the adapters add",
                                         std::sqrt(adapted_errors_ / added_))
                           : "; the adapters add nothing");
  }

 private:
  const run::OpenedModel& opened_;
  const StoredType& type_;
  double errors_ = 0, weights_ = 0, adapted_errors_ = 0, added_ = 0, worst_ = 0;
  std::string worst_name_;
};

void merge_to_gguf(const Options& o, const run::OpenedModel& opened) {
  const run::ExportFormat& format = run::export_format("gguf");
  const StoredType& type = stored_type(o.dtype.empty() ? "f32" : o.dtype);
  run::check_export(format, o.out, type, o.overwrite);  // before the weights are read
  const run::TextModel model = run::load(opened);
  const run::Exported written = run::export_model(model, format, o.out, type, o.overwrite);
  RoundingError error(opened, type);
  for (const auto& [name, t] : model.params.tensors()) error.add(name, t);
  fmt::print("the model is in {}: {}\n", o.out, error.text());
  if (!written.other_types.empty()) fmt::print("{}\n", written.other_types);
  fmt::print("use: {}\n", written.use);
}

int merge(const Options& o) {
  run::OpenedModel opened = run::open_model(o.model, o.checkpoint);
  if (o.adapter) opened = run::with_adapter(std::move(opened), *o.adapter);
  check(opened.tuning.lora_rank.has_value(),
        "{}: the model has no adapters: there is nothing to merge", o.model);
  if (o.writes_gguf()) {
    merge_to_gguf(o, opened);
    return 0;
  }
  run::save_model(o.out, run::load(std::move(opened)));
  fmt::print("the model is in {}\nuse: {} {}\n", o.out, cli::program_path("tapegrad sample"),
             cli::quoted(o.out));
  return 0;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    return options ? merge(*options) : 0;
  });
}

const cli::Command kCommand("merge", cli::CommandGroup::train,
                            "merge LoRA adapters into the weights of a model", run);

}  // namespace
}  // namespace tapegrad
