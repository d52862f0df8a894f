#include "tapegrad/apps/train/init_from.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "tapegrad/apps/cli/option_text.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/decoder_names.h"
#include "tapegrad/run/corpus/chat/add_chatml.h"
#include "tapegrad/run/folder/kept_models.h"
#include "tapegrad/run/folder/run_checkpoint.h"
#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/models/adapters/adapter.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/models/tensor_views.h"

namespace tapegrad::gpt {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostTokens = 1024;  // of a training sequence, unless --block-size asks
// Options that weights do not depend on.
constexpr std::string_view kFree[] = {"dropout", "ff_dropout", "attn_out_dropout"};

// Sets each member of a model's config to that of the start, or checks that they agree.
class ConfigFromCheckpoint : public OptionTable {
 public:
  ConfigFromCheckpoint(const nn::DecoderConfig& start, const std::string& folder,
                       const cli::CommandLine& cli)
      : start_(run::section_of("model", start)),
        settled_(start_.settled(start_)),
        folder_(folder),
        cli_(cli) {}

 private:
  void visit(std::string_view name, const Member& member, std::string_view,
             const Rule& rule) override {
    const std::string option = cli::option_name(name);
    if (rule.option && cli_.given(option)) {
      if (std::count(std::begin(kFree), std::end(kFree), name) > 0) return;
      const std::string now = run::value_text(member.value());
      const std::string before = run::value_text(*settled_.find(name));
      if (now != before) {
        cli::usage_error("{} {} does not fit the model in {}, which has {}", option, now, folder_,
                         before);
      }
    }
    run::set_member(name, member, *start_.find(name));
  }

  const run::Section start_, settled_;
  const std::string& folder_;
  const cli::CommandLine& cli_;
};

// The tokenizer.json at a path, which may name the file or the folder that has it.
fs::path tokenizer_file(const fs::path& path) {
  std::error_code ignored;
  const fs::path inner = path / run::kTokenizerFile;
  return fs::exists(inner, ignored) ? inner : path;
}

// True if two values of --tokenizer are one tokenizer, by whatever path.
bool same_tokenizer(const std::string& a, const std::string& b) {
  if (a == b) return true;
  std::error_code ignored;  // of a path where nothing is
  return data::is_path_of_tokenizer(a) && data::is_path_of_tokenizer(b) &&
         fs::equivalent(tokenizer_file(a), tokenizer_file(b), ignored);
}

// " such as DIR" if the file is the config.json of a run that started from DIR.
std::string start_of_config(const std::string& path) {
  run::TuningOptions tuning;
  try {
    run::read_section(path, run::read_config(path, run::kGPTFormat), run::kTuningSection, tuning);
  } catch (const Error&) {  // another kind of config file
  }
  if (tuning.started_from.empty()) return "";
  return fmt::format(", such as {}, which the run of that file started from", tuning.started_from);
}

void refuse_without_start(const cli::CommandLine& cli) {
  for (const std::string option : {"--checkpoint", "--lora-rank", "--weights", "--adapter"}) {
    if (!cli.given(option)) continue;
    const std::string file = cli.file_of(option);
    if (file.empty()) {
      cli::usage_error("{} needs --init-from PATH: a run folder, or a model of another program",
                       option);
    }
    cli::usage_error(
        "--config {}: its {} needs --init-from PATH: a run folder, or a model of another program{}",
        file, option.substr(2), start_of_config(file));
  }
}

void check_folders(const run::FolderOptions& o) {
  std::error_code ignored;
  if (!fs::exists(o.init_from, ignored)) {
    if (o.init_from.starts_with("gpt2")) {  // a name of nanoGPT's, which downloads
      cli::usage_error(
          "--init-from {0}: nothing is downloaded here. Get OpenAI's weights as a folder, with "
          "config.json, model.safetensors and tokenizer.json, from "
          "https://huggingface.co/openai-community/{0}, and give it: --init-from PATH",
          o.init_from);
    }
    cli::usage_error(
        "--init-from: there is no {}: it must be scratch, resume, a run folder, or a model of "
        "another program",
        o.init_from);
  }
  if (!o.out_dir.empty() && fs::equivalent(o.init_from, o.out_dir, ignored)) {
    cli::usage_error(
        "--init-from and --out-dir are both {}: a new run needs a folder of its own (--init-from "
        "resume goes on with the run there)",
        o.out_dir);
  }
}

// Of a model without a chat template.
void take_chatml(const Options& o, run::OpenedModel& opened) {
  if (run::add_chatml(opened) == 0 || !o.tuning.lora_rank) return;
  cli::usage_error(
      "--lora-rank: the model in {} has no chat template and no tokens <|im_start|> and "
      "<|im_end|>. "
      "Their embeddings must be learnt: train it without --lora-rank first",
      o.call.folder.init_from);
}

// The length of the sequences to train on. The model goes on seeing what it saw, but for learned
// positions: steps would change the weights of those that no sequence reaches, so these are cut.
void take_length(Options& o, const cli::CommandLine& cli) {
  const std::int64_t own = o.start->config.block_size;
  const bool learned = o.model.position_kind() == nn::Positions::learned;
  std::int64_t& length = o.text.block_size;
  if (!cli.given("--block-size")) {
    length = learned ? own : o.start->training_length.value_or(std::min(own, kMostTokens));
  }
  if (learned && length > own) {
    cli::usage_error(
        "--block-size {} is more than the {} positions of the model in {}: it has learnt no "
        "weights for the others",
        length, own, o.call.folder.init_from);
  }
  o.model.block_size = learned ? length : std::max(own, length);
}

// The adapters of --adapter, which say what they are.
void take_adapters(Options& o, const cli::CommandLine& cli) {
  if (!o.tuning.adapter) return;
  o.tuning.adapter = absolute_path(*o.tuning.adapter).lexically_normal().string();
  run::Adapter adapter = run::open_adapter(*o.tuning.adapter, o.model);
  for (const char* option : {"--lora-rank", "--lora-alpha", "--lora-target", "--lora-scaling"}) {
    if (cli.given(option) && cli.file_of(option).empty()) {
      cli::usage_error("{} and --adapter exclude each other: the file says what its adapters are",
                       option);
    }
  }
  o.tuning.take(adapter.options);
  o.first_adapters = std::move(adapter.tensors);
}

}  // namespace

std::optional<data::Tokenizer> given_tokenizer(const Options& o) {
  if (o.start) return o.start->tokenizer;
  if (o.call.folder.resumes()) return run::open_model(o.call.folder.out_dir).tokenizer;
  return std::nullopt;
}

run::ModelSettings given_settings(const Options& o) {
  if (o.call.folder.resumes()) return run::load_settings(o.call.folder.out_dir);
  if (!o.start) return {};
  const bool is_cut = o.model.block_size < o.start->config.block_size;
  return is_cut ? run::cut_settings(o.start->settings, o.model.block_size) : o.start->settings;
}

Options with_initial_model(const Options& given, const cli::CommandLine& cli) {
  Options o = given;
  const run::FolderOptions& folder = o.call.folder;
  if (!o.tuning.lora_rank && !o.tuning.adapter) {
    for (const char* option : {"--lora-alpha", "--lora-target", "--weights"}) {
      if (cli.given(option)) cli::usage_error("{} needs --lora-rank", option);
    }
  }
  if (!folder.starts_from_model()) {
    if (!folder.resumes()) refuse_without_start(cli);
    return o;
  }
  check_folders(folder);
  o.tuning.checkpoint = folder.checkpoint.value_or(run::best_or_last(folder.init_from));
  auto opened =
      std::make_shared<run::OpenedModel>(run::open_model(folder.init_from, *o.tuning.checkpoint));
  if (o.text.learns_chat()) take_chatml(o, *opened);
  o.start = opened;
  const run::OpenedModel& start = *o.start;
  const std::string tokenizer = run::tokenizer_spec(start.tokenizer, folder.init_from);
  if (cli.given("--tokenizer") && !same_tokenizer(o.text.tokenizer, tokenizer)) {
    cli::usage_error("--tokenizer {} does not fit the model in {}, whose tokenizer is {}",
                     o.text.tokenizer, folder.init_from, tokenizer);
  }
  o.text.tokenizer = tokenizer;
  ConfigFromCheckpoint from_checkpoint(start.config, folder.init_from, cli);
  OptionSchema(o.model).describe(from_checkpoint);
  take_length(o, cli);
  o.tuning.started_from = absolute_path(folder.init_from).lexically_normal().string();
  take_adapters(o, cli);
  return o;
}

void check_patterns(const Options& o) {
  const optim::GroupRules rules = o.optimizer.rules();
  if (!o.tuning.lora_rank && o.tuning.freeze.empty() && rules.plain()) return;
  const DryRun dry;
  const nn::Params params = nn::Params::shapes_only();
  try {
    nn::make_decoder(params, o.model, o.tuning.build_options(false));
  } catch (const Error& error) {
    fail("{}: {}{}", o.tuning.lora_rank ? "--lora-target" : "--freeze", error.what(),
         o.model.tied
             ? fmt::format(" (the head is {}.weight, too)", nn::decoder_names(o.model).tokens)
             : "");
  }
  optim::make_groups(params.parameters(), rules);
}

namespace {

std::shared_ptr<const TensorSource> initial_source(const Options& o) {
  const auto weights = run::first_positions(o.start->weights, o.model);
  return o.first_adapters ? run::joined(weights, o.first_adapters) : weights;
}

}  // namespace

nn::Params initial_params(const Options& o) {
  return nn::Params(initial_source(o), DType::f32, o.optimizer.precision());
}

nn::Params quantized_params(const Options& o, FirstAdapters adapters,
                            const run::RunFolder* folder) {
  const auto source = [&]() -> std::shared_ptr<const TensorSource> {
    const bool given = adapters == FirstAdapters::given;
    if (o.start) return given ? initial_source(o) : run::first_positions(o.start->weights, o.model);
    const run::OpenedModel own = run::open_model(o.call.folder.out_dir);
    return given && folder != nullptr ? run::with_base(own, folder->weights())
                                      : run::first_positions(own.base, o.model);
  };
  nn::Params params(source(), DType::f32, o.optimizer.precision());
  params.quantize(run::quantized_type(*o.tuning.weights), /*exact=*/true);
  return params;
}

run::OpenedModel opened_start(const Options& o) {
  run::OpenedModel opened =
      run::open_model(o.tuning.started_from, o.tuning.checkpoint.value_or(std::string(run::kLast)));
  run::add_chatml(opened);
  return opened;
}

std::optional<std::string> fingerprint_of_base(const Options& o) {
  if (o.start) run::check_base(*o.start);
  if (!o.tuning.weights && !o.copies_start()) return std::nullopt;
  if (o.start) return run::fingerprint_of(*o.start->weights);
  if (!o.call.folder.resumes()) return std::nullopt;
  if (o.tuning.weights) {
    run::check_base(run::open_model(o.call.folder.out_dir));
    return std::nullopt;
  }
  const std::string now = run::fingerprint_of(*opened_start(o).weights);
  check(now == o.tuning.base,
        "{}: this run is compared with {}, whose weights have changed since the run began "
        "(fingerprint {}, now {}): put that model back as it was",
        o.call.folder.out_dir, o.tuning.started_from, o.tuning.base, now);
  return now;
}

void check_initial_params(const Options& o, const nn::Params& params) {
  run::check_finite_tensors(o.start->weights->name(), params.tensors());
}

namespace {

// "/models/tiny.gguf stays where it is: q8_0 and f32, 1,234 MB in memory"
std::string about_base(const Options& o, const nn::Params& params) {
  std::vector<std::string_view> types;
  double bytes = 0;
  for (const auto& [name, matrix] : params.quantized_matrices()) {
    const std::string_view type = matrix->type().name;
    if (std::count(types.begin(), types.end(), type) == 0) types.push_back(type);
    bytes += static_cast<double>(matrix->bytes());
  }
  return fmt::format("{} stays where it is: {}, {:.0f} MB in memory", o.tuning.started_from,
                     fmt::join(types, " and "), bytes / 1e6);
}

}  // namespace

std::vector<run::HeaderLine> about_tuning(const Options& o, const nn::Params& params) {
  std::vector<run::HeaderLine> lines;
  if (o.call.folder.starts_from_model()) {
    const std::string& start = o.call.folder.init_from;
    const bool is_run = path_exists(fs::path(start) / run::kTrainerFile);
    lines.push_back(
        {"start",
         is_run ? fmt::format("{}, its checkpoint {}", start, *o.tuning.checkpoint) : start});
    if (const std::int64_t own = o.start->config.block_size; o.model.block_size < own) {
      lines.push_back(
          {"cut", fmt::format("the model keeps the first {} of its {} learned positions",
                              grouped(o.model.block_size), grouped(own))});
    }
  }
  if (!o.tuning.lora_rank && o.tuning.freeze.empty()) return lines;
  const nn::LoraOptions lora = o.tuning.adapters();
  if (o.tuning.weights) lines.push_back({"base", about_base(o, params)});
  const std::string what = lora.rank > 0
                               ? fmt::format("LoRA of rank {} and alpha {:g} at {}", lora.rank,
                                             lora.alpha, fmt::join(lora.targets, ", "))
                               : fmt::format("all but {}", fmt::join(o.tuning.frozen(), ", "));
  lines.push_back({"trained", fmt::format("{} of {} parameters: {}", grouped(params.count()),
                                          grouped(params.total_count()), what)});
  return lines;
}

}  // namespace tapegrad::gpt
