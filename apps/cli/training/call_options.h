#pragma once

#include <optional>

#include "tapegrad/apps/cli/compute.h"
#include "tapegrad/run/options/options.h"

namespace tapegrad::cli {

// Options of one call of a training program. config.json does not keep them.
struct CallOptions {
  run::FolderOptions folder;
  std::optional<double> max_minutes;  // which decide optimizer.max_iters of a new run
  ComputeOptions compute;
  bool schedule_restart = false;
  bool sample = true;
  run::TraceOptions trace;
  std::optional<int> serve;  // the port of the page
  int talk_port = 0;         // of the model that it opens to talk to; 0: any that is free
  bool tensorboard = false;

  template <class Self, class Table>
  static void describe(Self& o, Table& t) {
    run::FolderOptions::describe(o.folder, t);
    t("max_minutes", o.max_minutes,
      "train for about X minutes: measure a step, then set --max-iters",
      {.least = 0.01, .most = 1e6});
    t("schedule_restart", o.schedule_restart,
      "on resume, start the schedule again: warm up, then decay until --max-iters");
    ComputeOptions::describe(o.compute, t);
    t("sample", o.sample, "print samples from the model at the end");
    run::TraceOptions::describe(o.trace, t);
    t("serve", o.serve,
      "show the run on a page in the browser while it trains, at this port of this computer "
      "[without PORT: 8265, or the next free one; 0: any free one]",
      {.least = 0, .most = 65535, .value = "[PORT]"});
    t("talk_port", o.talk_port,
      "with --serve, port of the chat server behind 'Talk to it'; 0: any that is free",
      {.least = 0, .most = 65535, .value = "PORT"});
    t("tensorboard", o.tensorboard,
      "also write event files for TensorBoard to the run folder; kept on resume");
  }
};

}  // namespace tapegrad::cli
