#include "tapegrad/run/corpus/prepare/prepare_corpus.h"

#include <algorithm>

#include "tapegrad/run/corpus/text_data.h"

namespace tapegrad::run {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

std::unique_ptr<data::DocumentStream> stream_of(const std::vector<std::string>& paths,
                                                const PrepareOptions& o,
                                                const data::Separators& separators,
                                                const data::PieceCut& cut) {
  const data::CorpusOptions options{
      .max_bytes = kMostBytes, .field = o.field, .encoding = o.encoding};
  return std::make_unique<data::DocumentStream>(paths_of(paths, o.out_dir), options, separators,
                                                cut);
}

}  // namespace

std::vector<std::filesystem::path> paths_of(const std::vector<std::string>& paths,
                                            const std::string& out_dir) {
  std::vector<std::filesystem::path> result;
  for (const std::string& path : paths) {
    result.push_back(path == "-" ? std::filesystem::path(out_dir) / kStdinFile
                                 : std::filesystem::path(path));
  }
  return result;
}

// Draws are for many documents: of a few, none may be drawn, or all.
void Survey::divide(double val_fraction) {
  const auto wanted = val_fraction * static_cast<double>(bytes);
  const auto val = static_cast<double>(parts[1].bytes);
  if (val >= wanted / 2 && val <= wanted * 2 && parts[0].bytes > 0) return;
  cut = static_cast<std::int64_t>((1 - val_fraction) * static_cast<double>(bytes));
  parts[0] = {documents, *cut};
  parts[1] = {documents, bytes - *cut};
}

PreparedPieces::PreparedPieces(const PrepareOptions& options, std::string end_of_text,
                               data::PieceCut piece_cut, std::optional<std::int64_t> cut)
    : options_(options),
      separators_{unescaped(options.separator), std::move(end_of_text)},
      piece_cut_(std::move(piece_cut)),
      cut_(cut),
      draws_(options.seed + 2, Rng::Kind::philox),  // train-gpt draws documents from this stream
      documents_(stream_of(options.corpus, options, separators_, piece_cut_)) {}

// False if there is no further stream.
bool PreparedPieces::end_stream() {
  if (ended_) return false;
  const data::CorpusStream& corpus = documents_->corpus();
  survey_.files += std::ssize(corpus.files());
  survey_.faulty.insert(survey_.faulty.end(), corpus.faulty().begin(), corpus.faulty().end());
  survey_.fingerprint = hash_.str();
  if (is_val_ || options_.val.empty()) {
    ended_ = true;
    return false;
  }
  is_val_ = true;
  hash_.add(std::string_view("\1", 1));
  documents_ = stream_of(options_.val, options_, separators_, piece_cut_);
  return true;
}

bool PreparedPieces::next(PartPiece& piece) {
  if (rest_) {
    piece = *rest_;
    rest_.reset();
    return true;
  }
  data::DocumentPiece found;
  while (!documents_->next(found)) {
    if (!end_stream()) return false;
  }
  const std::int64_t before = survey_.bytes;
  see(found);
  piece = {found.text, part_, found.first, found.last};
  if (cut_) divide(piece, before);
  return true;
}

// The cut lies in front of a whole character.
void PreparedPieces::divide(PartPiece& piece, std::int64_t before) {
  const std::string_view text = piece.text;
  auto size =
      static_cast<std::size_t>(std::clamp<std::int64_t>(*cut_ - before, 0, std::ssize(text)));
  const auto is_inside = [&] { return (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80; };
  while (size < text.size() && is_inside()) ++size;
  const bool reaches_cut = before + static_cast<std::int64_t>(size) >= *cut_;
  const PartPiece behind{text.substr(size), DataPartName::val, piece.first || !is_behind_cut_,
                         piece.last};
  if (size > 0)
    piece = {text.substr(0, size), DataPartName::train, piece.first, piece.last || reaches_cut};
  if (behind.text.empty()) return;
  is_behind_cut_ = true;
  if (size > 0) {
    rest_ = behind;
  } else {
    piece = behind;
  }
}

void PreparedPieces::see(const data::DocumentPiece& piece) {
  if (piece.first) {
    const bool drawn = options_.val.empty() && !cut_ &&
                       draws_.uniform_double() < options_.val_fraction.value_or(kValFraction);
    part_ = is_val_ || drawn ? DataPartName::val : DataPartName::train;
    ++survey_.documents;
    ++survey_.parts[static_cast<std::size_t>(part_)].documents;
  }
  const std::int64_t bytes = std::ssize(piece.text);
  survey_.bytes += bytes;
  survey_.parts[static_cast<std::size_t>(part_)].bytes += bytes;
  hash_.add(piece.text);
  if (piece.last) hash_.add(std::string_view("\0", 1));
}

}  // namespace tapegrad::run
