#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tapegrad/apps/watch/server.h"
#include "tapegrad/tests/temp_folder.h"

// A folder with a run of some lines.
struct WatchedRun {
  TempFolder folder;
  std::filesystem::path run = make("run");

  std::filesystem::path make(const std::string& name) const {
    folder.put(name + "/config.json",
               R"({"format": "tapegrad-gpt", "version": 2, "model": {"n_layer": 4},
                   "optimizer": {"max_iters": 100}})");
    folder.put(name + "/metrics.jsonl",
               "{\"iteration\":0,\"train_loss\":4.5,\"val_loss\":4.6}\n"
               "{\"iteration\":0,\"loss\":4.5,\"lr\":0.001}\n{\"iteration\":10,\"loss\":3.5,\"lr\":"
               "0.001}\n{\"iteration\":10,\"sample\":\"h\u00e9llo\\nworld\"}\n");
    return folder / name;
  }
  void add(const std::string& line, const std::string& file = "metrics.jsonl") const {
    std::ofstream(run / file, std::ios::app) << line;
  }
  tapegrad::watch::ServerOptions options() const {
    return {.folders = {folder.path()}, .port = 0, .has_lowest_priority = false};
  }
};
