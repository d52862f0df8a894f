#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/random.h"
#include "tapegrad/data/corpus/document_stream.h"
#include "tapegrad/run/corpus/prepare/prepare_options.h"

namespace tapegrad::run {

enum class DataPartName { train, val };
inline constexpr std::string_view kDataPartNames[] = {"train", "val"};
inline constexpr std::size_t kDataParts = 2;

// How documents are divided, unless each is drawn by itself.
struct DocumentDivision {
  std::vector<bool> is_val = {};  // of each document
  // Bytes for training, where a corpus is cut in two and its documents are not drawn.
  std::optional<std::int64_t> cut = {};
};

// The findings of a pass over all documents.
struct Survey {
  struct Part {
    std::int64_t documents = 0, bytes = 0;  // of text; a document that is cut counts twice
  };
  Part parts[kDataParts];  // by the draws, or by the paths of --val
  std::int64_t files = 0, documents = 0, bytes = 0;
  std::string fingerprint;
  std::vector<data::Corpus::Skipped> faulty;
  std::vector<std::size_t> sizes;  // of the first documents, as many as are drawn together
  DocumentDivision division;

  // Sets `division`, and `parts` accordingly: documents are drawn as split_documents draws them,
  // or, if they are too many for that, each by itself.
  void divide(double val_fraction, std::uint64_t seed);
  static constexpr std::int64_t kMostTogether = std::int64_t{1} << 20;
};

// A piece of a document that belongs to a part.
struct PartPiece {
  std::string_view text;
  DataPartName part;
  bool first, last;  // of its document, or of what the part has of it
};

// The documents of --corpus and then those of --val, in pieces, each for its part. Equal corpora
// and options give equal pieces.
class PreparedPieces {
 public:
  // `end_of_text`: see data::Separators. `division`: of an earlier pass, as in Survey.
  PreparedPieces(const PrepareOptions& options, std::string end_of_text, data::PieceCut piece_cut,
                 DocumentDivision division = {});

  // The next piece, which stays until the next call; false at the end.
  bool next(PartPiece& piece);
  // The findings in all that was read so far.
  const Survey& survey() const { return survey_; }

 private:
  bool is_drawn();
  void see(const data::DocumentPiece& piece);
  void divide(PartPiece& piece, std::int64_t before);
  bool end_stream();

  const PrepareOptions options_;
  const data::Separators separators_;
  const data::PieceCut piece_cut_;
  const DocumentDivision division_;
  Rng draws_;
  std::unique_ptr<data::DocumentStream> documents_;
  bool is_val_ = false, ended_ = false;  // --val is read; all is
  DataPartName part_ = DataPartName::train;
  std::optional<PartPiece> rest_;  // of a piece that the cut has divided
  bool is_behind_cut_ = false;
  Fingerprint hash_;
  Survey survey_;
};

// The paths, with the file that stands for stdin.
std::vector<std::filesystem::path> paths_of(const std::vector<std::string>& paths,
                                            const std::string& out_dir);
inline constexpr const char* kStdinFile = "stdin.part";

}  // namespace tapegrad::run
