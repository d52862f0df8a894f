#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>

#include "tapegrad/tests/faults/ways.h"

namespace faults {
namespace {

struct Job {
  Training* training;
  Fault fault;
  int call;
  Call kind;
};

std::vector<Fault> all_of(Call kind) {
  std::vector<Fault> all;
  std::copy_if(std::begin(kFaults), std::end(kFaults), std::back_inserter(all),
               [&](Fault fault) { return applies(fault, kind); });
  return all;
}

// Calls of each kind so far, over all trainings.
using Turns = std::map<Call, std::size_t>;

// One fault for every second call that changes something, and for some of the others. Calls are
// counted for each kind apart: in one count of all, a kind that comes in every second place could
// be left out always.
std::vector<Fault> some_of(Call kind, std::size_t seed, Turns& turns) {
  const std::size_t stride = changes(kind) ? 2 : 15;
  const std::size_t turn = seed + turns[kind]++;
  if (turn % stride != 0) return {};
  const std::vector<Fault> all = all_of(kind);
  return {all[turn / stride % all.size()]};
}

std::string where_of(const Job& job, const Outcome& outcome) {
  return job.training->name() + ", " + name_of(job.fault) + " at call " + std::to_string(job.call) +
         " (" + name_of(job.kind) + " " + outcome.at + ")";
}

// The fault in the way in which a run ended.
std::string check_outcome(const Job& job, const Outcome& r) {
  const std::string code = "code " + std::to_string(r.code) + ": " + r.err;
  if (job.fault == Fault::kill) return r.code == -SIGKILL ? "" : code;
  const bool harmless = job.fault == Fault::half || job.fault == Fault::interrupted ||
                        job.fault == Fault::unsupported;
  if (harmless) return r.code == 0 ? "" : "stops the run, " + code;
  // The report comes when all is saved: its failure is printed, and is no error of the run.
  const bool noted = r.err.find("note: no report: ") != std::string::npos;
  if (r.code == 0) return changes(job.kind) && !noted ? "passed over" : "";
  const bool told = r.code == 1 && r.err.rfind(job.training->program() + ": error: ", 0) == 0 &&
                    r.err.size() < 2200 && r.err.find("Success") == std::string::npos;
  if (!told) return "ends badly, " + code;
  const bool names_cause = r.err.find(std::strerror(error_of(job.fault))) != std::string::npos;
  return !changes(job.kind) || names_cause ? "" : "does not name the cause, " + code;
}

}  // namespace

int stop_at_calls(const Options& options) {
  const TempFolder root;
  const auto trainings =
      make_trainings(root.path(), {.steps = 2, .interval = 1}, {"--threads", "1"});
  std::vector<Job> jobs;
  std::size_t calls = 0;
  Turns turns;
  {
    Servers servers(root.path(), root / "first");
    for (const auto& training : trainings) {
      write_files(servers.place().work, training->before());
      const Outcome whole = servers.run(training->program(), training->command());
      calls += whole.calls.size();
      for (std::size_t i = 0; i < whole.calls.size(); ++i) {
        const Call kind = whole.calls[i];
        for (const Fault fault :
             options.is_long ? all_of(kind) : some_of(kind, options.seed, turns)) {
          jobs.push_back({training.get(), fault, static_cast<int>(i) + 1, kind});
        }
      }
    }
  }
  Failures failures;
  std::atomic<int> kills{0}, errors{0};
  run_jobs(root.path(), jobs.size(), [&](std::size_t i, Servers& servers) {
    const Job& job = jobs[i];
    write_files(servers.place().work, job.training->before());
    const Outcome r = servers.run(job.training->program(), job.training->command(),
                                  {.fault = job.fault, .call = job.call});
    ++(job.fault == Fault::kill ? kills : errors);
    const std::string where = where_of(job, r);
    failures.add(where, check_outcome(job, r));
    failures.add(
        where, job.training->finish(servers.place(), read_files(servers.place().work),
                                    job.training->promised(r.out), servers.runner(*job.training)));
  });
  std::size_t states = 0;
  for (const auto& training : trainings) states += training->states();
  std::cout << "calls: " << trainings.size() << " trainings of " << calls << " file calls, "
            << kills << " kills and " << errors << " errors, which left " << states
            << " different folders: " << failures.count() << " failures\n";
  return failures.exit_code();
}

}  // namespace faults
