#include "tapegrad/apps/watch/talk_child.h"

#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::watch {
namespace {

constexpr std::chrono::seconds kMostTimeToOpen{120};
constexpr std::size_t kMostPrinted = 64 << 10;
// Of memory beside the run, which needs most of it.
constexpr const char* kCacheMemory = "256";  // MiB

// The port in "serving: http://127.0.0.1:8080/", once the line is whole.
std::optional<int> port_in(std::string_view printed) {
  constexpr std::string_view kBegin = "serving: http://127.0.0.1:";
  const std::size_t at = printed.find(kBegin);
  if (at == printed.npos || printed.find('\n', at) == printed.npos) return std::nullopt;
  std::string_view rest = printed.substr(at + kBegin.size());
  return number_of<int>(rest.substr(0, rest.find('/')));
}

}  // namespace

TalkChild::TalkChild(const std::filesystem::path& program, std::filesystem::path run, int port)
    : child_(program,
             {"serve", "--model=" + absolute_path(run).string(), "--follow", "--port",
              std::to_string(port), "--threads", "1", "--parallel", "4", "--cache-memory",
              kCacheMemory, "--max-waiting", "16", "--log", "none", "--end-with-stdin", "--grace",
              "0"},
             ChildProgram::Input::open),
      run_(std::move(run)) {}

std::optional<TalkChild::Answer> TalkChild::look() {
  if (port_ != 0) return Answer{.body = json_text({{"port", port_}})};
  const bool fits = child_.read_output(printed_, kMostPrinted);
  static_cast<void>(child_.read_errors(complaint_, kMostPrinted));
  if (const auto port = port_in(printed_)) {
    port_ = *port;
    child_.close_output();
    return Answer{.body = json_text({{"port", port_}})};
  }
  const bool late = std::chrono::steady_clock::now() - begin_ > kMostTimeToOpen;
  if (late || !fits) child_.kill();
  if (!child_.ended()) return std::nullopt;
  static_cast<void>(child_.read_errors(complaint_, kMostPrinted));
  std::string why = complaint_;
  while (why.ends_with('\n')) why.pop_back();
  if (late) why = fmt::format("serve had not opened the model after {} s", kMostTimeToOpen.count());
  if (why.empty()) why = "serve failed";
  return Answer{.status = late ? 503 : 422, .body = json_text({{"error", why}})};
}

}  // namespace tapegrad::watch
