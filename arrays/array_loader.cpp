#include "tapegrad/arrays/array_loader.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "tapegrad/arrays/row_selection.h"
#include "tapegrad/autograd/tensor/tracked.h"
#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/blocked_signals.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::arrays {
namespace {

constexpr std::string_view kStateBegin = "arrays-1 ";

}  // namespace

// The batch behind a cursor, and the cursor behind that.
struct ArrayLoader::Ahead {
  explicit Ahead(const Cursor& cursor) : after(cursor) {}
  ~Ahead() { wait(); }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  void make(const ArrayLoader& loader) noexcept {
    try {
      batch = loader.take(after);
    } catch (...) {
      error = std::current_exception();
    }
  }
  void wait() {
    if (thread.joinable()) thread.join();
  }

  Cursor after;
  Rows batch;
  std::exception_ptr error;
  std::thread thread;
};

ArrayLoader::ArrayLoader(Rows arrays, Options options, Rng rng)
    : arrays_(std::move(arrays)), options_(std::move(options)), cursor_{.rng = std::move(rng)} {
  check(!arrays_.empty(), "[loader] there are no arrays");
  check(options_.batch_size >= 1, "[loader] batch_size is {}, but must be at least 1",
        options_.batch_size);
  for (const Tensor& array : arrays_) {
    check(array.rank() >= 1 && array.dim(0) == arrays_[0].dim(0),
          "[loader] arrays need as many rows each: one is {}, another {}", arrays_[0].shape(),
          array.shape());
  }
  check(options_.weights.empty() || (options_.shuffle && std::ssize(options_.weights) == rows()),
        "[loader] {} weights need shuffle, and as many rows: there are {}", options_.weights.size(),
        rows());
  check(batches_per_epoch() > 0, "[loader] {} rows do not fill a batch of {}", rows(),
        options_.batch_size);
}

ArrayLoader::~ArrayLoader() = default;

std::int64_t ArrayLoader::batches_per_epoch() const {
  const std::int64_t full = rows() / options_.batch_size;
  return options_.drop_last || rows() % options_.batch_size == 0 ? full : full + 1;
}

bool ArrayLoader::at_end(const Cursor& cursor) const {
  return rows() - cursor.next < (options_.drop_last ? options_.batch_size : 1);
}

std::int64_t ArrayLoader::epoch() const {
  return cursor_.epoch - (cursor_.epoch > 0 && !at_end(cursor_) ? 1 : 0);
}

void ArrayLoader::set_order(Cursor& cursor) const {
  if (!options_.shuffle || cursor.epoch == 0) return;
  Rng rng(static_cast<std::uint64_t>(cursor.order_seed));
  cursor.order = std::make_shared<const std::vector<std::int64_t>>(
      options_.weights.empty() ? rng.randperm(rows())
                               : weighted_sample(options_.weights, rows(), rng));
}

Tensor ArrayLoader::rows_of(const Tensor& array, const Cursor& cursor, std::int64_t count) const {
  Tensor result = Tensor::empty(array.shape().with(0, count), array.dtype());
  const auto size = static_cast<std::size_t>(array.numel() / rows());
  dispatch_all(array.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const from = array.data<T>();
    T* to = result.mutable_data<T>();
    for (std::int64_t i = cursor.next; i < cursor.next + count; ++i) {
      const auto row =
          static_cast<std::size_t>(cursor.order ? (*cursor.order)[static_cast<std::size_t>(i)] : i);
      to = std::copy_n(from + row * size, size, to);
    }
  });
  return result;
}

Rows ArrayLoader::take(Cursor& cursor) const {
  if (cursor.epoch == 0 || at_end(cursor)) {
    ++cursor.epoch;
    cursor.next = 0;
    cursor.transform_seed = static_cast<std::int64_t>(cursor.rng.next64() & INT64_MAX);
    if (options_.shuffle) {
      cursor.order_seed = static_cast<std::int64_t>(cursor.rng.next64() & INT64_MAX);
    }
    set_order(cursor);
  }
  const std::int64_t count = std::min(options_.batch_size, rows() - cursor.next);
  Rows batch;
  for (const Tensor& array : arrays_) batch.push_back(rows_of(array, cursor, count));
  if (options_.transform) {
    // By position: what a batch gets does not depend on the batches before it.
    Rng rng(static_cast<std::uint64_t>(cursor.transform_seed), Rng::Kind::philox);
    rng.take_blocks(static_cast<std::uint64_t>(cursor.next) << 32);
    batch = options_.transform(std::move(batch), rng);
  }
  cursor.next += count;
  return batch;
}

Rows ArrayLoader::next() {
  // Here, since the tapes of this thread are what a thread of its own does not see.
  for (const Tensor& array : arrays_) check_untracked("loader", "arrays", array);
  std::unique_ptr<Ahead> made = std::move(ahead_);
  if (made) {
    made->wait();
  } else {
    made = std::make_unique<Ahead>(cursor_);
    made->make(*this);
  }
  if (made->error) std::rethrow_exception(made->error);
  cursor_ = made->after;
  if (options_.background) make_ahead();
  return std::move(made->batch);
}

void ArrayLoader::make_ahead() {
  try {
    auto ahead = std::make_unique<Ahead>(cursor_);
    const BlockedSignals blocked;
    ahead->thread = std::thread([this, to = ahead.get()] { to->make(*this); });
    ahead_ = std::move(ahead);
  } catch (const std::exception&) {
    // There is no thread or no memory left, and next() makes the batch itself.
  }
}

std::string ArrayLoader::state() const {
  return fmt::format("{}{} {} {} {} {} {}", kStateBegin, rows(), cursor_.epoch, cursor_.next,
                     cursor_.transform_seed, cursor_.order_seed, cursor_.rng.state());
}

void ArrayLoader::set_state(std::string_view saved) {
  std::string_view rest = saved;
  check(rest.starts_with(kStateBegin), "[loader] saved state: '{}' does not begin with '{}'",
        saved.substr(0, 20), kStateBegin);
  rest.remove_prefix(kStateBegin.size());
  const auto number = [&] {
    const auto value = take_number<std::int64_t>(rest);
    check(value && *value >= 0 && rest.starts_with(' '),
          "[loader] saved state: five numbers do not follow '{}'", kStateBegin);
    rest.remove_prefix(1);
    return *value;
  };
  const std::int64_t of_rows = number();
  check(of_rows == rows(), "[loader] saved state: it is of {} rows, and there are {}", of_rows,
        rows());
  Cursor cursor{.rng = Rng(0)};
  for (std::int64_t* value :
       {&cursor.epoch, &cursor.next, &cursor.transform_seed, &cursor.order_seed}) {
    *value = number();
  }
  check(cursor.next <= rows(), "[loader] saved state: row {} of {}", cursor.next, rows());
  check(cursor.epoch < INT64_MAX && (cursor.epoch > 0 || cursor.next == 0),
        "[loader] saved state: row {} of epoch {}", cursor.next, cursor.epoch);
  cursor.rng.set_state(rest);
  set_order(cursor);
  ahead_.reset();
  cursor_ = std::move(cursor);
}

}  // namespace tapegrad::arrays
