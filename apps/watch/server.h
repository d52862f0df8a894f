#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/http/message.h"

namespace tapegrad::watch {

inline constexpr int kDefaultPort = 8265;
using http::kThisComputer;

struct ServerOptions {
  std::vector<std::filesystem::path> runs = {};     // run folders, whatever they have
  std::vector<std::filesystem::path> folders = {};  // run folders, or folders of runs
  std::string host = kThisComputer;                 // an address of this computer
  int port = kDefaultPort;                          // 0: any that is free
  bool or_next_port = true;                         // the next free one if it is taken
  int talk_port = 0;                                // of a model to talk to; 0: any that is free
  std::function<void()> at_each_read = {};          // in the server's thread; for tests
  // How long who sends a request, or takes an answer, may be about it [http::Limits], and how long
  // finish() may read [half a second]; for tests.
  std::optional<std::chrono::seconds> patience = {};
  bool has_lowest_priority = true;  // of the processor: not in tests, which wait for it
};

// The page that shows runs, at http://127.0.0.1:8265/: see docs/watching.md. All of it happens in a
// thread of its own at a lower priority, which reads the files of the runs, and writes notes of
// people (run_notes.h). Whatever fails there ends the page, with a note, and not the program.
class Server {
 public:
  // Listens from now on. Errors: the port is taken; there is no such address.
  explicit Server(const ServerOptions& options);
  // Ends all connections, at once.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The program that trains `runs` calls this when they have ended, while it still holds their
  // locks: open pages get their last lines and states. Takes half a second at most.
  void finish();

  int port() const;
  std::string url() const;  // "http://127.0.0.1:8265/"
  // Notes for people beside the URL, a line each: that the port is another one than the usual
  // one, that others can reach the page.
  std::vector<std::string> notes() const;

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace tapegrad::watch
