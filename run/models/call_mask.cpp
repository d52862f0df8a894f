#include "tapegrad/run/models/internal/call_mask.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/spaces.h"
#include "tapegrad/run/models/internal/call_wait.h"

namespace tapegrad::run {
namespace {

using data::CallBody;
using data::Token;

void rule_out_all(std::span<float> logits, std::span<const Token> tokens) {
  for (const Token token : tokens) {
    const auto place = static_cast<std::size_t>(token);
    if (place < logits.size()) logits[place] = -std::numeric_limits<float>::infinity();
  }
}

// What all texts of the same rules share.
struct CallTables {
  data::Tokenizer tokenizer;
  std::vector<Token> ends, own_ends = {};  // all; those that the tokenizer does not know
  bool required;
  std::shared_ptr<const data::VocabularyMask> calls = {};
  std::string begin = {};                 // what the calls have before what is behind the mark
  std::unique_ptr<Wait> until = {};       // for free_until, or null
  std::string until_from = {};            // what such a text begins with
  std::unique_ptr<Wait> first_call = {};  // null: required
};

// One text.
class CallTokenMask : public nn::TokenMask {
 public:
  explicit CallTokenMask(std::shared_ptr<const CallTables> tables)
      : tables_(std::move(tables)), phase_(phase_behind_until()) {
    if (!tables_->until_from.empty()) {
      beginning_.emplace();
    } else if (tables_->until) {
      phase_ = Phase::until;
    }
  }

  void allow(std::span<float> logits) override {
    if (phase_ == Phase::calls) {
      keep_calls(logits);
      return;
    }
    const Wait& wait = phase_ == Phase::until ? *tables_->until : *tables_->first_call;
    rule_out_all(logits, wait.forbidden(progress_));
    if (tables_->required) rule_out_all(logits, tables_->ends);
  }

  void accept(std::int32_t token) override {
    const auto among = [token](const auto& ends) {
      return std::ranges::find(ends, token) != ends.end();
    };
    if (phase_ != Phase::calls) {
      if (!among(tables_->ends)) read(tables_->tokenizer.token_bytes(token));
    } else if (!among(tables_->own_ends) || !tables_->calls->complete(position_)) {
      tables_->calls->accept(position_, token);
    }
  }

  std::unique_ptr<nn::TokenMask> clone() const override {
    return std::make_unique<CallTokenMask>(*this);
  }

 private:
  enum class Phase { until, first_call, calls };

  Phase phase_behind_until() const {
    return tables_->first_call ? Phase::first_call : Phase::calls;
  }

  void keep_calls(std::span<float> logits) {
    const auto tokens = tables_->calls->allowed(position_);
    const bool complete = tables_->calls->complete(position_);
    check(tokens->size() > 0 || complete, "no token can follow this part of a call: '{}'",
          position_.text);
    std::vector<std::pair<std::size_t, float>> ends;
    for (const Token end : tables_->own_ends) {
      const auto place = static_cast<std::size_t>(end);
      if (complete && place < logits.size()) ends.emplace_back(place, logits[place]);
    }
    tokens->keep_only(logits);
    for (const auto& [place, logit] : ends) logits[place] = logit;
  }

  // True if the answer begins with what free text begins with; `bytes` are then those behind it.
  bool begins_free_text(std::string& bytes) {
    const std::string_view from = tables_->until_from;
    if (beginning_->empty()) bytes.erase(0, bytes.find_first_not_of(kSpaces));
    *beginning_ += bytes;
    if (!beginning_->starts_with(from)) {
      if (!from.starts_with(*beginning_)) beginning_.reset();
      return false;
    }
    bytes = beginning_->substr(from.size());
    beginning_.reset();
    return true;
  }

  void read(std::string bytes) {
    if (beginning_ && begins_free_text(bytes)) {
      progress_ = 0;
      phase_ = Phase::until;
    }
    if (phase_ == Phase::until) {
      auto behind = tables_->until->read(progress_, bytes);
      if (!behind) return;
      progress_ = 0;
      phase_ = phase_behind_until();
      bytes = std::move(*behind);
      if (phase_ == Phase::calls) position_ = tables_->calls->behind(bytes);
    }
    if (phase_ != Phase::first_call) return;
    if (const auto behind = tables_->first_call->read(progress_, bytes)) {
      phase_ = Phase::calls;
      position_ = tables_->calls->behind(tables_->begin + *behind);
    }
  }

  std::shared_ptr<const CallTables> tables_;
  Phase phase_;
  std::optional<std::string> beginning_ = {};  // which may yet be that of free text
  Wait::Progress progress_ = 0;
  data::VocabularyMask::Position position_ = {};
};

char bracket_of(const data::CallFormat& format) {
  if (format.body == CallBody::object) return '{';
  check(format.body == CallBody::list || format.body == CallBody::python,
        "[call_mask] calls of the format {} have no begin mark, so nobody can see where they begin "
        "in free text",
        format.name);
  return '[';
}

std::shared_ptr<const data::VocabularyMask> mask_of_calls(
    const CallRules& rules, const CallTables& tables,
    const std::shared_ptr<const data::TokenTrie>& tokens, std::size_t most_terms) {
  const auto marks = data::call_marks(rules.format, tables.tokenizer, tables.ends);
  data::GrammarLimits limits{.most_terms = most_terms, .alphabet = tokens->single_bytes()};
  std::vector<data::AddedToken> added;
  for (const data::MarkToken& mark : marks.tokens) {
    added.push_back(mark.added);
    limits.alphabet.set(mark.added.byte);
  }
  auto grammar = data::call_grammar(rules.format, rules.functions, rules.several, marks, limits);
  return std::make_shared<const data::VocabularyMask>(tokens, std::move(grammar), added);
}

void wait_for_call(const CallRules& rules, CallTables& tables, const EachToken& each_token) {
  tables.begin = without_space(rules.format.begin);
  Wait::Progress states = 1;
  if (tables.begin.empty()) {
    auto bracket = std::make_unique<WaitForBracket>(bracket_of(rules.format), rules.format.before);
    states = bracket->states();
    tables.first_call = std::move(bracket);
  } else {
    tables.first_call = std::make_unique<WaitForText>(tables.begin);
    states = tables.begin.size();
  }
  auto begun = tables.calls->behind(tables.begin);
  tables.first_call->find_forbidden(each_token, states, [&](const std::string& behind) {
    return tables.calls->fits(begun, behind);
  });
}

// A token with the end of this text and the beginning of a call is not worth a thought.
void wait_for_text(const std::string& text, CallTables& tables, const EachToken& each_token) {
  tables.until = std::make_unique<WaitForText>(text);
  auto start = tables.calls->behind("");
  tables.until->find_forbidden(each_token, text.size(), [&](const std::string& behind) {
    Wait::Progress progress = 0;
    return tables.first_call ? !tables.first_call->read(progress, behind)
                             : tables.calls->fits(start, behind);
  });
}

}  // namespace

CallMask call_mask(const CallRules& rules, const data::Tokenizer& tokenizer,
                   const std::shared_ptr<const data::TokenTrie>& tokens, std::size_t most_terms) {
  auto tables = std::make_shared<CallTables>(
      CallTables{.tokenizer = tokenizer, .ends = tokenizer.ends(), .required = rules.required});
  for (const Token end : rules.ends) {
    if (std::ranges::find(tables->ends, end) != tables->ends.end()) continue;
    tables->ends.push_back(end);
    tables->own_ends.push_back(end);
  }
  tables->calls = mask_of_calls(rules, *tables, tokens, most_terms);
  const auto each_token = [&](const UseToken& use) {
    for (Token token = 0; token < tokens->vocab_size(); ++token) {
      const std::string_view bytes = tokens->bytes_of(token);
      if (!bytes.empty()) {
        use(token, bytes);
      } else if (std::ranges::find(tables->ends, token) == tables->ends.end()) {
        use(token, tokenizer.token_bytes(token));
      }
    }
  };
  if (!rules.required) wait_for_call(rules, *tables, each_token);
  const bool begins_with_calls = rules.required && !rules.free_from.empty();
  if (!rules.free_until.empty() && !begins_with_calls) {
    wait_for_text(rules.free_until, *tables, each_token);
    tables->until_from = rules.free_from;
  }
  const auto calls = tables->calls;
  return {std::make_shared<const CallTokenMask>(std::move(tables)), calls};
}

}  // namespace tapegrad::run
