#include "tapegrad/data/corpus/internal/unpack.h"

#include <iconv.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/corpus/corpus.h"

namespace tapegrad::data {
namespace {

constexpr std::string_view kGzip = "\x1f\x8b", kZstd = "\x28\xb5\x2f\xfd";
constexpr std::size_t kChunk = std::size_t{1} << 18;

[[noreturn]] void fail_unpacking(const std::string& name, std::string_view why) {
  fail("'{}' cannot be unpacked: {}", name, why);
}

// The bytes that were read already, and then the rest.
class Rest : public Bytes {
 public:
  Rest(std::string first, std::unique_ptr<Bytes> rest)
      : first_(std::move(first)), rest_(std::move(rest)) {}
  std::string_view next() override {
    return std::exchange(begun_, true) || first_.empty() ? rest_->next() : first_;
  }

 private:
  std::string first_;
  std::unique_ptr<Bytes> rest_;
  bool begun_ = false;
};

constexpr int kGzipOnly = 16 + MAX_WBITS, kRawDeflate = -MAX_WBITS;

// All members of a gzip file, one after the other, as gzip does; of raw deflate, there is one.
class Inflated : public Bytes {
 public:
  Inflated(std::unique_ptr<Bytes> packed, std::string name, int window_bits)
      : packed_(std::move(packed)), name_(std::move(name)), is_raw_(window_bits < 0) {
    check(::inflateInit2(&stream_, window_bits) == Z_OK, "zlib does not start");
  }
  ~Inflated() override { ::inflateEnd(&stream_); }
  Inflated(const Inflated&) = delete;
  Inflated& operator=(const Inflated&) = delete;

  std::string_view next() override {
    while (true) {
      if (input_.empty()) input_ = packed_->next();
      if (state_ == Z_STREAM_END && (is_raw_ || input_.empty())) return {};
      if (state_ == Z_STREAM_END) ::inflateReset(&stream_);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input_.data()));
      stream_.avail_in = static_cast<uInt>(input_.size());
      stream_.next_out = reinterpret_cast<Bytef*>(chunk_.data());
      stream_.avail_out = static_cast<uInt>(kChunk);
      state_ = ::inflate(&stream_, Z_NO_FLUSH);
      if (state_ == Z_BUF_ERROR) fail_unpacking(name_, "it is cut short");
      if (state_ != Z_OK && state_ != Z_STREAM_END) {
        fail_unpacking(name_, stream_.msg != nullptr ? stream_.msg : "it is not what zlib packs");
      }
      input_.remove_prefix(input_.size() - stream_.avail_in);
      if (const std::size_t made = kChunk - stream_.avail_out) return {chunk_.data(), made};
    }
  }

 private:
  std::unique_ptr<Bytes> packed_;
  std::string name_;
  bool is_raw_;
  z_stream stream_{};
  int state_ = Z_OK;
  std::string_view input_;
  std::vector<char> chunk_ = std::vector<char>(kChunk);
};

class Unzstd : public Bytes {
 public:
  Unzstd(std::unique_ptr<Bytes> packed, std::string name)
      : packed_(std::move(packed)),
        name_(std::move(name)),
        context_(::ZSTD_createDCtx(), ::ZSTD_freeDCtx) {
    check(context_ != nullptr, "out of memory");
  }

  std::string_view next() override {
    while (true) {
      if (input_.pos == input_.size) {
        const std::string_view more = packed_->next();
        if (more.empty() && whole_) return {};
        input_ = {more.data(), more.size(), 0};
      }
      ZSTD_outBuffer to{chunk_.data(), chunk_.size(), 0};
      const std::size_t before = input_.pos;
      const std::size_t left = ::ZSTD_decompressStream(context_.get(), &to, &input_);
      if (::ZSTD_isError(left) != 0) fail_unpacking(name_, ::ZSTD_getErrorName(left));
      whole_ = left == 0;
      if (!whole_ && to.pos == 0 && input_.pos == before) fail_unpacking(name_, "it is cut short");
      if (to.pos > 0) return {chunk_.data(), to.pos};
    }
  }

 private:
  std::unique_ptr<Bytes> packed_;
  std::string name_;
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool whole_ = false;
  std::vector<char> chunk_ = std::vector<char>(kChunk);
};

// iconv's own name of what people call so.
std::string iconv_name(const std::string& encoding) {
  return encoding == "latin-1" || encoding == "latin1" ? "ISO-8859-1" : encoding;
}

class Converted : public Bytes {
 public:
  Converted(const std::string& encoding, std::unique_ptr<Bytes> text, std::string name)
      : encoding_(encoding),
        text_(std::move(text)),
        name_(std::move(name)),
        converter_(::iconv_open("UTF-8", iconv_name(encoding).c_str())) {
    check(converter_ != iconv_t(-1), "[corpus] there is no encoding '{}'; `iconv --list` has all",
          encoding);
  }
  ~Converted() override { ::iconv_close(converter_); }
  Converted(const Converted&) = delete;
  Converted& operator=(const Converted&) = delete;

  std::string_view next() override {
    while (true) {
      if (wants_more_) {
        const std::string_view more = text_->next();
        ended_ = more.empty();
        input_.erase(0, at_);
        at_ = 0;
        input_ += more;
        wants_more_ = false;
      }
      if (ended_ && at_ == input_.size()) return {};
      char* input = input_.data() + at_;
      char* output = chunk_.data();
      std::size_t left = input_.size() - at_, room = chunk_.size();
      const bool failed = ::iconv(converter_, &input, &left, &output, &room) == std::size_t(-1);
      const bool is_cut = failed && errno == EINVAL && !ended_;  // a character between two chunks
      const std::size_t done = input_.size() - at_ - left;
      before_ += done;
      at_ += done;
      check(!failed || errno == E2BIG || is_cut,
            "[corpus] '{}' is not {} text: byte {} does not fit", name_, encoding_, before_);
      wants_more_ = is_cut || left == 0;
      if (room < chunk_.size()) return {chunk_.data(), chunk_.size() - room};
    }
  }

 private:
  std::string encoding_;
  std::unique_ptr<Bytes> text_;
  std::string name_;
  iconv_t converter_;
  std::string input_;  // of which at_ bytes are converted
  std::size_t at_ = 0, before_ = 0;
  bool wants_more_ = true, ended_ = false;
  std::vector<char> chunk_ = std::vector<char>(kChunk);
};

}  // namespace

bool is_encoding(const std::string& name) {
  const iconv_t converter = ::iconv_open("UTF-8", iconv_name(name).c_str());
  return converter != iconv_t(-1) && ::iconv_close(converter) == 0;
}

std::unique_ptr<Bytes> unpacked(std::unique_ptr<Bytes> packed, std::string name) {
  std::string first;
  for (std::string_view more; first.size() < kZstd.size() && !(more = packed->next()).empty();) {
    first += more;
  }
  const bool gzip = first.starts_with(kGzip), zstd = first.starts_with(kZstd);
  auto all = std::make_unique<Rest>(std::move(first), std::move(packed));
  if (gzip) return std::make_unique<Inflated>(std::move(all), std::move(name), kGzipOnly);
  if (zstd) return std::make_unique<Unzstd>(std::move(all), std::move(name));
  return all;
}

std::unique_ptr<Bytes> inflated(std::unique_ptr<Bytes> packed, std::string name) {
  return std::make_unique<Inflated>(std::move(packed), std::move(name), kRawDeflate);
}

std::unique_ptr<Bytes> to_utf8_from(const std::string& encoding, std::unique_ptr<Bytes> text,
                                    std::string name) {
  return std::make_unique<Converted>(encoding, std::move(text), std::move(name));
}

}  // namespace tapegrad::data
