#include "tapegrad/run/corpus/chat/internal/chat_folder.h"

#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/data/turns.h"
#include "tapegrad/run/corpus/internal/token_folder.h"
#include "tapegrad/run/models/chat_template_of.h"
#include "tapegrad/run/models/model_settings.h"

namespace tapegrad::run {
namespace {

// A part of a folder.
struct ChatPart {
  const std::vector<data::TokenFile>& files;
  const data::DataPart& info;
  const std::vector<data::TokenFile>& turns;
  const data::ShardInfo& turns_info;
};

// Appends the conversations of a part that a block has room for. `kept`: of each of the part's, its
// place in the set; -1 if it has none.
std::shared_ptr<data::ChatSet> set_of_part(const ChatPart& part, const data::Tokenizer& tokenizer,
                                           const ChatEncoding& encoding, ChatData& data,
                                           std::vector<std::int64_t>& kept) {
  check_part(TokenPart{part.files, {}, 0, part.info.shards}, tokenizer.vocab_size());
  check_part(TokenPart{part.turns, {}, 0, std::vector{part.turns_info}}, INT32_MAX);
  const data::TokenSource tokens(part.files);
  const std::string name = part.turns.front().path.string();
  data::TurnReader turns(data::TokenSource(part.turns), tokens.size(), name);
  auto set = std::make_shared<data::ChatSet>(tokens);
  for (data::TurnReader::Chat chat; turns.next(chat);) {
    const std::int64_t whole = chat.length;
    const bool fits = data::cut_at_turn(chat.length, chat.answers, encoding.block_size);
    const bool counts = fits && data::counted_targets(chat.length, chat.answers, encoding.loss) > 0;
    kept.push_back(counts ? set->size() : -1);
    data.too_long += fits ? 0 : 1;
    data.bad_lines += fits && !counts ? 1 : 0;
    if (!counts) continue;
    data.cut += chat.length < whole ? 1 : 0;
    set->add(chat.begin, chat.length, chat.answers);
  }
  check(std::ssize(kept) == part.info.documents, "{}: it has {} conversations, and {} says {}",
        name, kept.size(), data::kDataFile, part.info.documents);
  return set;
}

}  // namespace

Text read_chat_folder(const std::filesystem::path& path) {
  data::DataFolder data = data::open_data_folder(path);
  const auto chat_template = chat_template_of(load_settings(path), data.tokenizer);
  const data::ChatInfo& chat = *data.info.chat;
  check(chat_template && fingerprint(chat_template->source()) == chat.chat_template,
        "{}: its chat template is not the one that made its tokens, as {} says", path.string(),
        data::kDataFile);
  Fingerprint hash;
  hash.add(data::fingerprint_of(data.info.train.shards, data.info.val.shards));
  hash.add(data::fingerprint_of({chat.train}, {chat.val}));
  hash.add(chat.chat_template);
  for (const data::ChatInfo::File& file : chat.files) {
    hash.add(fmt::format("{} {};", file.conversations, file.weight));
  }
  Text text;
  text.identity = {
      fmt::format("{} ({})", absolute_path(path).lexically_normal().filename().string(),
                  data.info.source.name),
      data.info.source.bytes, hash.str(), data.info.train.documents + data.info.val.documents};
  auto read = std::make_shared<ChatText>();
  read->folder = std::make_shared<const ChatFolder>(
      ChatFolder{path.string(), std::move(data), *chat_template});
  text.chat = std::move(read);
  return text;
}

void read_parts(const ChatFolder& folder, const data::Tokenizer& tokenizer,
                const ChatEncoding& encoding, ChatData& data) {
  const data::DataFolder& from = folder.data;
  const data::ChatInfo& chat = *from.info.chat;
  check_same_tokens(from.tokenizer, tokenizer, folder.path);
  check(folder.chat_template.source() == encoding.chat_template.source(),
        "{}: its tokens were made by another chat template than that of the model: prepare the "
        "conversations again, with tapegrad prepare --chat FILE --model MODEL",
        folder.path);
  data.bad_lines += chat.bad_lines;
  std::vector<std::int64_t> in_train, in_val;
  const auto train = set_of_part({from.train, from.info.train, from.train_turns, chat.train},
                                 tokenizer, encoding, data, in_train);
  std::size_t next = 0;
  for (const data::ChatInfo::File& file : chat.files) {
    train->files.push_back({0, file.weight});
    for (std::int64_t i = 0; i < file.conversations; ++i, ++next) {
      train->files.back().conversations += in_train[next] >= 0 ? 1 : 0;
    }
  }
  const auto val = set_of_part({from.val, from.info.val, from.val_turns, chat.val}, tokenizer,
                               encoding, data, in_val);
  val->files.push_back({val->size(), 1});
  for (const data::ChatInfo::Prompt& prompt : chat.prompts) {
    const bool fits = !prompt.tokens.empty() && std::ssize(prompt.tokens) < encoding.block_size;
    if (data.prompts.size() == ChatData::kPrompts || !fits) continue;
    if (prompt.conversation >= std::ssize(in_val)) continue;
    if (in_val[static_cast<std::size_t>(prompt.conversation)] < 0) continue;
    data.prompts.push_back({prompt.question, prompt.wanted, prompt.tokens});
  }
  data.train = train;
  data.val = val;
}

}  // namespace tapegrad::run
