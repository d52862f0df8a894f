#include "tapegrad/apps/watch/inspect_child.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::watch {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kMostTime{60};
constexpr std::size_t kMostOutput = std::size_t{8} << 20, kMostComplaint = 4 << 10;
constexpr int kFailed = 1 << 8;  // the status of exit code 1

}  // namespace

InspectChild::InspectChild(const fs::path& program, const fs::path& model, const std::string& text)
    : child_(program,
             {"inspect", "--model=" + absolute_path(model).string(), "--json", "--text", "-",
              "--threads", "1"},
             ChildProgram::Input::text, text) {
  // If this program is killed, so that nobody can end the child.
  const rlimit seconds{static_cast<rlim_t>(kMostTime.count()),
                       static_cast<rlim_t>(kMostTime.count())};
  ::prlimit(child_.process(), RLIMIT_CPU, &seconds, nullptr);
}

std::optional<InspectChild::Answer> InspectChild::look() {
  const bool fits = child_.read_output(printed_, kMostOutput);
  static_cast<void>(child_.read_errors(complaint_, kMostComplaint));
  if (const auto status = child_.ended()) {
    if (!child_.read_output(printed_, kMostOutput)) killed_for_ = "inspect printed too much";
    static_cast<void>(child_.read_errors(complaint_, kMostComplaint));
    // Where the system keeps no status, what was printed tells.
    const int without = printed_.empty() ? kFailed : 0;
    return answer(*status == ChildProgram::kNoStatus ? without : *status);
  }
  const bool late = std::chrono::steady_clock::now() - begin_ > kMostTime;
  if (killed_for_.empty() && (late || !fits)) {
    killed_for_ = late ? fmt::format("inspect was ended after {} s", kMostTime.count())
                       : "inspect printed too much";
    child_.kill();
  }
  return std::nullopt;
}

InspectChild::Answer InspectChild::answer(int status) const {
  const auto refused = [](int code, const std::string& why) {
    return Answer{code, json_text({{"error", why}})};
  };
  if (!killed_for_.empty()) return refused(503, killed_for_);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    // A broken program's output must not be taken for an answer.
    return Json::accept(printed_) ? Answer{200, printed_}
                                  : refused(503, "inspect printed what is no JSON");
  }
  std::string why = complaint_;
  while (why.ends_with('\n')) why.pop_back();
  if (why.empty()) why = WIFSIGNALED(status) ? "inspect was ended by a signal" : "inspect failed";
  return refused(422, why);
}

}  // namespace tapegrad::watch
