#include "tapegrad/run/corpus/chat/chat_data.h"

#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/run/corpus/chat/internal/chat_folder.h"

namespace tapegrad::run {
namespace {

// One conversation and where it is from.
struct Place {
  std::size_t file = 0, index = 0;
};

// Of a conversation that becomes tokens. A template may refuse it up to its last answer all the
// same.
void add_prompt(const data::Conversation& whole, std::string_view place,
                const data::Tokenizer& tokenizer, const ChatEncoding& encoding, ChatData& data) {
  if (data.prompts.size() == ChatData::kPrompts) return;
  try {
    ChatPrompt prompt = chat_prompt(whole, tokenizer, encoding.chat_template);
    const std::int64_t length = std::ssize(prompt.tokens);
    if (0 < length && length < encoding.block_size) data.prompts.push_back(std::move(prompt));
  } catch (const Error& error) {
    print_error(
        fmt::format("note: {}: no prompt to try the model with: {}\n", place, error.what()));
  }
}

// Encodes conversations of `text` in order, and counts in `data` those that are left out or cut.
std::shared_ptr<const data::ChatSet> encode_part(const ChatText& text, data::BadLines& bad,
                                                 const std::vector<Place>& places,
                                                 const data::Tokenizer& tokenizer,
                                                 const ChatEncoding& encoding, bool weighted,
                                                 ChatData& data) {
  std::vector<EncodedChat> encoded(places.size());
  const auto at = [&](const Place& place) -> const data::Conversation& {
    return text.files[place.file].conversations[place.index];
  };
  parallel_for(std::ssize(places), 8, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::vector<data::Conversation>& rejected = text.files[places[i].file].rejected;
      encoded[i] = rejected.empty()
                       ? encode_chat(at(places[i]), tokenizer, encoding)
                       : encode_pair(at(places[i]), rejected[places[i].index], tokenizer, encoding);
    }
  });
  auto set = std::make_shared<data::ChatSet>();
  for (std::size_t f = 0; f < text.files.size(); ++f) {
    set->files.push_back({0, weighted ? text.weights[f] : 1});
    set->pairs = set->pairs || !text.files[f].rejected.empty();
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const data::ConversationFile& file = text.files[places[i].file];
    if (!encoded[i].error.empty()) {
      bad.add(file.path, file.lines[places[i].index], encoded[i].error);
    } else if (!encoded[i].fits) {
      ++data.too_long;
    } else {
      data.cut += encoded[i].cut ? 1 : 0;
      data.divided += encoded[i].chat.divided ? 1 : 0;
      data.spelled += encoded[i].chat.spelled;
      ++set->files[places[i].file].conversations;
      set->add(encoded[i].chat);
      if (weighted) continue;
      add_prompt(at(places[i]),
                 fmt::format("'{}', line {}", file.path.string(), file.lines[places[i].index]),
                 tokenizer, encoding, data);
    }
  }
  return set;
}

std::vector<Place> places_of(const ChatText& text) {
  std::vector<Place> places;
  for (std::size_t f = 0; f < text.files.size(); ++f) {
    for (std::size_t i = 0; i < text.files[f].conversations.size(); ++i) places.push_back({f, i});
  }
  return places;
}

// Moves random ones to the second part, both in their order.
std::pair<std::vector<Place>, std::vector<Place>> divide_places(const std::vector<Place>& all,
                                                                double val_fraction,
                                                                std::uint64_t seed) {
  const std::vector<bool> is_val = held_out_chats(std::ssize(all), val_fraction, seed);
  std::pair<std::vector<Place>, std::vector<Place>> parts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    (is_val[i] ? parts.second : parts.first).push_back(all[i]);
  }
  return parts;
}

// The places of the conversations to train and to validate with.
std::pair<std::vector<Place>, std::vector<Place>> divided(const Text& text, double val_fraction,
                                                          std::uint64_t seed) {
  if (text.val) return {places_of(*text.chat), places_of(*text.val->chat)};
  return divide_places(places_of(*text.chat), val_fraction, seed);
}

const char* noun_of(const data::ChatSet& set) { return set.pairs ? "pair" : "conversation"; }

void check_left(const data::ChatSet& set, std::string_view split, const ChatData& data,
                const data::BadLines& bad) {
  if (!set.empty()) return;
  const std::string reason = bad.first().empty() ? "" : ". The first bad line: " + bad.first()[0];
  fail(
      "no {0} is left for the {1} part: {2} are no {0}s to learn from, and of {3} the first answer "
      "ends behind {4}--block-size{5}",
      noun_of(set), split, grouped(bad.count()), grouped(data.too_long),
      set.pairs ? "half of " : "", reason);
}

void note_cuts(const ChatData& data, std::int64_t block_size) {
  const char* const noun = noun_of(*data.val);
  if (data.cut > 0) {
    print_error(fmt::format("note: {} longer than --block-size {} lose{} the last turns\n",
                            counted(data.cut, noun), block_size, data.cut == 1 ? "s" : ""));
  }
  note_divided(data.divided);
  note_spelled(data.spelled);
  if (data.too_long > 0) {
    print_error(
        fmt::format("note: {} {} left out: the first answer ends behind {}--block-size {}\n",
                    counted(data.too_long, noun), data.too_long == 1 ? "is" : "are",
                    data.val->pairs ? "half of " : "", block_size));
  }
}

ChatData empty_data(const ChatEncoding& encoding) {
  return {.train = nullptr,
          .val = nullptr,
          .chat_template = encoding.chat_template,
          .loss = encoding.loss};
}

// The rest of the work, when the parts are known. There may be none to train with.
void finish_data(ChatData& data, const data::Tokenizer& tokenizer, std::int64_t block_size,
                 const data::BadLines& bad) {
  if (data.train) check_left(*data.train, "training", data, bad);
  check_left(*data.val, data.train ? "validation" : "evaluated", data, bad);
  note_cuts(data, block_size);
  data.ends = ends_of_answers(tokenizer, (*data.val)[0]);
}

ChatData data_of_folder(const ChatFolder& folder, const data::Tokenizer& tokenizer,
                        const ChatEncoding& encoding) {
  ChatData data = empty_data(encoding);
  read_parts(folder, tokenizer, encoding, data);
  finish_data(data, tokenizer, encoding.block_size, data::BadLines());
  return data;
}

}  // namespace

ChatData chat_data_of(const Text& text, const data::Tokenizer& tokenizer,
                      const ChatEncoding& encoding, double val_fraction, std::uint64_t seed) {
  const ChatText& chat = *text.chat;
  if (chat.folder) return data_of_folder(*chat.folder, tokenizer, encoding);
  ChatData data = empty_data(encoding);
  data::BadLines bad = chat.bad;
  const auto parts = divided(text, val_fraction, seed);
  data.train = encode_part(chat, bad, parts.first, tokenizer, encoding, true, data);
  const ChatText& val = text.val ? *text.val->chat : chat;
  data.val = encode_part(val, bad, parts.second, tokenizer, encoding, false, data);
  note_bad_lines(bad, chat.bad.count());
  finish_data(data, tokenizer, encoding.block_size, bad);
  data.bad_lines = bad.count() + (text.val ? text.val->chat->bad.count() : 0);
  return data;
}

ChatData chat_data_of(const Text& text, const data::Tokenizer& tokenizer,
                      const ChatEncoding& encoding) {
  if (text.chat->folder) return data_of_folder(*text.chat->folder, tokenizer, encoding);
  ChatData data = empty_data(encoding);
  data::BadLines bad = text.chat->bad;
  const std::vector<Place> all = places_of(*text.chat);
  data.val = encode_part(*text.chat, bad, all, tokenizer, encoding, false, data);
  note_bad_lines(bad, text.chat->bad.count());
  finish_data(data, tokenizer, encoding.block_size, bad);
  data.bad_lines = bad.count();
  return data;
}

std::vector<const data::Conversation*> training_chats(const Text& text, double val_fraction,
                                                      std::uint64_t seed) {
  std::vector<const data::Conversation*> chats;
  for (const Place& place : divided(text, val_fraction, seed).first) {
    chats.push_back(&text.chat->files[place.file].conversations[place.index]);
  }
  return chats;
}

std::string about_chat(const ChatData& chat) {
  const std::int64_t tokens = chat.train->tokens(), learnt = chat.train->counted(chat.loss);
  const std::string noun = noun_of(*chat.train);
  std::string text = fmt::format(
      "{} of {} tokens to train ({:.3g} %), {} of {} to validate, in {} and {}", grouped(learnt),
      grouped(tokens), 100 * static_cast<double>(learnt) / static_cast<double>(tokens),
      grouped(chat.val->counted(chat.loss)), grouped(chat.val->tokens()),
      grouped(chat.train->size()), counted(chat.val->size(), noun));
  if (chat.bad_lines > 0) text += "; " + counted(chat.bad_lines, "bad line") + " left out";
  if (chat.cut > 0) text += "; " + counted(chat.cut, noun) + " cut at a turn";
  if (chat.too_long > 0) text += "; " + grouped(chat.too_long) + " left out as too long";
  return text;
}

}  // namespace tapegrad::run
