#include "tapegrad/run/record/chrome_trace.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/autograd/module_names.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::run {
namespace {

using Event = Profile::Event;
using Part = LoopLog::Part;

// "transformer.h.3" of "transformer.h.3.attn.c_attn"; a name without a number stays whole.
std::string block_of(const std::string& module) {
  std::string block;
  for (const std::string& part : module_parts(module)) {
    if (!block.empty()) block += '.';
    block += part;
    const bool is_number = part.find_first_not_of("0123456789") == part.npos;
    if (is_number || part.find('.') != part.npos) break;
  }
  return block;
}

class Writer {
 public:
  explicit Writer(const Profile::Timeline& line) : line_(line) {}

  std::string text() {
    name_row("process_name", 0, "tapegrad");
    name_row("thread_name", 0, "the steps");
    for (std::size_t thread = 1; thread < line_.threads.size(); ++thread) {
      name_row("thread_name", thread, fmt::format("thread {}", thread + 1));
    }
    write_blocks();
    for (const Event& event : line_.events) write(event);
    for (std::size_t thread = 1; thread < line_.threads.size(); ++thread) write_thread(thread);
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  void add(const Json& event) {
    text_ += text_.empty() ? "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" : ",\n";
    text_ += json_text(event);
  }

  void name_row(const char* what, std::size_t thread, const std::string& name) {
    add({{"ph", "M"}, {"name", what}, {"pid", 1}, {"tid", thread}, {"args", {{"name", name}}}});
  }

  // Microseconds, with which the format counts, to three places.
  void add_span(const std::string& name, const char* category, double begin, double end,
                std::size_t thread, const Json& args) {
    const auto micro = [](double seconds) { return std::round(seconds * 1e9) / 1e3; };
    Json event = {{"ph", "X"},     {"name", name},       {"cat", category},          {"pid", 1},
                  {"tid", thread}, {"ts", micro(begin)}, {"dur", micro(end - begin)}};
    if (!args.empty()) event["args"] = args;
    add(event);
  }

  // Ops in a row that belong to one block of the model, as one span around them, which begins and
  // ends in the same part.
  void write_blocks() {
    const Event *first = nullptr, *last = nullptr;
    double part_end = 0;
    const auto close = [&] {
      const std::string block = first == nullptr ? "" : block_of(first->module);
      if (!block.empty()) add_span(block, "block", first->begin, last->end, 0, {});
      first = nullptr;
    };
    const auto goes_on = [&](const Event& event) {
      const bool leaves_part = first->begin < part_end && event.begin >= part_end;
      return !leaves_part && event.backward == first->backward &&
             block_of(event.module) == block_of(first->module);
    };
    for (const Event& event : line_.events) {
      if (event.is_part || (first != nullptr && !goes_on(event))) close();
      if (event.is_part) {
        part_end = event.end;
        continue;
      }
      if (first == nullptr) first = &event;
      last = &event;
    }
    close();
  }

  void write(const Event& event) {
    if (event.is_part) {
      add_span(std::string(event.name), "part", event.begin, event.end, 0, {});
      return;
    }
    Json args = Json::object();
    if (!event.module.empty()) args[event.has_parameter ? "module" : "after module"] = event.module;
    const double seconds = std::max(event.end - event.begin, 1e-9);
    args["bytes"] = static_cast<std::int64_t>(event.bytes);
    if (event.flops > 0) {
      args["FLOP"] = static_cast<std::int64_t>(event.flops);
      args["GFLOP/s"] = std::round(event.flops / seconds / 1e8) / 10;
    } else {
      args["GB/s"] = std::round(event.bytes / seconds / 1e8) / 10;
    }
    add_span(name_of(event), event.backward ? "backward" : "forward", event.begin, event.end, 0,
             args);
  }

  static std::string name_of(const Event& event) {
    return std::string(event.name) + (event.backward ? " backward" : "");
  }

  // The spans of another thread have the name of the op that they are a part of. Both are in the
  // order of time.
  void write_thread(std::size_t thread) {
    auto event = line_.events.begin();
    std::string part_name = "loop";
    for (const Part& part : line_.threads[thread]) {
      for (; event != line_.events.end() && event->begin <= part.begin; ++event) {
        if (!event->is_part) op_ = &*event;
        if (event->is_part) part_name = event->name;
      }
      const bool in_op = op_ != nullptr && op_->end >= part.begin;
      add_span(in_op ? name_of(*op_) : part_name, "thread", part.begin, part.end, thread, {});
    }
    op_ = nullptr;
  }

  const Profile::Timeline& line_;
  const Event* op_ = nullptr;
  std::string text_;
};

}  // namespace

std::int64_t write_chrome_trace(const std::filesystem::path& path, const Profile& profile) {
  const Profile::Timeline line = profile.timeline();
  write_file_atomically(path, Writer(line).text());
  return line.left_out;
}

}  // namespace tapegrad::run
