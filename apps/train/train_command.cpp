#include "tapegrad/apps/train/train_command.h"

#include <utility>

#include "tapegrad/apps/cli/run_processes.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/cli/training/training_call.h"
#include "tapegrad/apps/sample/evaluate_text.h"
#include "tapegrad/apps/train/plan/facts.h"
#include "tapegrad/apps/train/plan/init_from.h"
#include "tapegrad/apps/train/plan/presets.h"
#include "tapegrad/apps/train/plan/print_plan.h"
#include "tapegrad/apps/train/text_notes.h"
#include "tapegrad/apps/train/train_program.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/models/chat_template_of.h"

namespace tapegrad::gpt {
namespace {

// --eval-only of conversations.
int print_chat_evaluation(const Options& stored, const run::TextModel& model, const run::Text& text,
                          const run::EvaluationLimit& limit) {
  const auto chat_template = run::chat_template_of(model.settings, model.tokenizer);
  check(chat_template.has_value(), "{}: its settings have no chat template any more",
        stored.call.folder.out_dir);
  const run::ChatData chat =
      run::chat_data_of(text, model.tokenizer,
                        {chat_template->with_special_in_messages(stored.text.special_in_messages),
                         stored.text.loss, stored.text.block_size},
                        stored.text.val_fraction.value_or(run::kValFraction), stored.random.seed);
  const auto result = sampling::evaluate_chat(model, chat,
                                              {.batch_size = stored.optimizer.batch_size,
                                               .block_size = stored.text.block_size,
                                               .limit = limit});
  if (result) fmt::print("validation split of {}: {}\n", text.identity.name, result->line());
  return interrupted() ? kInterruptedExitCode : 0;
}

// --eval-only.
int print_evaluation(const run::FolderOptions& folder, const std::string& final_eval) {
  if (folder.out_dir.empty()) cli::usage_error("--eval-only needs --out-dir: the folder of a run");
  const run::TextModel model = run::load(folder.out_dir);
  Options stored;
  const std::filesystem::path path = std::filesystem::path(folder.out_dir) / run::kConfigFile;
  run::read_options(path, run::read_config(path, run::kGPTFormat), stored);
  const run::Text text = run::text_of_run(folder.out_dir, run::kGPTFormat, stored.text.source());
  const auto limit = run::evaluation_limit(final_eval == "auto" ? "all" : final_eval, 1);
  if (!limit) cli::usage_error("--eval-only and --final-eval none leave nothing to do");
  if (stored.prefers()) {
    cli::usage_error(
        "--eval-only is for runs on texts or conversations. A run on --preferences prints loss and "
        "margins of its validation pairs at its end; tapegrad evaluate --chat tells how likely "
        "answers are");
  }
  if (text.chat) return print_chat_evaluation(stored, model, text, *limit);
  data::TokenSource val =
      text.tokens ? run::tokens_of(text, model.tokenizer, "")
                  : run::tokenize(text, model.tokenizer, stored.text.division(stored.random.seed),
                                  stored.text.block_size)
                        .val;
  if (stored.text.isolate_documents) val = run::isolated(val, model.tokenizer);
  const auto result = sampling::evaluate_text(model, val,
                                              {.batch_size = stored.optimizer.batch_size,
                                               .block_size = stored.text.block_size,
                                               .limit = *limit});
  if (result) fmt::print("validation split of {}: {}\n", text.identity.name, result->line());
  return interrupted() ? kInterruptedExitCode : 0;
}

void describe(cli::CommandLine& cli) {
  cli.common("What is learnt", {"--corpus", "--val", "--tokenizer", "--block-size", "--chat",
                                "--preferences", "--teacher"});
  cli.common("For how long, and where", {"--preset", "--max-minutes", "--max-iters", "--epochs",
                                         "--out-dir", "--serve", "--plan"});
  cli.common("The model", {"--arch", "--n-layer", "--n-head", "--n-embd", "--dropout", "--seed"});
  cli.common("A model that learns more", {"--init-from", "--lora-rank", "--weights"});
  cli.common("Steps", {"--batch-size", "--gradient-accumulation-steps", "--learning-rate",
                       "--schedule", "--optimizer", "--weight-decay", "--dtype", "--threads"});
  cli.common("Evaluation", {"--eval-interval", "--early-stop", "--keep", "--sample-interval"});
  cli.without_value("--recompute", std::string(name_of_enum(Recompute::on)));
  cli.example("tapegrad train", "two minutes on tiny shakespeare, then a sample");
  cli.example("tapegrad train notes/ --preset fast --max-minutes 10",
              "a model of your texts, of the size that ten minutes are good for");
  cli.example("tapegrad train notes/ --preset fast --for gguf --max-minutes 10",
              "the same of parts that llama.cpp has, for tapegrad export --format gguf");
  cli.example("tapegrad train --preset char-cpu", "nanoGPT's laptop recipe, on the same text");
  cli.example("tapegrad train --corpus notes/ --tokenizer bpe:2000 --out-dir runs/notes",
              "all text files below a folder, with 2,000 tokens learnt from them");
  cli.example("zcat wiki.jsonl.gz | tapegrad train -", "any text from another program");
  cli.example("tapegrad train --corpus stories.jsonl.zst --field story",
              "JSON lines, packed or not");
  cli.example(
      "tapegrad train tales.txt --separator '\\n\\n\\n' --tokenizer bpe:2000 --sample-interval 500",
      "documents with two empty lines between them, and a sample every 500 steps");
  cli.example("tapegrad train notes/ --val letters/", "validates with other texts");
  cli.example("tapegrad train --corpus notes/:3 letters/ --batches epochs",
              "mixes texts: each pass has the notes three times");
  cli.example("tapegrad train --data wiki-tokens/",
              "what tapegrad prepare has made of a large corpus");
  cli.example("tapegrad train --preset char --corpus notes/ --max-minutes 480",
              "a larger model, for as many steps as a night has time for");
  cli.example("tapegrad train --preset llama-char",
              "Llama's architecture, at the size of a laptop");
  cli.example("tapegrad train --preset gpt2-124m --block-size 1024 --summary",
              "GPT-2's layers, their parameters and FLOPs");
  cli.example("tapegrad train --preset gpt2-124m --batch-size 16 --plan",
              "whether that fits, and how long it would take");
  cli.example("tapegrad train --init-from resume --out-dir runs/notes --max-iters 4000",
              "goes on where that run stopped, up to 4,000 steps in all");
  cli.example("tapegrad train --init-from runs/notes letters/ --learning-rate 1e-4 --max-iters 500",
              "a new run on another text, which starts with the weights of that one");
  cli.example(
      "tapegrad train --init-from SmolLM2-135M/ --chat chats.jsonl extra.jsonl:2 --epochs 2",
      "learns to answer from conversations, those of the second file twice in each pass");
  cli.example(
      "tapegrad train --init-from runs/chats --preferences pairs.jsonl --lora-rank 8 --beta 0.1",
      "learns which of two answers is preferred (DPO); the reference is the model that it began "
      "with");
  cli.example("tapegrad train --preset llama-char --tokenizer big/ --teacher big/ --corpus notes/",
              "a small model learns from the probabilities of a larger one, too");
  cli.example("tapegrad train --init-from SmolLM2-135M.gguf letters/ --max-iters 100",
              "a model of another program learns more: GGUF, or a folder of Hugging Face's");
  cli.example("tapegrad train --init-from runs/notes letters/ --lora-rank 8 --learning-rate 1e-3",
              "the same with LoRA: trains small adapters beside the weights, which stay");
  cli.example(
      "tapegrad train --init-from TinyLlama-Q4_0.gguf letters/ --lora-rank 8 --weights stored "
      "--lora-target all",
      "adapters beside weights that stay as short as the file has them");
}

// --plan or the like, instead of training: the exit code.
std::optional<int> run_other_mode(const ParsedCall& call) {
  const CallExtras& extras = call.plan.extras;
  if (extras.eval_only) return print_evaluation(call.plan.call.folder, call.plan.epochs.final_eval);
  if (!extras.summary && !extras.plan) return std::nullopt;
  const Plan plan = resolve(call.arguments, with_vocabulary(call.facts, call.plan));
  if (plan.extras.plan) return print_plan(plan);
  fmt::print("{}", nn::summary(plan.model, plan.text.block_size).str());
  return 0;
}

run::LearntText read_text(const Plan& plan, const run::RunFolder& folder) {
  const run::FolderOptions& from = plan.call.folder;
  const std::optional<data::Tokenizer> tokenizer = given_tokenizer(from, plan.models);
  std::optional<data::ChatTemplate> chat_template;
  if (tokenizer && plan.is_chat) {
    chat_template =
        run::chat_template_of(given_settings(from, plan.models, plan.model.block_size), *tokenizer);
  }
  run::LearntText learnt = run::text_data_of(
      plan.text, {.folder = folder,
                  .format = run::kGPTFormat,
                  .own_text = default_text,
                  .tokenizer = tokenizer,
                  .tokenizer_of = folder.resumes() ? from.out_dir : from.init_from,
                  .chat_template = chat_template,
                  .seed = plan.random.seed});
  print_notes(plan.text, plan.random.seed, learnt);
  return learnt;
}

}  // namespace

const cli::TrainingProgram<Options, Facts, Plan>& training() {
  static const cli::TrainingProgram<Options, Facts, Plan> program{
      .summary = "Trains a GPT on text and keeps it in a run folder.",
      .format = run::kGPTFormat,
      .presets = presets(),
      .describe = describe,
      .check_arguments = check_arguments,
      .facts_of = facts_of,
      .resolve = resolve,
      .check_patterns = check_patterns,
      .product = product_of};
  return program;
}

int train_with(const cli::Call& call, Processes& processes,
               const std::function<void(run::RunFolder&)>& opened) {
  const std::optional<const ParsedCall> parsed = cli::parse(training(), call, processes);
  if (!parsed) return 0;
  const auto other = cli::code_of_rank_0(processes, [&] { return run_other_mode(*parsed); });
  if (other) return *other;
  cli::TrainingCall here(call, processes, parsed->arguments.given, parsed->plan);
  if (opened) opened(here.folder());
  run::LearntText learnt = read_text(parsed->plan, here.folder());
  const Plan plan = resolve(parsed->arguments, with_text(parsed->facts, parsed->plan, learnt.data,
                                                         here.folder().processes()));
  Program program(plan, here.folder(), std::move(learnt.text), std::move(learnt.data));
  return here.train(program.task(), plan.optimizer, plan.evaluation, plan.most_iters);
}

int train(const cli::Call& call) {
  ignore_closed_pipes();
  return cli::run_processes(call.name,
                            [&](Processes& processes) { return train_with(call, processes); });
}

}  // namespace tapegrad::gpt
