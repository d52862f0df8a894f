#include "tapegrad/apps/train/plan/opened_models.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include "tapegrad/base/file.h"
#include "tapegrad/run/corpus/chat/add_chatml.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/folder/config.h"
#include "tapegrad/run/folder/file_names.h"
#include "tapegrad/run/folder/kept_models.h"

namespace tapegrad::gpt {
namespace {

namespace fs = std::filesystem;

std::string absolute(const std::string& path) {
  return absolute_path(path).lexically_normal().string();
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

void refuse_without_start(const cli::GivenOptions& given) {
  for (const std::string option : {"--checkpoint", "--lora-rank", "--weights", "--adapter"}) {
    if (!given.has(option)) continue;
    const std::string file = given.file_of(option);
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
void take_chatml(run::OpenedModel& opened, bool adapters, const std::string& path) {
  if (run::add_chatml(opened) == 0 || !adapters) return;
  cli::usage_error(
      "--lora-rank: the model in {} has no chat template and no tokens <|im_start|> and "
      "<|im_end|>. "
      "Their embeddings must be learnt: train it without --lora-rank first",
      path);
}

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

void open_start(OpenedModels& models, const Arguments& arguments, bool chat) {
  const run::FolderOptions& folder = arguments.options.call.folder;
  const run::TuningOptions& tuning = arguments.options.tuning;
  check_folders(folder);
  models.checkpoint = folder.checkpoint.value_or(run::best_or_last(folder.init_from));
  auto opened =
      std::make_shared<run::OpenedModel>(run::open_model(folder.init_from, models.checkpoint));
  if (chat) take_chatml(*opened, tuning.lora_rank.has_value(), folder.init_from);
  models.start = opened;
  models.start_path = absolute(folder.init_from);
  models.tokenizer = run::tokenizer_spec(opened->tokenizer, folder.init_from);
  const std::string& asked = arguments.options.text.tokenizer;
  if (arguments.given.has("--tokenizer") && !same_tokenizer(asked, models.tokenizer)) {
    cli::usage_error("--tokenizer {} does not fit the model in {}, whose tokenizer is {}", asked,
                     folder.init_from, models.tokenizer);
  }
  if (!tuning.adapter) return;
  models.adapter_path = absolute(*tuning.adapter);
  models.adapter = run::open_adapter(models.adapter_path, opened->config);
}

void open_teacher(OpenedModels& models, const run::FolderOptions& folder,
                  const run::TeacherOptions& options) {
  const std::string& teacher = options.teacher;
  const bool had_one = !options.base.empty();
  if (folder.resumes() && had_one == teacher.empty()) {
    cli::usage_error(
        "--teacher: by {}/config.json, the run to resume {} from its beginning; begin a new one",
        folder.out_dir, had_one ? "has learnt from a teacher" : "has had none");
  }
  if (teacher.empty()) return;
  std::error_code ignored;
  if (!folder.out_dir.empty() && fs::equivalent(teacher, folder.out_dir, ignored)) {
    cli::usage_error("--teacher and --out-dir are both {}: a run needs a folder of its own",
                     folder.out_dir);
  }
  models.teacher_path = absolute(teacher);
  models.teacher = std::make_shared<run::OpenedModel>(run::open_model(models.teacher_path));
}

}  // namespace

OpenedModels open_models(const Arguments& arguments, bool is_chat) {
  const Options& o = arguments.options;
  const cli::GivenOptions& given = arguments.given;
  OpenedModels models;
  if (!o.tuning.lora_rank && !o.tuning.adapter) {
    for (const char* option : {"--lora-alpha", "--lora-target", "--weights"}) {
      if (given.has(option)) cli::usage_error("{} needs --lora-rank", option);
    }
  }
  if (o.call.folder.starts_from_model()) {
    open_start(models, arguments, is_chat);
  } else if (!o.call.folder.resumes()) {
    refuse_without_start(given);
  }
  open_teacher(models, o.call.folder, o.teaching);
  return models;
}

}  // namespace tapegrad::gpt
