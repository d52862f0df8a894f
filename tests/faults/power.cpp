#include <iostream>
#include <set>

#include "tapegrad/tests/faults/disk.h"
#include "tapegrad/tests/faults/ways.h"

namespace faults {
namespace {

struct Cut {
  Training* training;
  int promised;
  Files files;
  std::string where;
};

// All cuts of one run. Error if the record of the run does not give its files.
void add_cuts(Training& training, Servers& servers, const Options& options, std::vector<Cut>& cuts,
              std::size_t& moments) {
  write_files(servers.place().work, training.before());
  const Outcome whole = servers.run(training.program(), training.command(), {.record = true});
  const Disk disk(training.before(), TempFolder::get(servers.place().files / "log"));
  std::mt19937 random(options.seed);
  const Files end = read_files(servers.place().work);
  const std::string wrong = difference(disk.after_cut(disk.moments(), Kept::all, random), end);
  const bool printed = disk.printed(disk.moments()) == whole.out;
  if (whole.code != 0 || !wrong.empty() || !printed) {
    throw std::runtime_error(training.name() + " is not recorded as it was:" + wrong + whole.err);
  }
  const int draws = options.is_long ? 20 : 1;
  // Odd, since calls often come in pairs: an even one would leave out the same of them always.
  const std::size_t stride = options.is_long ? 1 : 5;
  for (std::size_t moment = options.seed % stride; moment <= disk.moments(); moment += stride) {
    ++moments;
    const int promised = training.promised(disk.printed(moment));
    for (const Kept kept : kKept) {
      const int times = kept == Kept::in_order || kept == Kept::any ? draws : 1;
      for (int i = 0; i < times; ++i) {
        cuts.push_back({&training, promised, disk.after_cut(moment, kept, random),
                        training.name() + ", power cut at moment " + std::to_string(moment) +
                            ", kept " + std::to_string(static_cast<int>(kept))});
      }
    }
  }
}

}  // namespace

int cut_power(const Options& options) {
  const TempFolder root;
  const auto trainings =
      make_trainings(root.path(), {.steps = 2, .interval = 1}, {"--threads", "1"});
  std::vector<Cut> cuts;
  std::size_t moments = 0;
  {
    Servers servers(root.path(), root / "first");
    for (const auto& training : trainings) {
      add_cuts(*training, servers, options, cuts, moments);
    }
  }
  Failures failures;
  run_jobs(root.path(), cuts.size(), [&](std::size_t i, Servers& servers) {
    const Cut& cut = cuts[i];
    failures.add(cut.where, cut.training->finish(servers.place(), cut.files, cut.promised,
                                                 servers.runner(*cut.training)));
  });
  std::size_t states = 0;
  for (const auto& training : trainings) states += training->states();
  std::cout << "power: seed " << options.seed << ": " << trainings.size() << " trainings cut at "
            << moments << " moments, which left " << states
            << " different folders: " << failures.count() << " failures\n";
  return failures.exit_code();
}

}  // namespace faults
