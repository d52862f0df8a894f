#include "tapegrad/apps/cli/training/training_call.h"

#include <cstdio>
#include <filesystem>
#include <span>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/events/tensorboard_writer.h"
#include "tapegrad/apps/watch/report/report_html.h"
#include "tapegrad/apps/watch/run_files.h"
#include "tapegrad/apps/watch/server.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/run/corpus/mixture.h"

namespace tapegrad::cli {
namespace {

// All files and folders that a run learns from or is validated with.
std::vector<run::NamedText> named(const TrainingCall::Texts& texts) {
  std::vector<run::NamedText> all;
  for (const auto& [option, paths] : texts) {
    for (const std::string& path : *paths) all.push_back({option, run::weighted_file(path).path});
  }
  return all;
}

// The run is saved already: an error is printed; the program still succeeds.
void write_report(const std::filesystem::path& folder) {
  try {
    watch::write_report(folder);
  } catch (const std::exception& error) {
    print_error(fmt::format("note: no report: {}\n", error.what()));
  }
}

// For failed runs: the original error is reported. Where the run has not even
// a config.json, a report would be a file of nobody's.
void write_report_of_failure(const std::filesystem::path& folder) {
  if (!watch::is_run_folder(folder)) return;
  try {
    watch::write_report(folder);
  } catch (const std::exception&) {  // whatever has ended the run may hinder its report, too
  }
}

// The page of --serve. Nothing if there is none, and on ranks other than 0.
std::unique_ptr<watch::Server> serve(const CallOptions& o, bool or_next_port,
                                     const std::filesystem::path& run, const Processes& processes) {
  if (!o.serve || processes.rank() != 0) return nullptr;
  auto page = std::make_unique<watch::Server>(watch::ServerOptions{
      .runs = {run}, .port = *o.serve, .or_next_port = or_next_port, .talk_port = o.talk_port});
  for (const std::string& note : page->notes()) print_error(note + "\n");
  fmt::print("page: {}\n", page->url());
  std::fflush(stdout);
  return page;
}

// "mpirun -n 2 train-gpt notes/ --serve", as a shell takes it.
std::string command_of(const Call& call, int processes) {
  std::string text =
      processes > 1 ? fmt::format("mpirun -n {} {}", processes, call.name) : call.name;
  for (int i = 1; i < call.argc; ++i) text += " " + quoted(call.argv[i]);
  return text;
}

// Before any text is read.
void check_steps_left(const run::OptimizerOptions& o, const run::RunFolder& folder) {
  const std::int64_t made = folder.first_step();
  if (o.max_iters >= made) return;
  usage_error("--max-iters {} leaves nothing to do: the run in {} has made {} steps already",
              o.max_iters, folder.path().string(), made);
}

void write_events(const CallOptions& o, run::RunFolder& folder) {
  const bool went_on = folder.resumes() && !run::event_files(folder.path()).empty();
  if (!o.tensorboard && !went_on) return;
  folder.observe(std::make_unique<events::TensorboardWriter>(folder.path(), folder.first_step()));
}

}  // namespace

TrainingCall::TrainingCall(const Call& call, Processes& processes, const CallOptions& options,
                           bool gives_port, const run::OptimizerOptions& optimizer,
                           const std::string& preset, const Texts& texts)
    : call_(call),
      processes_(processes),
      options_(options),
      folder_(run::RunFolder::open(options.folder, preset, named(texts), &processes)) {
  check_steps_left(optimizer, folder_);
  page_ = serve(options_, !gives_port, folder_.path(), processes);
  write_events(options_, folder_);
}

TrainingCall::~TrainingCall() = default;

void TrainingCall::end_page() {
  if (page_) page_->finish();
}

int TrainingCall::train(run::Task task, const run::OptimizerOptions& optimizer,
                        const run::EvaluationOptions& evaluation,
                        std::optional<std::int64_t> most_iters) {
  const std::string path = folder_.path().string();
  task.about.resume_command =
      fmt::format("{} --init-from resume --out-dir {}{}{}", program_path(call_.name), quoted(path),
                  optimizer.meet ? " --meet " + quoted(*optimizer.meet) : "",
                  optimizer.meet_key ? " --meet-key " + quoted(*optimizer.meet_key) : "");
  task.about.command = command_of(call_, processes_.size());
  run::TrainOptions training{.optimizer = optimizer,
                             .evaluation = evaluation,
                             .trace = options_.trace,
                             .restart_schedule = options_.schedule_restart};
  if (options_.max_minutes)
    training.time = {
        .minutes = *options_.max_minutes, .begin = call_.begin, .most_steps = most_iters};
  bool done = false;
  try {
    done = run::train(task, folder_, training);
  } catch (const std::exception&) {
    if (folder_.begun() && processes_.rank() == 0) write_report_of_failure(path);
    end_page();
    throw;
  }
  if (!folder_.begun()) return kInterruptedExitCode;  // while steps were measured
  if (processes_.rank() == 0) write_report(path);
  end_page();
  if (page_) {
    fmt::print("the page ends here; this shows it again:\n  {} {}\n",
               program_path("tapegrad watch"), quoted(path));
  }
  return done ? 0 : kInterruptedExitCode;
}

std::optional<int> code_of_rank_0(Processes& processes,
                                  const std::function<std::optional<int>()>& run) {
  std::optional<int> code;
  if (processes.rank() == 0) code = run();
  processes.broadcast(std::as_writable_bytes(std::span(&code, 1)));
  return code;
}

}  // namespace tapegrad::cli
