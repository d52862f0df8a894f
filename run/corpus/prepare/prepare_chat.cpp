// tapegrad prepare --chat: conversations become a folder of tokens.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/data/turns.h"
#include "tapegrad/run/corpus/chat/add_chatml.h"
#include "tapegrad/run/corpus/chat/chat_encode.h"
#include "tapegrad/run/corpus/chat/chat_text.h"
#include "tapegrad/run/corpus/chat/chat_tokenizer.h"
#include "tapegrad/run/corpus/prepare/internal/prepare_encode.h"
#include "tapegrad/run/corpus/prepare/internal/prepare_progress.h"
#include "tapegrad/run/corpus/prepare/prepare.h"
#include "tapegrad/run/corpus/text_data.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/run/models/chat_template_of.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::run {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostChatBytes = std::int64_t{1} << 60;
// No block is longer, so that nothing is cut before it is known which block there will be.
constexpr std::int64_t kLongestBlock = INT32_MAX - 1;
// Conversations that are in memory at once.
constexpr std::int64_t kMostPending = 4096, kMostPendingBytes = std::int64_t{8} << 20;
constexpr std::size_t kMostPrompts = 16;
constexpr std::int64_t kLongestPrompt = 8192;
constexpr std::size_t kMostPromptBytes = 1 << 16;  // and of the answer that is wanted

std::int64_t bytes_of(const data::Conversation& conversation) {
  std::int64_t bytes = std::ssize(conversation.tools);
  for (const data::Message& message : conversation.messages) {
    bytes += std::ssize(message.content) + std::ssize(message.json);
  }
  return bytes;
}

// The tokenizer and the template that make the tokens.
struct ChatTools {
  data::Tokenizer tokenizer;
  data::ChatTemplate chat_template;
  ModelSettings settings;  // that say the template
};

// Tokens and turns of a part, on their way into files.
struct PartWriter {
  PartWriter(const fs::path& folder, DataPartName part, const PrepareOptions& options, int bits,
             const std::function<void(const data::ShardInfo&)>& on_shard)
      : files(folder, part, options, bits, options.shard_tokens, state, on_shard),
        turns(folder / turns_name(part), data::TokenFormat::nanogpt, data::kTurnBits) {}

  PartState state;
  PartFiles files;
  data::ShardWriter turns;
  std::int64_t conversations = 0;
};

class ChatPreparation {
 public:
  explicit ChatPreparation(const PrepareOptions& options)
      : options_(options),
        path_(options.out_dir),
        folder_(path_, options.overwrite),
        bad_(options.strict_data) {}

  void run() {
    open_state();
    survey();
    const ChatTools tools = make_tools();
    // Another call's files are not removed before all this has succeeded.
    write_state(path_, state_);
    folder_.clear();
    encode(tools);
    finish(tools);
  }

 private:
  // One conversation of the files, which lie one behind the other.
  struct Item {
    data::Conversation conversation;
    std::int64_t line;
    std::size_t file;
    DataPartName part;
  };

  void open_state();
  void survey();
  // Passes each conversation on with its part. `bad` gets the lines that are none.
  void read(data::BadLines& bad, const std::function<void(Item&&)>& take);
  ChatTools make_tools();
  void encode(const ChatTools& tools);
  void write_pending(const ChatTools& tools);
  void add_prompt(const Item& item, const ChatTools& tools);
  void finish(const ChatTools& tools);

  bool is_val_file(std::size_t file) const { return file >= options_.chat.size(); }
  std::vector<std::string> paths() const;

  const PrepareOptions options_;
  const fs::path path_;
  const PrepareFolder folder_;
  Terminal terminal_;
  PrepareState state_;
  data::BadLines bad_;
  std::vector<data::ConversationFile> files_;  // without their conversations
  std::int64_t conversations_ = 0, bytes_ = 0;
  std::vector<bool> is_val_;  // of the conversations of --chat, unless there is --val
  std::int64_t divided_ = 0;  // lost their last turns
  std::int64_t spelled_ = 0;  // special tokens that messages spell, which are text
  std::unique_ptr<PartWriter> parts_[kDataParts];
  std::vector<Item> pending_;
  data::ChatInfo info_;
};

std::vector<std::string> ChatPreparation::paths() const {
  std::vector<std::string> paths;
  for (const std::string& file : options_.chat) paths.push_back(weighted_file(file).path);
  for (const std::string& file : options_.val) paths.push_back(weighted_file(file).path);
  return paths;
}

void ChatPreparation::open_state() {
  const std::string options = options_text(options_);
  if (path_exists(path_ / kPrepareFile) && !options_.overwrite) {
    const PrepareState found = read_state(path_);
    check(found.options == options || found.tokenizer.empty(),
          "--out-dir {} was begun with other options: {}. Give the same, or --overwrite to begin "
          "anew",
          path_.string(), found.options);
  }
  state_.options = options;
}

void ChatPreparation::read(data::BadLines& bad, const std::function<void(Item&&)>& take) {
  const data::CorpusOptions options{.max_bytes = kMostChatBytes, .encoding = options_.encoding};
  const std::vector<std::string> all = paths();
  std::size_t place = 0;
  for (std::size_t f = 0; f < all.size(); ++f) {
    data::ConversationFile file = data::each_conversation(
        all[f], options, bad, [&](data::Conversation&& conversation, std::int64_t line) {
          stop_if_interrupted();
          const bool drawn = !is_val_file(f) && place < is_val_.size() && is_val_[place];
          ++place;
          const bool val = is_val_file(f) || drawn;
          take({std::move(conversation), line, f, val ? DataPartName::val : DataPartName::train});
        });
    if (files_.size() == f) files_.push_back(file);
    check(files_[f].fingerprint == file.fingerprint, "--chat: '{}' has changed while it was read",
          all[f]);
  }
}

void ChatPreparation::survey() {
  ProgressLine progress(terminal_, "reading", 0);
  std::int64_t to_train = 0, bytes = 0;
  read(bad_, [&](Item&& item) {
    to_train += is_val_file(item.file) ? 0 : 1;
    ++conversations_;
    progress.at(bytes += bytes_of(item.conversation));
  });
  for (const data::ConversationFile& file : files_) bytes_ += file.bytes;
  note_bad_lines(bad_, 0);
  note_left_out_keys(files_);
  if (options_.val.empty()) {
    is_val_ = held_out_chats(to_train, options_.val_fraction.value_or(kValFraction), options_.seed);
  }
  terminal_.line(fmt::format("conversations: {} of {}, {}", grouped(conversations_),
                             counted(std::ssize(files_), "file"), size_text(bytes_)));
}

ChatTools ChatPreparation::make_tools() {
  if (!options_.model.empty()) {
    OpenedModel model = open_model(options_.model);
    add_chatml(model);
    const auto own = chat_template_of(model.settings, model.tokenizer);
    check(own.has_value(), "{}: it has no chat template", options_.model);
    return {model.tokenizer, own->with_special_in_messages(options_.special_in_messages),
            model.settings};
  }
  const data::Tokenizer tokenizer =
      make_chat_tokenizer(options_.tokenizer, [&](data::PieceCounts& pieces) {
        ProgressLine progress(terminal_, "counting words", bytes_);
        data::BadLines known;
        std::int64_t bytes = 0;
        read(known, [&](Item&& item) {
          progress.at(bytes += bytes_of(item.conversation));
          if (item.part == DataPartName::train) count_words(item.conversation, pieces);
        });
      });
  const auto chatml = data::ChatTemplate::chatml();
  return {tokenizer, chatml.with_special_in_messages(options_.special_in_messages),
          settings_with_template({}, tokenizer, chatml)};
}

void ChatPreparation::encode(const ChatTools& tools) {
  const int bits = data::bits_for(tools.tokenizer.vocab_size());
  for (std::size_t i = 0; i < kDataParts; ++i) {
    parts_[i] = std::make_unique<PartWriter>(
        path_, static_cast<DataPartName>(i), options_, bits, [&](const data::ShardInfo& shard) {
          terminal_.line(fmt::format("{}: {}", shard.name, counted(shard.tokens, "token")));
        });
  }
  for (const std::string& file : options_.chat) {
    const WeightedFile given = weighted_file(file);
    info_.files.push_back({fs::path(given.path).filename().string(), 0, given.weight});
  }
  const std::int64_t before = bad_.count();
  ProgressLine progress(terminal_, "encoding", bytes_);
  data::BadLines known;
  std::int64_t bytes = 0, pending = 0;
  read(known, [&](Item&& item) {
    const std::int64_t own = bytes_of(item.conversation);
    pending_.push_back(std::move(item));
    progress.at(bytes += own);
    pending += own;
    if (std::ssize(pending_) < kMostPending && pending < kMostPendingBytes) return;
    write_pending(tools);
    pending = 0;
  });
  write_pending(tools);
  note_bad_lines(bad_, before);
  note_divided(divided_);
  note_spelled(spelled_);
}

void ChatPreparation::write_pending(const ChatTools& tools) {
  const ChatEncoding encoding{tools.chat_template, data::ChatLoss::answers, kLongestBlock};
  std::vector<EncodedChat> encoded(pending_.size());
  parallel_for(std::ssize(pending_), 8, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      encoded[i] = encode_chat(pending_[i].conversation, tools.tokenizer, encoding);
    }
  });
  std::vector<data::Token> numbers;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const Item& item = pending_[i];
    if (!encoded[i].error.empty()) {
      bad_.add(files_[item.file].path, item.line, encoded[i].error);
      continue;
    }
    divided_ += encoded[i].chat.divided ? 1 : 0;
    spelled_ += encoded[i].chat.spelled;
    PartWriter& part = *parts_[static_cast<std::size_t>(item.part)];
    if (item.part == DataPartName::val) add_prompt(item, tools);
    part.files.write(part.conversations++, encoded[i].chat.tokens);
    numbers.clear();
    data::append_turns(encoded[i].chat, numbers);
    part.turns.write(numbers);
    if (item.part == DataPartName::train) ++info_.files[item.file].conversations;
  }
  pending_.clear();
}

// Of a conversation that follows those that the part has.
void ChatPreparation::add_prompt(const Item& item, const ChatTools& tools) {
  if (info_.prompts.size() == kMostPrompts) return;
  try {
    ChatPrompt prompt = chat_prompt(item.conversation, tools.tokenizer, tools.chat_template);
    const std::size_t bytes = prompt.question.size() + prompt.wanted.size();
    const bool fits = std::ssize(prompt.tokens) <= kLongestPrompt && bytes <= kMostPromptBytes;
    if (prompt.tokens.empty() || !fits) return;
    info_.prompts.push_back({parts_[1]->conversations, std::move(prompt.question),
                             std::move(prompt.wanted), std::move(prompt.tokens)});
  } catch (const Error& error) {
    print_error(fmt::format("note: '{}', line {}: no prompt to try the model with: {}\n",
                            files_[item.file].path.string(), item.line, error.what()));
  }
}

void ChatPreparation::finish(const ChatTools& tools) {
  data::DataInfo info;
  info.format = options_.format;
  Fingerprint hash;
  for (const data::ConversationFile& file : files_) hash.add(file.fingerprint + ";");
  info.source = {files_.size() == 1 ? files_[0].path.filename().string()
                                    : fmt::format("{} files", files_.size()),
                 bytes_, hash.str()};
  for (std::size_t i = 0; i < kDataParts; ++i) {
    PartWriter& part = *parts_[i];
    check(part.conversations > 0,
          "no conversation is left for the {} part: {} lines are no conversations to learn from{}",
          i == 0 ? "training" : "validation", grouped(bad_.count()),
          bad_.first().empty() ? "" : ". The first bad line: " + bad_.first()[0]);
    part.files.finish();
    (i == 0 ? info_.train : info_.val) = part.turns.finish();
    (i == 0 ? info.train : info.val) = {part.state.shards, part.conversations};
  }
  info_.chat_template = fingerprint(tools.chat_template.source());
  info_.bad_lines = bad_.count();
  info.chat = info_;
  save_settings(path_, tools.settings, tools.tokenizer);
  data::write_data_json(path_, info, tools.tokenizer);
  remove_or_fail(path_ / kPrepareFile);
  for (std::size_t i = 0; i < kDataParts; ++i) {
    const data::DataPart& part = i == 0 ? info.train : info.val;
    terminal_.line(fmt::format("{}: {} tokens of {} conversations", kDataPartNames[i],
                               grouped(part.tokens()), grouped(part.documents)));
  }
}

}  // namespace

int prepare_chat(const PrepareOptions& options) {
  options.validate();
  catch_interrupts();
  ChatPreparation preparation(options);
  try {
    preparation.run();
    return 0;
  } catch (const Interrupted&) {
    print_error("stopped: the same command begins anew\n");
    return kInterruptedExitCode;
  }
}

}  // namespace tapegrad::run
