#include "tapegrad/data/unpack.h"

#include <iconv.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/base/error.h"
#include "tapegrad/data/corpus.h"

namespace tapegrad::data {
namespace {

constexpr std::string_view kGzip = "\x1f\x8b", kZstd = "\x28\xb5\x2f\xfd";
constexpr std::size_t kChunk = std::size_t{1} << 18;

// Collects what is unpacked, up to a limit.
class Output {
 public:
  Output(const std::string& name, std::int64_t max_bytes) : name_(name), max_(max_bytes) {}
  void add(const char* bytes, std::size_t count) {
    check(static_cast<std::int64_t>(text_.size() + count) <= max_,
          "[corpus] '{}' has more than {} bytes when it is unpacked", name_, max_);
    text_.append(bytes, count);
  }
  std::string take() { return std::move(text_); }

 private:
  const std::string& name_;
  std::int64_t max_;
  std::string text_;
};

[[noreturn]] void fail_unpacking(const std::string& name, std::string_view why) {
  fail("[corpus] '{}' cannot be unpacked: {}", name, why);
}

// All members of the file, one after the other, as gzip does.
std::string gunzipped(const std::string& bytes, const std::string& name, std::int64_t max_bytes) {
  z_stream stream{};
  constexpr int gzip_only = 16 + MAX_WBITS;
  check(::inflateInit2(&stream, gzip_only) == Z_OK, "zlib does not start");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, ::inflateEnd);
  Output output(name, max_bytes);
  std::vector<char> chunk(kChunk);
  std::size_t at = 0;
  int state = Z_OK;
  while (at < bytes.size() || state != Z_STREAM_END) {
    if (state == Z_STREAM_END) ::inflateReset(&stream);
    const std::size_t take = std::min(bytes.size() - at, kChunk);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + at));
    stream.avail_in = static_cast<uInt>(take);
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(kChunk);
    state = ::inflate(&stream, Z_NO_FLUSH);
    if (state == Z_BUF_ERROR) fail_unpacking(name, "it is cut short");
    if (state != Z_OK && state != Z_STREAM_END) {
      fail_unpacking(name, stream.msg != nullptr ? stream.msg : "it is not a gzip file");
    }
    at += take - stream.avail_in;
    output.add(chunk.data(), kChunk - stream.avail_out);
  }
  return output.take();
}

std::string unzstd(const std::string& bytes, const std::string& name, std::int64_t max_bytes) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(::ZSTD_createDCtx(),
                                                                        ::ZSTD_freeDCtx);
  check(context != nullptr, "out of memory");
  Output output(name, max_bytes);
  std::vector<char> chunk(kChunk);
  ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
  for (bool whole = false; input.pos < input.size || !whole;) {
    ZSTD_outBuffer to{chunk.data(), chunk.size(), 0};
    const std::size_t before = input.pos;
    const std::size_t left = ::ZSTD_decompressStream(context.get(), &to, &input);
    if (::ZSTD_isError(left) != 0) fail_unpacking(name, ::ZSTD_getErrorName(left));
    whole = left == 0;
    if (!whole && to.pos == 0 && input.pos == before) fail_unpacking(name, "it is cut short");
    output.add(chunk.data(), to.pos);
  }
  return output.take();
}

// iconv's own name of what people call so.
std::string iconv_name(const std::string& encoding) {
  return encoding == "latin-1" || encoding == "latin1" ? "ISO-8859-1" : encoding;
}

}  // namespace

bool is_encoding(const std::string& name) {
  const iconv_t converter = ::iconv_open("UTF-8", iconv_name(name).c_str());
  return converter != iconv_t(-1) && ::iconv_close(converter) == 0;
}

bool is_packed(const std::string& first_bytes) {
  return first_bytes.starts_with(kGzip) || first_bytes.starts_with(kZstd);
}

std::string unpacked(std::string bytes, const std::string& name, std::int64_t max_bytes) {
  if (bytes.starts_with(kGzip)) return gunzipped(bytes, name, max_bytes);
  if (bytes.starts_with(kZstd)) return unzstd(bytes, name, max_bytes);
  return bytes;
}

std::string to_utf8_from(const std::string& encoding, const std::string& text,
                         const std::string& name) {
  const iconv_t converter = ::iconv_open("UTF-8", iconv_name(encoding).c_str());
  check(converter != iconv_t(-1), "[corpus] there is no encoding '{}'; `iconv --list` has all",
        encoding);
  const std::unique_ptr<void, int (*)(iconv_t)> close(converter, ::iconv_close);
  std::string result;
  std::vector<char> chunk(kChunk);
  char* input = const_cast<char*>(text.data());
  std::size_t left = text.size();
  while (left > 0) {
    char* output = chunk.data();
    std::size_t room = chunk.size();
    const bool failed = ::iconv(converter, &input, &left, &output, &room) == std::size_t(-1);
    result.append(chunk.data(), chunk.size() - room);
    check(!failed || errno == E2BIG, "[corpus] '{}' is not {} text: byte {} does not fit", name,
          encoding, text.size() - left);
  }
  return result;
}

}  // namespace tapegrad::data
