#include "tapegrad/apps/serve/access_log.h"

#include <ctime>
#include <utility>

#include "tapegrad/base/terminal.h"

namespace tapegrad::serve {
namespace {

constexpr std::size_t kMostIgnoredNames = 256;  // names of fields; clients may send any

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[sizeof "2026-01-01T00:00:00Z"];
  return {text, std::strftime(text, sizeof text, "%FT%TZ", &utc)};
}

std::string metric(const char* name, const char* type, const char* help, double value) {
  return fmt::format("# HELP tapegrad_{0} {2}\n# TYPE tapegrad_{0} {1}\ntapegrad_{0} {3}\n", name,
                     type, help, value);
}

}  // namespace

void AccessLog::write(const Visit& visit, int status, const Usage& usage) {
  ++requests_[{visit.path, status}];
  if (form_ == LogForm::none) return;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - visit.begin).count();
  if (form_ == LogForm::lines) {
    const std::string tokens =
        usage.prompt_tokens + usage.completion_tokens == 0
            ? ""
            : fmt::format(
                  " {}+{} tokens{}", usage.prompt_tokens, usage.completion_tokens,
                  usage.spelled == 0 ? "" : fmt::format(", {} special spelled", usage.spelled));
    std::string line = fmt::format("{} {} {} {}{} {:.3f} s\n", time_text(), visit.method,
                                   visit.path, status, tokens, seconds);
    // As JSON, so that each stays on a line and controls no terminal.
    if (texts_ && !visit.request.empty()) line += "  < " + json_text(Json(visit.request)) + "\n";
    if (texts_ && !visit.answer.empty()) line += "  > " + json_text(Json(visit.answer)) + "\n";
    return print_error(line);
  }
  Json json = {{"time", time_text()},
               {"id", visit.id},
               {"method", visit.method},
               {"path", visit.path},
               {"status", status},
               {"prompt_tokens", usage.prompt_tokens},
               {"completion_tokens", usage.completion_tokens},
               {"seconds", seconds}};
  if (usage.spelled > 0) json["spelled_special_tokens"] = usage.spelled;
  if (texts_) json["request"] = visit.request;
  if (texts_) json["answer"] = visit.answer;
  print_error(json_text(json) + "\n");
}

void AccessLog::ignored(const std::vector<std::string>& names) {
  if (form_ == LogForm::none) return;
  for (const std::string& name : names) {
    if (ignored_.size() > kMostIgnoredNames || !ignored_.insert(name).second) continue;
    const bool too_many = ignored_.size() > kMostIgnoredNames;
    const std::string said = too_many ? "..." : name;
    const char* why = too_many ? "all further names are in the header X-Tapegrad-Ignored alone"
                               : "which changes nothing here; --strict refuses it and says why";
    print_error(form_ == LogForm::json
                    ? json_text(Json{{"time", time_text()}, {"ignored", said}}) + "\n"
                    : fmt::format("{} ignored: {}, {}\n", time_text(), said, why));
  }
}

void AccessLog::told_tools() {
  if (form_ == LogForm::none || std::exchange(told_tools_, true)) return;
  const char* note =
      "the chat template reads no tools, or writes calls in a way that is not known here: those of "
      "requests are told by a message";
  print_error(form_ == LogForm::json ? json_text(Json{{"time", time_text()}, {"note", note}}) + "\n"
                                     : fmt::format("{} note: {}\n", time_text(), note));
}

std::string AccessLog::metrics() const {
  std::string text =
      "# HELP tapegrad_requests_total Requests that were answered; 499: the client left.\n"
      "# TYPE tapegrad_requests_total counter\n";
  for (const auto& [key, count] : requests_) {
    text += fmt::format("tapegrad_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first,
                        key.second, count);
  }
  return text;
}

std::string metrics_of(const EngineState& s) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  return metric("prompt_tokens_total", "counter", "Tokens of prompts that were read.",
                number(s.cost.prompt_tokens)) +
         metric("prompt_tokens_reused_total", "counter",
                "Tokens of prompts whose keys and values were there.",
                number(s.cost.reused_tokens)) +
         metric("prompt_seconds_total", "counter", "Time that this took.", s.cost.prefill_seconds) +
         metric("tokens_total", "counter", "Tokens that were made after the first of each text.",
                number(s.cost.tokens)) +
         metric("token_seconds_total", "counter", "Time that this took.", s.cost.seconds) +
         metric("proposed_tokens_total", "counter",
                "Tokens that speculative decoding proposed (--draft, --lookup).",
                number(s.cost.proposed_tokens)) +
         metric("accepted_tokens_total", "counter", "Of these, those that texts have.",
                number(s.cost.accepted_tokens)) +
         metric("steps_total", "counter", "Steps of all running texts together.", number(s.steps)) +
         metric("step_seconds_total", "counter", "Time that these took.", s.step_seconds) +
         metric("jobs_total", "counter", "Requests for texts or vectors that were read and taken.",
                number(s.jobs)) +
         metric("jobs_cancelled_total", "counter", "Of these, those whose client left.",
                number(s.cancelled)) +
         metric("jobs_failed_total", "counter", "Of these, those that ended with an error.",
                number(s.failed)) +
         metric("jobs_refused_total", "counter",
                "Requests that found a queue full, /tokenize and its like too.",
                number(s.refused)) +
         metric("jobs_waiting", "gauge",
                "Requests that wait to be read, or of which nothing has begun.",
                number(s.waiting)) +
         metric("texts_running", "gauge", "Texts that are being made.", number(s.running)) +
         metric("cache_positions", "gauge", "Positions of the cache that are set aside.",
                number(s.positions));
}

}  // namespace tapegrad::serve
