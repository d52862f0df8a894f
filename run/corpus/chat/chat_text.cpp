#include "tapegrad/run/corpus/chat/chat_text.h"

#include <algorithm>
#include <cmath>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/random.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"

namespace tapegrad::run {
void note_bad_lines(const data::BadLines& bad, std::int64_t before) {
  const std::int64_t count = bad.count() - before;
  if (count == 0) return;
  print_error(fmt::format("note: {} {} left out, as nothing to learn from:\n",
                          counted(count, "line"), count == 1 ? "is" : "are"));
  std::int64_t named = 0;
  for (auto i = static_cast<std::size_t>(before); i < bad.first().size(); ++i, ++named) {
    print_error("  " + bad.first()[i] + "\n");
  }
  if (count > named) print_error(fmt::format("  and {} more\n", grouped(count - named)));
}

void note_left_out_keys(std::span<const data::ConversationFile> files) {
  data::LeftOutKeys keys;
  for (const data::ConversationFile& file : files) {
    for (const auto& [key, count] : file.left_out) keys[key] += count;
  }
  for (const auto& [key, count] : keys) {
    print_error(fmt::format("note: '{}', which {} {}, is left out\n", key, counted(count, "line"),
                            count == 1 ? "has" : "have"));
  }
}

void note_divided(std::int64_t count) {
  if (count == 0) return;
  print_error(
      fmt::format("note: {} {} the last turns: it takes too long to find that many answers by a "
                  "template without {{% generation %}} marks. Divide such conversations\n",
                  counted(count, "conversation"), count == 1 ? "loses" : "lose"));
}

void note_spelled(std::int64_t count) {
  if (count == 0) return;
  print_error(
      fmt::format("note: messages spell special tokens in {} place{}, which {} encoded as text: "
                  "--special-in-messages makes {}\n",
                  grouped(count), count == 1 ? "" : "s", count == 1 ? "is" : "are",
                  count == 1 ? "it such a token" : "them such tokens"));
}

Text read_chat(const CorpusSource& source) {
  auto chat = std::make_shared<ChatText>();
  chat->strict = source.strict;
  chat->bad = data::BadLines(source.strict);
  Text text;
  Fingerprint hash;
  data::CorpusOptions options = corpus_options(source);
  for (const std::string& given : source.paths) {
    const WeightedFile file = weighted_file(given);
    chat->files.push_back(data::read_conversations(
        file.path, options, chat->bad,
        source.is_pairs ? data::LineForm::pair : data::LineForm::conversation));
    chat->weights.push_back(file.weight);
    const data::ConversationFile& read = chat->files.back();
    options.max_bytes -= std::min(options.max_bytes, read.bytes);
    text.identity.bytes += read.bytes;
    text.identity.documents += std::ssize(read.conversations);
    hash.add(fmt::format("{} {};", read.fingerprint, file.weight));
  }
  text.identity.name = chat->files.size() == 1 ? chat->files[0].path.filename().string()
                                               : fmt::format("{} files", chat->files.size());
  text.identity.fingerprint = hash.str();
  if (source.notes) {
    note_bad_lines(chat->bad, 0);
    note_left_out_keys(chat->files);
  }
  text.chat = std::move(chat);
  return text;
}

std::vector<bool> held_out_chats(std::int64_t count, double val_fraction, std::uint64_t seed) {
  check(count >= 2,
        "one line cannot be divided into parts to train and to validate: give more, or others to "
        "validate with by --val");
  const auto held = std::clamp<std::int64_t>(
      std::llround(val_fraction * static_cast<double>(count)), 1, count - 1);
  Rng rng(seed + 2, Rng::Kind::philox);  // as documents are drawn
  const std::vector<std::int64_t> order = rng.randperm(count);
  std::vector<bool> is_val(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < held; ++i) {
    is_val[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = true;
  }
  return is_val;
}

}  // namespace tapegrad::run
