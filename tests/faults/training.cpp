#include "tapegrad/tests/faults/training.h"

#include <regex>

#include "tapegrad/tests/apps/tiny_args.h"

namespace faults {
namespace {

namespace fs = std::filesystem;

Outcome run_once(const std::string& program, const Args& args, const fs::path& work) {
  const Result result = run_program(program, args, work);
  if (result.code != 0) throw std::runtime_error(program + " failed: " + result.err);
  return {.code = 0, .out = result.out, .err = result.err};
}

}  // namespace

Training::Training(const std::string& program, Start start, const fs::path& root, Length length,
                   const Args& more)
    : program_(program), start_(start), length_(length) {
  const bool gpt = program == "train-gpt";
  const fs::path corpus = root / (gpt ? "text.txt" : "pairs.tsv");
  std::ofstream(corpus) << (gpt ? tiny_text() : tiny_pairs());
  const Args always = Args{"--no-sample"} + more;
  const auto begin = [&](int last) {
    return (gpt ? tiny_run(corpus, "run", last) : tiny_pair_run(corpus, "run", last)) +
           Args{"--eval-interval", std::to_string(length.interval), "--n-layer", "1"} + always;
  };
  commands_ = {.begin = begin(length.steps),
               .resume = resume_run("run", length.steps) + always,
               .replace = begin(length.steps) + Args{"--overwrite"}};

  const auto result_of = [&](const Args& args) {
    const TempFolder work;
    run_once(program, args, work.path());
    return read_files(work.path());
  };
  end_ = essence(result_of(commands_.begin));
  if (start == Start::resumed) before_ = result_of(begin(length.interval));
  if (start == Start::overwriting) {
    before_ = result_of(begin(length.steps) + Args{"--seed", "7"});
    old_end_ = essence(before_);
  }
}

std::string Training::name() const {
  constexpr const char* names[] = {"fresh", "resumed", "overwriting"};
  return program_ + " " + names[static_cast<int>(start_)];
}

const Args& Training::command() const {
  return start_ == Start::fresh     ? commands_.begin
         : start_ == Start::resumed ? commands_.resume
                                    : commands_.replace;
}

int Training::promised(const std::string& out) const {
  if (out.find("\nfinal: ") != std::string::npos) return length_.steps;
  int last = start_ == Start::resumed ? length_.interval : -1;
  // A step is made only after the checkpoint that is due before it.
  for (int step = 0; step < length_.steps; step += length_.interval) {
    if (out.find("\niter " + std::to_string(step) + ":") != std::string::npos) {
      last = std::max(last, step);
    }
  }
  return last;
}

std::string Training::check_end(const fs::path& work, bool new_run) const {
  const Files files = read_files(work), end = essence(files);
  if (const std::string fault = fault_of_sessions(files); !fault.empty()) return fault;
  if (end == end_ || (!new_run && !old_end_.empty() && end == old_end_)) return {};
  return "ends otherwise:" + difference(end, end_);
}

std::string Training::finish(const fs::path& work, int promised, const Run& run) const {
  const auto failure = [](const std::string& what, const Outcome& outcome) {
    return what + ", code " + std::to_string(outcome.code) + ": " + outcome.err;
  };
  // As long as trainer.json is there, so are the other files of its checkpoint.
  const bool safe = promised >= 0 || fs::exists(work / "run/trainer.json");
  const Outcome resumed = run(commands_.resume);
  if (resumed.code == 0) {
    std::smatch match;
    const bool later =
        std::regex_search(resumed.out, match, std::regex("resumed at step ([0-9]+)"));
    const int step = later ? std::stoi(match[1]) : 0;
    if (step < promised) return "goes back to step " + std::to_string(step);
    return check_end(work, promised >= 0);
  }
  if (resumed.code != 1 || safe) return failure("a checkpoint is lost", resumed);
  if (resumed.err.rfind(program_ + ": error: ", 0) != 0) return failure("no message", resumed);
  const Outcome replaced = run(commands_.replace);
  if (replaced.code != 0) return failure("--overwrite is refused", replaced);
  return check_end(work, true);
}

std::string Training::finish(const Place& place, const Files& files, int promised, const Run& run) {
  std::pair<int, Files> key(promised, essence(files));
  key.second["sessions"] = fault_of_sessions(files);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = verdicts_.find(key); found != verdicts_.end()) return found->second;
  }
  write_files(place.work, files);
  std::string verdict = finish(place.work, promised, run);
  const std::lock_guard lock(mutex_);
  return verdicts_[key] = std::move(verdict);
}

Outcome Servers::run(const std::string& program, const Args& args, const Request& request) {
  auto& server = servers_[{program, args}];
  if (!server) server = std::make_unique<Server>(program, args, root_);
  return server->run(place_, request);
}

}  // namespace faults
