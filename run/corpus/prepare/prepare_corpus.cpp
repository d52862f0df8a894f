#include "tapegrad/run/corpus/prepare/internal/prepare_corpus.h"

#include <algorithm>
#include <utility>

#include "tapegrad/data/corpus/documents.h"
#include "tapegrad/run/corpus/text_data.h"

namespace tapegrad::run {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::uint64_t kDrawStream = 2;  // behind the seed: train-gpt draws documents from it

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

void Survey::divide(double val_fraction, std::uint64_t seed) {
  if (documents <= kMostTogether) {
    Rng draws(seed + kDrawStream, Rng::Kind::philox);
    division.is_val = data::draw_documents(sizes, val_fraction, draws);
    if (!division.is_val.empty()) {
      parts[0] = parts[1] = {};
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        Part& part = parts[division.is_val[i] ? 1 : 0];
        ++part.documents;
        part.bytes += static_cast<std::int64_t>(sizes[i]);
      }
      return;
    }
  } else {
    // One that has most of the text may have been drawn, or not.
    const auto wanted = val_fraction * static_cast<double>(bytes);
    const auto val = static_cast<double>(parts[1].bytes);
    if (val >= wanted / 2 && val <= wanted * 2 && parts[0].bytes > 0) return;
  }
  std::optional<std::int64_t>& cut = division.cut;
  cut = static_cast<std::int64_t>((1 - val_fraction) * static_cast<double>(bytes));
  parts[0] = {documents, *cut};
  parts[1] = {documents, bytes - *cut};
}

PreparedPieces::PreparedPieces(const PrepareOptions& options, std::string end_of_text,
                               data::PieceCut piece_cut, DocumentDivision division)
    : options_(options),
      separators_{unescaped(options.separator), std::move(end_of_text)},
      piece_cut_(std::move(piece_cut)),
      division_(std::move(division)),
      draws_(options.seed + kDrawStream, Rng::Kind::philox),
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
  if (division_.cut) divide(piece, before);
  return true;
}

// The cut lies in front of a whole character.
void PreparedPieces::divide(PartPiece& piece, std::int64_t before) {
  const std::string_view text = piece.text;
  const std::int64_t cut = *division_.cut;
  auto size = static_cast<std::size_t>(std::clamp<std::int64_t>(cut - before, 0, std::ssize(text)));
  const auto is_inside = [&] { return (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80; };
  while (size < text.size() && is_inside()) ++size;
  const bool reaches_cut = before + static_cast<std::int64_t>(size) >= cut;
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

// True if the next document is for validation.
bool PreparedPieces::is_drawn() {
  if (!options_.val.empty() || division_.cut) return false;
  const auto number = static_cast<std::size_t>(survey_.documents);
  // A corpus that has changed is refused when all of it was read.
  if (!division_.is_val.empty())
    return number < division_.is_val.size() && division_.is_val[number];
  return draws_.uniform_double() < options_.val_fraction.value_or(kValFraction);
}

void PreparedPieces::see(const data::DocumentPiece& piece) {
  if (piece.first) {
    part_ = is_val_ || is_drawn() ? DataPartName::val : DataPartName::train;
    ++survey_.documents;
    if (survey_.documents <= Survey::kMostTogether) survey_.sizes.push_back(0);
    ++survey_.parts[static_cast<std::size_t>(part_)].documents;
  }
  const std::int64_t bytes = std::ssize(piece.text);
  survey_.bytes += bytes;
  if (survey_.documents <= Survey::kMostTogether) survey_.sizes.back() += piece.text.size();
  survey_.parts[static_cast<std::size_t>(part_)].bytes += bytes;
  hash_.add(piece.text);
  if (piece.last) hash_.add(std::string_view("\0", 1));
}

}  // namespace tapegrad::run
