#include "tapegrad/data/tokenize/sentencepiece/internal/model_file.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/sentencepiece/internal/unknown_text.h"

namespace tapegrad::data {
namespace {

// The wire format of protobuf (protobuf.dev/programming-guides/encoding): fields, each with a
// number, a type and a value. These messages are flat and few fields count, so 40 lines read them;
// the library does not depend on protobuf for it.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  // The next field. False at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    type_ = tag & 7;
    field = tag >> 3;
    number = 0;
    bytes = {};
    if (type_ == kVarint) {
      number = varint();
    } else if (type_ == kBytes) {
      bytes = take(varint());
    } else {
      check(type_ == kFixed32 || type_ == kFixed64, "a field has the type {}", type_);
      bytes = take(type_ == kFixed32 ? 4 : 8);
      for (std::size_t i = bytes.size(); i > 0; --i) {
        number = number << 8 | static_cast<std::uint8_t>(bytes[i - 1]);
      }
    }
    return true;
  }
  // Values of the field. Error if it is of another type.
  std::string_view text() const { return require(kBytes), bytes; }
  std::uint64_t integer() const { return require(kVarint), number; }
  bool flag() const { return integer() != 0; }
  float real() const {
    require(kFixed32);
    return std::bit_cast<float>(static_cast<std::uint32_t>(number));
  }

  std::uint64_t field = 0;

 private:
  enum : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  void require(std::uint64_t type) const {
    check(type_ == type, "the field {} has the type {}, not {}", field, type_, type);
  }
  std::string_view take(std::uint64_t size) {
    check(size <= rest_.size(), "a field has {} bytes, and the file {} more", size, rest_.size());
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    fail("a number has more than 10 bytes");
  }

  std::string_view rest_, bytes;
  std::uint64_t type_ = 0, number = 0;
};

constexpr std::size_t kMostPieces = 1 << 20;

void read_piece(SentencePieceModel& model, WireReader piece) {
  const std::size_t id = model.pieces.size();
  check(id < kMostPieces, "it has more than {} pieces", +kMostPieces);
  std::string_view text;
  float score = 0;
  std::uint64_t type = kNormalPiece;
  while (piece.next()) {
    if (piece.field == 1) text = piece.text();
    if (piece.field == 2) score = piece.real();
    if (piece.field == 3) type = piece.integer();
  }
  check(!text.empty(), "the piece {} is empty", id);
  check(!find_invalid_utf8(text), "the piece {} is not UTF-8", id);
  check(text.find('\0') == text.npos, "the piece {} has a NUL in it", id);
  check(std::isfinite(score), "the score of the piece {}, '{}', is not finite", id, text);
  check(type != kUnusedPiece, "the piece {}, '{}', is UNUSED, which is not supported", id, text);
  check(type >= kNormalPiece && type <= kBytePiece, "the piece {}, '{}', has the type {}", id, text,
        type);
  check(type != kBytePiece || byte_of_shown(text), "the piece {}, '{}', is no byte", id, text);
  model.pieces.emplace_back(text);
  model.scores.push_back(score);
  model.types.push_back(static_cast<std::int64_t>(type));
}

void read_trainer(SentencePieceModel& model, WireReader spec) {
  while (spec.next()) {
    if (spec.field == 3) {
      const std::uint64_t method = spec.integer();
      check(method == model.kUnigram || method == model.kBpe,
            "its model_type is {}; unigram (1) and bpe (2) are supported", method);
      model.method = static_cast<SentencePieceModel::Method>(method);
    }
    if (spec.field == 24) check(!spec.flag(), "treat_whitespace_as_suffix is not supported");
    if (spec.field == 35) model.byte_fallback = spec.flag();
    if (spec.field == 44) model.unknown_surface = spec.text();
    if (spec.field == 46) model.bos_piece = spec.text();
    if (spec.field == 47) model.eos_piece = spec.text();
  }
}

void read_normalizer_spec(SentencePieceModel& model, WireReader spec) {
  while (spec.next()) {
    if (spec.field == 2) model.charsmap = spec.text();
    if (spec.field == 3) model.add_dummy_prefix = spec.flag();
    if (spec.field == 4) model.remove_extra_whitespaces = spec.flag();
    if (spec.field == 5) check(spec.flag(), "escape_whitespaces: false is not supported");
  }
}

void refuse_denormalizer(WireReader spec) {
  while (spec.next()) {
    check(spec.field != 2 || spec.text().empty(), "rules for decoding are not supported");
  }
}

void check_types(const SentencePieceModel& model) {
  const auto count = [&](PieceType type) {
    return std::count(model.types.begin(), model.types.end(), type);
  };
  check(count(kUnknownPiece) == 1, "it has {} pieces of the type UNKNOWN, not one",
        count(kUnknownPiece));
  check(count(kBytePiece) == (model.byte_fallback ? 256 : 0),
        "it has {} pieces of the type BYTE; with byte_fallback {} there are {}", count(kBytePiece),
        model.byte_fallback, model.byte_fallback ? 256 : 0);
  check(count(kNormalPiece) > 0, "it has no piece of the type NORMAL");
}

}  // namespace

std::optional<std::size_t> SentencePieceModel::find(PieceType type, std::string_view text) const {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (types[i] == type && pieces[i] == text) return i;
  }
  return std::nullopt;
}

SentencePieceModel parse_sentencepiece(std::string_view bytes) {
  SentencePieceModel model;
  WireReader file(bytes);
  try {
    while (file.next()) {
      if (file.field == 1) read_piece(model, WireReader(file.text()));
      if (file.field == 2) read_trainer(model, WireReader(file.text()));
      if (file.field == 3) read_normalizer_spec(model, WireReader(file.text()));
      if (file.field == 5) refuse_denormalizer(WireReader(file.text()));
    }
    check_types(model);
  } catch (const Error& error) {
    fail("it cannot be read as a file of SentencePiece's: {}", error.what());
  }
  return model;
}

}  // namespace tapegrad::data
