#include <fmt/format.h>
#include <poll.h>

#include <cstdio>

#include "tapegrad/apps/cli/command.h"
#include "tapegrad/apps/cli/command_line.h"
#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/http/listener.h"
#include "tapegrad/apps/watch/report/report_html.h"
#include "tapegrad/apps/watch/run_list.h"
#include "tapegrad/apps/watch/server.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad {
namespace {

constexpr int kMostPort = 65535;

struct Options {
  std::vector<std::string> folders;
  std::optional<int> port;
  int talk_port = 0;
  std::string host = watch::kThisComputer;
  std::string html;
};

// UsageError for a --talk-port that would do nothing, or be the page's.
void check_talk_port(const Options& o) {
  if (!o.html.empty()) cli::usage_error("--talk-port is for the page, and --html writes a file");
  if (http::is_public(o.host)) {
    cli::usage_error("--talk-port: nobody can talk to a model at --host {}", o.host);
  }
  if (o.talk_port != 0 && o.talk_port == o.port.value_or(watch::kDefaultPort)) {
    cli::usage_error("the page and --talk-port are both at {}: each needs a port of its own",
                     o.talk_port);
  }
}

std::optional<Options> parse(const cli::Call& call) {
  Options o;
  cli::CommandLine cli(call.name,
                       "Shows runs on a page in the browser, while they train or later.");
  cli.words(o.folders, "RUN", "run folders, or folders of runs, whose new runs come by themselves");
  cli.group("Page");
  cli("port", o.port,
      fmt::format("where the page is; 0: any port that is free [the first free one from {} on]",
                  watch::kDefaultPort),
      {.least = 0, .most = kMostPort, .value = "PORT"});
  cli("talk_port", o.talk_port,
      "port of the chat server behind 'Talk to it'; 0: any that is free. With ssh -L, forward both",
      {.least = 0, .most = kMostPort, .value = "PORT"});
  cli("host", o.host,
      "the address to listen at; with 0.0.0.0, everybody who reaches this computer reads the runs");
  cli.group("Report");
  cli("html", o.html, "write a page about the runs, as one file without scripts, and end",
      {.value = "FILE"});
  cli.example("tapegrad watch runs", "all runs below runs, and those that will be there");
  cli.example("tapegrad watch runs/notes-1 runs/notes-2", "two runs, to compare");
  cli.example("tapegrad watch runs/notes-1 runs/notes-2 --html notes.html",
              "the same as a file, to mail");
  if (cli.parse_or_print(call.argc, call.argv)) return std::nullopt;
  if (o.folders.empty()) cli::usage_error("which runs? Give run folders, or a folder of runs");
  if (cli.given("--talk-port")) check_talk_port(o);
  for (const std::string& folder : o.folders) {
    check(is_folder(folder), "{}: there is no such folder", folder);
  }
  return o;
}

int write_html(const Options& o) {
  const watch::RunList runs({}, {o.folders.begin(), o.folders.end()});
  check(!runs.runs().empty(), "there is no run in {}", fmt::join(o.folders, ", "));
  std::vector<const watch::RunFiles*> list;
  for (const auto& [id, run] : runs.runs()) {
    run->read_all();
    list.push_back(run.get());
  }
  write_file_atomically(o.html, watch::report_of(list));
  fmt::print("{} shows {}{}\n", o.html, counted(std::ssize(list), "run"),
             runs.is_full() ? ", the newest: others are left out" : "");
  return 0;
}

int show(const Options& o) {
  constexpr int milliseconds = 100;
  catch_interrupts();
  const watch::Server server({.folders = {o.folders.begin(), o.folders.end()},
                              .host = o.host,
                              .port = o.port.value_or(watch::kDefaultPort),
                              .or_next_port = !o.port,
                              .talk_port = o.talk_port});
  for (const std::string& note : server.notes()) fmt::print(stderr, "{}\n", note);
  fmt::print("page: {} (Ctrl-C ends it)\n", server.url());
  std::fflush(stdout);
  while (!interrupted()) ::poll(nullptr, 0, milliseconds);
  return kInterruptedExitCode;
}

int run(const cli::Call& call) {
  return cli::run_main(call.name, [&] {
    const auto options = parse(call);
    if (!options) return 0;
    return options->html.empty() ? show(*options) : write_html(*options);
  });
}

const cli::Command kCommand("watch", cli::CommandGroup::look, "show runs on a page in the browser",
                            run);

}  // namespace
}  // namespace tapegrad
