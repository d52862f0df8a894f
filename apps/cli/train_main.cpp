#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>

#include "tapegrad/apps/cli/run_processes.h"
#include "tapegrad/apps/cli/shell.h"
#include "tapegrad/apps/cli/training_program.h"
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
std::vector<run::NamedText> texts_of(const CommonOptions& o) {
  std::vector<run::NamedText> texts;
  const auto add = [&](const char* option, const std::vector<std::string>* paths) {
    if (paths == nullptr) return;
    for (const std::string& path : *paths) texts.push_back({option, run::weighted_file(path).path});
  };
  add("--corpus", &o.corpus);
  add("--val", o.val);
  add("--chat", o.chat);
  add("--preferences", o.preferences);
  add("--data", o.data);
  return texts;
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
std::unique_ptr<watch::Server> serve(const CallOptions& o, const std::filesystem::path& run,
                                     const Processes& processes) {
  if (!o.serve || processes.rank() != 0) return nullptr;
  auto page = std::make_unique<watch::Server>(watch::ServerOptions{
      .runs = {run}, .port = *o.serve, .or_next_port = o.next_port, .talk_port = o.talk_port});
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

int train_main(TrainingProgram& program, const Call& call) {
  const Stopwatch begin;
  ignore_closed_pipes();
  return run_processes(call.name, [&](Processes& processes) {
    if (!parse_training(program, call, processes)) return 0;
    const CommonOptions o = program.common();
    std::optional<int> code;  // of rank 0 alone: others would only disturb what it measures
    if (processes.rank() == 0) code = program.run_other_mode();
    processes.broadcast(std::as_writable_bytes(std::span(&code, 1)));
    if (code) return *code;
    run::RunFolder folder = run::RunFolder::open(o.call.folder, o.preset, texts_of(o), &processes);
    check_steps_left(o.optimizer, folder);
    const auto page = serve(o.call, folder.path(), processes);
    write_events(o.call, folder);
    const auto job = program.prepare(folder);  // from here on, the options are const
    run::Task task = job->task();
    task.about.resume_command =
        fmt::format("{} --init-from resume --out-dir {}", program_path(call.name),
                    quoted(folder.path().string()));
    task.about.command = command_of(call, processes.size());
    run::TrainOptions training{.optimizer = o.optimizer,
                               .evaluation = o.evaluation,
                               .trace = o.call.trace,
                               .restart_schedule = o.call.schedule_restart};
    if (o.call.max_minutes) training.time = {.minutes = *o.call.max_minutes, .begin = begin};
    bool done = false;
    try {
      done = run::train(task, folder, training);
    } catch (const std::exception&) {
      if (folder.begun() && processes.rank() == 0) write_report_of_failure(folder.path());
      if (page) page->finish();
      throw;
    }
    if (!folder.begun()) return kInterruptedExitCode;  // while steps were measured
    if (processes.rank() == 0) write_report(folder.path());
    if (page) {
      page->finish();
      fmt::print("the page ends here; this shows it again:\n  {} {}\n",
                 program_path("tapegrad watch"), quoted(folder.path().string()));
    }
    return done ? 0 : kInterruptedExitCode;
  });
}

}  // namespace tapegrad::cli
