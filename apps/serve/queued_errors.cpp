#include "tapegrad/apps/serve/queued_errors.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <string_view>
#include <thread>

#include "tapegrad/base/terminal.h"

namespace tapegrad::serve {
namespace {

constexpr std::chrono::milliseconds kLastTime{1000}, kPollTime{20};

}  // namespace

QueuedErrors::QueuedErrors(int file) : file_(file), writer_(kMostPrints, kMostBytes) {
  redirect_errors([this](const std::string& text) { put(text); });
}

QueuedErrors::~QueuedErrors() {
  redirect_errors({});
  const auto limit = std::chrono::steady_clock::now() + kLastTime;
  while (waiting_ > 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(kPollTime);
  }
  hurries_ = true;
}

void QueuedErrors::put(const std::string& text) {
  const std::lock_guard lock(mutex_);
  std::string all = lost_ == 0 ? text
                               : fmt::format(
                                     "warning: {} lines of the log are lost: stderr was "
                                     "not read in time\n{}",
                                     lost_, text);
  ++waiting_;
  const std::size_t bytes = all.size();
  const bool taken = writer_.submit(0, "", bytes, [this, all = std::move(all)] {
    write(all);
    --waiting_;
  });
  if (!taken) --waiting_;
  lost_ = taken ? 0 : lost_ + 1;
}

// A pipe that poll() says is writable takes PIPE_BUF bytes without a wait.
void QueuedErrors::write(std::string_view text) {
  while (!text.empty()) {
    pollfd place{.fd = file_, .events = POLLOUT, .revents = 0};
    const int ready = ::poll(&place, 1, hurries_ ? 0 : static_cast<int>(kPollTime.count()));
    if (ready == 0 && !hurries_) continue;
    if (ready <= 0 && (hurries_ || errno != EINTR)) return;
    if (ready < 0) continue;
    const ssize_t size = ::write(file_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (size <= 0) return;  // a full disk, or nobody there: the server goes on
    text.remove_prefix(static_cast<std::size_t>(size));
  }
}

}  // namespace tapegrad::serve
