// The files of a run as the page reads them, in two pieces: metrics.jsonl, layers.jsonl,
// sessions.jsonl or config.json, as the input's first byte says. All of it is taken, whatever it
// is, and what is served stays JSON of a bounded size.

#include "tapegrad/apps/watch/run_files.h"
#include "tapegrad/tests/fuzz/fuzz.h"

using namespace tapegrad;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view files[] = {"metrics.jsonl", "layers.jsonl", "sessions.jsonl",
                                        "config.json"};
  if (size == 0) return 0;
  const std::string_view broken = files[data[0] % std::size(files)];
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  for (const auto file : files) fuzz::put(file, "");
  watch::RunFiles run(fuzz::folder());
  for (const std::string_view part : {text.substr(0, text.size() / 2), text}) {
    fuzz::put(broken, part);
    const auto news = run.read(std::size_t{1} << 20);
    for (const auto& line : news.lines) {
      if (!Json::accept(line.values)) fuzz::finding("an event is no JSON");
    }
  }
  run.read_all();
  const std::string history = run.history().json();
  if (!Json::accept(history)) fuzz::finding("a history is no JSON");
  if (history.size() > 200 + 20 * text.size()) fuzz::finding("a history is too large");
  if (!Json::accept(json_text(run.options())) || !Json::accept(json_text(run.sessions()))) {
    fuzz::finding("options or sessions are no JSON");
  }
  return 0;
}
