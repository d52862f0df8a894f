// Stops trainings in every way and checks that nothing is lost.
//   faults calls   at each file call, a kill and all errors that it can have
//   faults power   a power cut at each file call
//   faults kills   kills at random moments
//   faults disk    disks that are too small, and disks that cannot be written
// --long does more; --seed N draws other random numbers. Prints a line of counts, and what was
// wrong on stderr.

#include <signal.h>

#include <iostream>

#include "tapegrad/tests/faults/ways.h"

int main(int argc, char** argv) {
  using namespace faults;
  ::signal(SIGPIPE, SIG_IGN);
  const Args args(argv + 1, argv + argc);
  Options options;
  const auto usage = [&] {
    std::cerr << "usage: " << argv[0] << " calls|power|kills|disk [--long] [--seed N]\n";
    return 2;
  };
  if (args.empty()) return usage();
  for (std::size_t i = 1; i < args.size(); ++i) {
    if (args[i] == "--long") {
      options.is_long = true;
    } else if (args[i] == "--seed" && i + 1 < args.size()) {
      options.seed = static_cast<unsigned>(std::stoul(args[++i]));
    } else {
      return usage();
    }
  }
  try {
    if (args[0] == "calls") return stop_at_calls(options);
    if (args[0] == "power") return cut_power(options);
    if (args[0] == "kills") return kill_at_random(options);
    if (args[0] == "disk") return fill_disks(options);
    return usage();
  } catch (const std::exception& error) {
    std::cerr << "faults: error: " << error.what() << "\n";
    return 1;
  }
}
